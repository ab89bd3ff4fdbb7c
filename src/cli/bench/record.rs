//! What was measured: latencies by call, and failures by kind.

use super::latency::{Latencies, Latency};
use super::load::Operation;
use fencepost::client::{Cause, Error, ErrorKind};
use std::collections::BTreeMap;
use std::time::Duration;

/// What is timed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    Acquire,
    Release,
    Pair,
    Renew,
    Inspect,
}

impl Call {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Release => "release",
            Self::Pair => "pair",
            Self::Renew => "renew",
            Self::Inspect => "inspect",
        }
    }
}

/// The sums of all workers.
pub(super) struct Record {
    /// The call that counts as one operation.
    main: Call,
    latencies: Vec<(Call, Latencies)>,
    /// Operations that succeeded, warm-up included: for progress.
    pub(super) completed: u64,
    /// Whether the call at hand began within the window.
    pub(super) counts: bool,
    /// Operations that the rules refused.
    pub(super) refused: u64,
    pub(super) errors: Errors,
}

impl Record {
    pub(super) fn new(operation: Operation) -> Self {
        let (calls, main): (&[Call], Call) = match operation {
            Operation::AcquireRelease => (&[Call::Acquire, Call::Release, Call::Pair], Call::Pair),
            Operation::Acquire => (&[Call::Acquire], Call::Acquire),
            Operation::Renew => (&[Call::Renew], Call::Renew),
            Operation::Inspect => (&[Call::Inspect], Call::Inspect),
        };
        let latencies = calls.iter().map(|call| (*call, Latencies::default()));
        Self {
            main,
            latencies: latencies.collect(),
            completed: 0,
            counts: false,
            refused: 0,
            errors: Errors::default(),
        }
    }

    /// A call succeeded.
    pub(super) fn took(&mut self, call: Call, latency: Duration) {
        if call == self.main {
            self.completed += 1;
        }
        if !self.counts {
            return;
        }
        if let Some((_, latencies)) = self.latencies.iter_mut().find(|(timed, _)| *timed == call) {
            latencies.took(latency);
        }
    }

    /// The rules refused a call.
    pub(super) fn refuse(&mut self) {
        self.refused += u64::from(self.counts);
    }

    /// A call failed.
    pub(super) fn error(&mut self, error: &Error) {
        if self.counts {
            self.errors.note(error);
        }
    }

    /// What the calls took, by the name of the call.
    pub(super) fn latencies(&self) -> BTreeMap<&'static str, Latency> {
        let named = self.latencies.iter();
        named
            .map(|(call, latencies)| (call.as_str(), latencies.summary()))
            .collect()
    }

    /// How many operations succeeded within the window.
    pub(super) fn count(&self) -> u64 {
        let main = self.latencies.iter().find(|(call, _)| *call == self.main);
        main.map_or(0, |(_, latencies)| latencies.count())
    }
}

/// Failures, counted by kind.
#[derive(Debug, Default, Clone)]
pub(super) struct Errors(BTreeMap<String, u64>);

impl Errors {
    pub(super) fn note(&mut self, error: &Error) {
        *self.0.entry(name(error)).or_default() += 1;
    }

    pub(super) fn count(&self) -> u64 {
        self.0.values().sum()
    }

    pub(super) fn by_kind(&self) -> &BTreeMap<String, u64> {
        &self.0
    }
}

/// A failure's kind, with the reason that the last node gave.
fn name(error: &Error) -> String {
    let kind = match error.kind() {
        ErrorKind::Unavailable => "unavailable",
        ErrorKind::UnknownOutcome => "unknown outcome",
        ErrorKind::Exhausted => "exhausted",
        ErrorKind::Refused => "refused",
        ErrorKind::Invalid { .. } => "invalid",
        ErrorKind::ClusterMismatch(_) => "cluster mismatch",
        _ => "other",
    };
    let cause = match error.last_cause() {
        Some(Cause::Told { reason, .. }) => reason,
        Some(Cause::Unreachable { .. }) => "unreachable",
        Some(Cause::NoAnswer { .. }) => "no answer in time",
        Some(Cause::Broken { .. }) => "connection broken",
        _ => return kind.to_owned(),
    };
    format!("{kind} ({cause})")
}

/// Writes the kinds of errors of a report for people, a line each.
pub(super) fn tell_errors(
    f: &mut std::fmt::Formatter<'_>,
    errors: &BTreeMap<String, u64>,
) -> std::fmt::Result {
    errors
        .iter()
        .try_for_each(|(kind, count)| writeln!(f, "    {count} {kind}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_began_in_the_window_is_measured() {
        let mut record = Record::new(Operation::AcquireRelease);
        for counts in [false, true] {
            record.counts = counts;
            record.took(Call::Acquire, Duration::from_millis(1));
            record.took(Call::Pair, Duration::from_millis(2));
            record.refuse();
        }
        assert_eq!(
            (record.count(), record.completed, record.refused),
            (1, 2, 1)
        );
        assert_eq!(record.latencies()["acquire"].max, 1_000);
    }
}
