//! What the kit found, for people and for programs.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Case;

/// The most steps of a story that are printed; what broke is at its end.
const STEPS_SHOWN_MAX: usize = 24;

/// What the kit found out about one subject.
#[must_use = "a report that nobody reads holds nobody to anything"]
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// What the subject is called.
    pub subject: String,
    /// Where the random choices started, to repeat them.
    pub seed: u64,
    /// One for each case, in the order of [`Case::ALL`].
    pub cases: Vec<CaseReport>,
}

/// What became of one case.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaseReport {
    /// Which.
    pub case: Case,
    /// How it came out.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// What else is worth knowing, such as which mark came back from a backup.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

/// How a case came out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "kebab-case")]
pub enum Outcome {
    /// Nothing wrong was found.
    Held,
    /// The subject did what it must not.
    Broken(Finding),
    /// The subject cannot do what the case needs. This is no pass.
    NotTried {
        /// What it would have needed.
        reason: String,
    },
    /// Something broke or took too long, so that the case decided nothing. This is no pass.
    Failed {
        /// What.
        error: String,
        /// What was done until then, in order.
        steps: Vec<String>,
    },
}

/// What a subject did that it must not, and how it came to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What happened, and what should have happened instead.
    pub what: String,
    /// What was done, in order.
    pub steps: Vec<String>,
}

impl Report {
    /// Whether nothing was broken, nothing failed, and something was tried at all. What was not
    /// tried does not count for or against it; [`Report::not_tried`] lists it.
    #[must_use]
    pub fn conforms(&self) -> bool {
        let bad = |report: &CaseReport| {
            matches!(report.outcome, Outcome::Broken(_) | Outcome::Failed { .. })
        };
        let held = |report: &CaseReport| report.outcome == Outcome::Held;
        self.cases.iter().any(held) && !self.cases.iter().any(bad)
    }

    /// How a case came out; none if it was not among those that were asked for.
    #[must_use]
    pub fn outcome(&self, case: Case) -> Option<&Outcome> {
        let found = self.cases.iter().find(|report| report.case == case);
        found.map(|report| &report.outcome)
    }

    /// The cases that were not tried, because the subject cannot do what they need.
    #[must_use]
    pub fn not_tried(&self) -> Vec<Case> {
        self.those(|outcome| matches!(outcome, Outcome::NotTried { .. }))
    }

    /// The cases that the subject broke.
    #[must_use]
    pub fn broken(&self) -> Vec<Case> {
        self.those(|outcome| matches!(outcome, Outcome::Broken(_)))
    }

    fn those(&self, which: impl Fn(&Outcome) -> bool) -> Vec<Case> {
        let found = self.cases.iter().filter(|report| which(&report.outcome));
        found.map(|report| report.case).collect()
    }
}

impl Outcome {
    /// `held`, `BROKEN`, `not tried` or `FAILED`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Held => "held",
            Self::Broken(_) => "BROKEN",
            Self::NotTried { .. } => "not tried",
            Self::Failed { .. } => "FAILED",
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: does it fence?\n", self.subject)?;
        for report in &self.cases {
            report.fmt(f)?;
        }
        let count = |word| {
            let of = |report: &&CaseReport| report.outcome.word() == word;
            self.cases.iter().filter(of).count()
        };
        writeln!(
            f,
            "\n{} held, {} broken, {} failed, {} not tried (seed {})",
            count("held"),
            count("BROKEN"),
            count("FAILED"),
            count("not tried"),
            self.seed
        )
    }
}

impl fmt::Display for CaseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:<10} {}", self.outcome.word(), self.case)?;
        match &self.outcome {
            Outcome::Held => {}
            Outcome::NotTried { reason } => writeln!(f, "           {reason}")?,
            Outcome::Failed { error, steps } => {
                writeln!(f, "           nothing was decided: {error}")?;
                write_steps(f, steps)?;
            }
            Outcome::Broken(finding) => {
                writeln!(f, "           the promise:   {}", self.case.promise())?;
                writeln!(f, "           what happened: {}", finding.what)?;
                writeln!(f, "           usual cause:   {}", self.case.usual_cause())?;
                write_steps(f, &finding.steps)?;
            }
        }
        for note in &self.notes {
            writeln!(f, "           note: {note}")?;
        }
        Ok(())
    }
}

fn write_steps(f: &mut fmt::Formatter<'_>, steps: &[String]) -> fmt::Result {
    if steps.is_empty() {
        return Ok(());
    }
    let left_out = steps.len().saturating_sub(STEPS_SHOWN_MAX);
    writeln!(f, "           step by step:")?;
    if left_out > 0 {
        writeln!(f, "             ({left_out} steps before these)")?;
    }
    for (n, step) in steps.iter().enumerate().skip(left_out) {
        writeln!(f, "             {}. {step}", n + 1)?;
    }
    Ok(())
}
