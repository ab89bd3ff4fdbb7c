//! What a run says: for people as it goes, for scripts as one object.

use std::io::{self, Write};

use serde::Serialize;

use super::check::{Check, Finding, Findings};
use super::course::Course;
use super::exchange::ExchangeJson;

/// How many findings of one check people are shown; the JSON report has all.
const SHOWN_MAX: usize = 5;

/// How a check came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Nothing was found; with what was seen, where the promise says more than that.
    Held(Option<String>),
    Broken(Vec<Finding>),
    /// It could not be tried, and nothing is known.
    NotTried(String),
    /// The user did not want it tried.
    LeftOut(&'static str),
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
    /// Of those not tried, the ones that the user did not want.
    left_out: usize,
}

impl Summary {
    pub(super) fn of(judged: &[Judged]) -> Self {
        let mut summary = Self::default();
        for one in judged {
            match one.outcome {
                Outcome::Held(_) => summary.held += 1,
                Outcome::Broken(_) => summary.broken += 1,
                Outcome::NotTried(_) => summary.not_tried += 1,
                Outcome::LeftOut(_) => {
                    summary.not_tried += 1;
                    summary.left_out += 1;
                }
            }
        }
        summary
    }

    /// Whether something was found.
    pub(super) fn is_broken(self) -> bool {
        self.broken > 0
    }

    /// Whether something that the user wants tried was not.
    fn is_incomplete(self) -> bool {
        self.not_tried > self.left_out
    }

    /// Whether the run ends as a failure.
    pub(super) fn fails(self, strict: bool) -> bool {
        self.is_broken() || (strict && self.is_incomplete())
    }
}

impl Outcome {
    /// What the findings of a check that was run make of it.
    pub(super) fn of(findings: Findings) -> Self {
        let seen = findings.seen().map(str::to_owned);
        match findings.into_inner() {
            none if none.is_empty() => Self::Held(seen),
            findings => Self::Broken(findings),
        }
    }

    fn word(&self) -> &'static str {
        match self {
            Self::Held(_) => "held",
            Self::Broken(_) => "broken",
            Self::NotTried(_) | Self::LeftOut(_) => "not tried",
        }
    }
}

/// Tells one check, as soon as it has come out.
pub(super) fn tell(out: &mut dyn Write, judged: &Judged) -> io::Result<()> {
    let Judged { check, outcome } = judged;
    let (word, name) = (outcome.word(), check.name);
    match outcome {
        Outcome::Held(seen) => {
            let shown = seen.as_deref().unwrap_or(check.promise);
            writeln!(out, "{word:<10} {name:<25} {shown}")
        }
        // The summary counts them: who names one check does not want a line for each of the others.
        Outcome::LeftOut(_) => Ok(()),
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
pub(super) fn sum_up(out: &mut dyn Write, course: &Course, strict: bool) -> io::Result<()> {
    let Course {
        judged,
        stopped,
        asked,
    } = course;
    let summary = Summary::of(judged);
    let verdict = match (summary.is_broken(), summary.held) {
        (true, _) => "The contract is broken.",
        _ if stopped.is_some() => "The run ended early.",
        (false, 0) => "Nothing was tried.",
        (false, _) => "The contract is kept, as far as it was tried.",
    };
    let Summary {
        held,
        broken,
        not_tried,
        left_out,
    } = summary;
    let wish = match left_out {
        0 => String::new(),
        count => format!(" ({count} of them left out by --only or --skip)"),
    };
    writeln!(
        out,
        "\n{held} held, {broken} broken, {not_tried} not tried{wish}, with {asked} requests. {verdict}"
    )?;
    let names: Vec<&str> = judged
        .iter()
        .filter(|one| matches!(one.outcome, Outcome::Broken(_)))
        .map(|one| one.check.name)
        .collect();
    if !names.is_empty() {
        return writeln!(out, "Broken: {}", names.join(", "));
    }
    // What ended the run is said in its place.
    if summary.is_incomplete() && stopped.is_none() {
        tell_untried(out, judged, strict)?;
    }
    Ok(())
}

/// Says loudly what nothing is known of: a service may have just these mistakes, and the run ends well.
fn tell_untried(out: &mut dyn Write, judged: &[Judged], strict: bool) -> io::Result<()> {
    writeln!(out, "\nNOT TRIED, so the service may break it:")?;
    for Judged { check, outcome } in judged {
        if let Outcome::NotTried(why) = outcome {
            writeln!(out, "  {:<25} {}: {why}", check.name, check.promise)?;
            writeln!(out, "  {:<25} why it matters: {}", "", check.why)?;
        }
    }
    let end = if strict {
        "It fails for these, because of --strict; --skip takes out what does not apply."
    } else {
        "With --strict it fails for these; --skip takes out what does not apply."
    };
    writeln!(out, "{end}")
}

/// The whole report as one object. Its field names are stable.
#[derive(Serialize)]
pub(super) struct ReportJson<'a> {
    url: &'a str,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    stopped_because: Option<String>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    seen: Option<&'a str>,
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
            seen: None,
            findings: Vec::new(),
        }
    }

    fn judged(judged: &'a Judged) -> Self {
        let mut json = Self::listed(&judged.check);
        json.outcome = Some(judged.outcome.word());
        match &judged.outcome {
            Outcome::Held(seen) => json.seen = seen.as_deref(),
            Outcome::NotTried(why) => json.not_tried_because = Some(why),
            Outcome::LeftOut(why) => json.not_tried_because = Some(why),
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
    pub(super) fn new(url: &'a str, course: &'a Course, strict: bool) -> Self {
        let summary = Summary::of(&course.judged);
        let stopped = course.stopped.as_ref();
        Self {
            url,
            outcome: match (summary.is_broken(), stopped) {
                (true, _) => "broken",
                (false, Some(_)) => "stopped",
                (false, None) if summary.fails(strict) => "incomplete",
                (false, None) => "kept",
            },
            stopped_because: stopped.map(ToString::to_string),
            requests: course.asked,
            summary,
            checks: course.judged.iter().map(CheckJson::judged).collect(),
        }
    }
}
