//! What was measured: latencies by call, and failures by kind.

use super::Operation;
use fencepost::client::{Cause, Error, ErrorKind};
use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;

/// Latencies up to this are told apart, in microseconds; longer ones count as this.
const MICROS_MAX: u64 = 120_000_000;

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
    latencies: Vec<(Call, Histogram<u64>)>,
    /// Operations that succeeded, warm-up included: for progress.
    pub(super) completed: u64,
    /// Whether the call at hand began within the window.
    pub(super) counts: bool,
    /// Operations that the rules refused.
    pub(super) refused: u64,
    errors: BTreeMap<String, u64>,
}

impl Record {
    pub(super) fn new(operation: Operation) -> Self {
        let (calls, main): (&[Call], Call) = match operation {
            Operation::AcquireRelease => (&[Call::Acquire, Call::Release, Call::Pair], Call::Pair),
            Operation::Acquire => (&[Call::Acquire], Call::Acquire),
            Operation::Renew => (&[Call::Renew], Call::Renew),
            Operation::Inspect => (&[Call::Inspect], Call::Inspect),
        };
        Self {
            main,
            latencies: calls.iter().map(|call| (*call, histogram())).collect(),
            completed: 0,
            counts: false,
            refused: 0,
            errors: BTreeMap::new(),
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
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        if let Some((_, histogram)) = self.latencies.iter_mut().find(|(timed, _)| *timed == call) {
            histogram.saturating_record(micros.max(1));
        }
    }

    /// The rules refused a call.
    pub(super) fn refuse(&mut self) {
        self.refused += u64::from(self.counts);
    }

    /// A call failed.
    pub(super) fn error(&mut self, error: &Error) {
        if self.counts {
            *self.errors.entry(name(error)).or_default() += 1;
        }
    }

    pub(super) fn failed(&self) -> u64 {
        self.errors.values().sum()
    }

    pub(super) fn errors(&self) -> &BTreeMap<String, u64> {
        &self.errors
    }

    pub(super) fn latencies(&self) -> &[(Call, Histogram<u64>)] {
        &self.latencies
    }

    /// How many operations succeeded within the window.
    pub(super) fn count(&self) -> u64 {
        let main = self.latencies.iter().find(|(call, _)| *call == self.main);
        main.map_or(0, |(_, histogram)| histogram.len())
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, MICROS_MAX, 3)
        .expect("the bounds are constants that fit three digits")
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
        assert_eq!(record.latencies()[0].1.max(), 1_000);
    }

    #[test]
    fn a_latency_beyond_the_scale_counts_as_its_end() {
        let mut record = Record::new(Operation::Inspect);
        record.counts = true;
        record.took(Call::Inspect, Duration::from_secs(100_000));
        record.took(Call::Inspect, Duration::ZERO);
        assert_eq!(record.count(), 2);
    }
}
