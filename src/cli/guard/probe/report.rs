//! What a run says: for people as it goes, for scripts as one object.

use std::io::{self, Write};

use serde::Serialize;

use super::check::{Check, Finding};
use super::exchange::ExchangeJson;

/// How many findings of one check people are shown; the JSON report has all.
const SHOWN_MAX: usize = 5;

/// How a check came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    Held,
    Broken(Vec<Finding>),
    NotTried(String),
}

/// A check with how it came out.
pub(super) struct Judged {
    pub(super) check: Check,
    pub(super) outcome: Outcome,
}

/// How many came out how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(super) struct Summary {
    held: usize,
    broken: usize,
    not_tried: usize,
}

impl Summary {
    pub(super) fn of(judged: &[Judged]) -> Self {
        let mut summary = Self::default();
        for one in judged {
            match one.outcome {
                Outcome::Held => summary.held += 1,
                Outcome::Broken(_) => summary.broken += 1,
                Outcome::NotTried(_) => summary.not_tried += 1,
            }
        }
        summary
    }

    pub(super) fn is_broken(self) -> bool {
        self.broken > 0
    }
}

impl Outcome {
    fn word(&self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Broken(_) => "broken",
            Self::NotTried(_) => "not tried",
        }
    }
}

/// Tells one check, as soon as it has come out.
pub(super) fn tell(out: &mut dyn Write, judged: &Judged) -> io::Result<()> {
    let Judged { check, outcome } = judged;
    let (word, name) = (outcome.word(), check.name);
    match outcome {
        Outcome::Held => writeln!(out, "{word:<10} {name:<25} {}", check.promise),
        Outcome::NotTried(why) => writeln!(out, "{word:<10} {name:<25} {why}"),
        Outcome::Broken(findings) => {
            writeln!(out, "{:<10} {name:<25} {}", "BROKEN", check.promise)?;
            for finding in findings.iter().take(SHOWN_MAX) {
                tell_finding(out, finding)?;
            }
            if findings.len() > SHOWN_MAX {
                let more = findings.len() - SHOWN_MAX;
                writeln!(out, "    and {more} more; --output json has them all")?;
            }
            writeln!(out, "    why it matters: {}", check.why)?;
            writeln!(out)
        }
    }
}

fn tell_finding(out: &mut dyn Write, finding: &Finding) -> io::Result<()> {
    for line in &finding.story {
        writeln!(out, "    {line}")?;
    }
    writeln!(out, "    sent:      {}", finding.exchange.sent())?;
    writeln!(out, "    came back: {}", finding.exchange.came_back())?;
    writeln!(out, "    expected:  {}", finding.expected)
}

/// Tells how it ended.
pub(super) fn sum_up(out: &mut dyn Write, judged: &[Judged], asked: u64) -> io::Result<()> {
    let summary = Summary::of(judged);
    let verdict = match (summary.is_broken(), summary.held) {
        (true, _) => "The contract is broken.",
        (false, 0) => "Nothing was tried.",
        (false, _) => "The contract is kept, as far as it was tried.",
    };
    let Summary {
        held,
        broken,
        not_tried,
    } = summary;
    writeln!(
        out,
        "\n{held} held, {broken} broken, {not_tried} not tried, with {asked} requests. {verdict}"
    )?;
    let names: Vec<&str> = judged
        .iter()
        .filter(|one| matches!(one.outcome, Outcome::Broken(_)))
        .map(|one| one.check.name)
        .collect();
    if !names.is_empty() {
        writeln!(out, "Broken: {}", names.join(", "))?;
    }
    Ok(())
}

/// The whole report as one object. Its field names are stable.
#[derive(Serialize)]
pub(super) struct ReportJson<'a> {
    url: &'a str,
    outcome: &'static str,
    requests: u64,
    summary: Summary,
    checks: Vec<CheckJson<'a>>,
}

/// One check in the JSON report, and in the list of checks.
#[derive(Serialize)]
pub(super) struct CheckJson<'a> {
    name: &'a str,
    promise: &'a str,
    why: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    not_tried_because: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    findings: Vec<FindingJson<'a>>,
}

#[derive(Serialize)]
struct FindingJson<'a> {
    expected: &'a str,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    story: &'a [String],
    #[serde(flatten)]
    exchange: ExchangeJson,
}

impl<'a> CheckJson<'a> {
    /// A check that was not run.
    pub(super) fn listed(check: &'a Check) -> Self {
        Self {
            name: check.name,
            promise: check.promise,
            why: check.why,
            outcome: None,
            not_tried_because: None,
            findings: Vec::new(),
        }
    }

    fn judged(judged: &'a Judged) -> Self {
        let mut json = Self::listed(&judged.check);
        json.outcome = Some(judged.outcome.word());
        match &judged.outcome {
            Outcome::Held => {}
            Outcome::NotTried(why) => json.not_tried_because = Some(why),
            Outcome::Broken(findings) => {
                let each = findings.iter().map(|finding| FindingJson {
                    expected: &finding.expected,
                    story: &finding.story,
                    exchange: finding.exchange.json(),
                });
                json.findings = each.collect();
            }
        }
        json
    }
}

impl<'a> ReportJson<'a> {
    pub(super) fn new(url: &'a str, judged: &'a [Judged], requests: u64) -> Self {
        let summary = Summary::of(judged);
        Self {
            url,
            outcome: if summary.is_broken() {
                "broken"
            } else {
                "kept"
            },
            requests,
            summary,
            checks: judged.iter().map(CheckJson::judged).collect(),
        }
    }
}
