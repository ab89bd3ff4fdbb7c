//! When a log entry was applied, on the harness' clock: not exactly, but within two bounds.
//!
//! The log has one order, and operations pin its indexes to times. An operation that was sent at `s`
//! and made entry `i` says that `i` and all after it were applied after `s`. An answer that was there
//! at `t` and tells of entry `i` says that `i` and all before it had been applied by `t`. At a hundred
//! operations a second the bounds of any entry are some milliseconds apart.

use std::{collections::HashMap, time::Duration};

use crate::history::{Call, Moment, Operation, Outcome, applied::AppliedLog};

#[derive(Clone, Debug, Default)]
pub(crate) struct Timeline {
    /// Index and the latest send of an operation that made it or one before it; both rise.
    sends: Vec<(u64, Moment)>,
    /// Index and the earliest return that tells of it or of one after it; both rise.
    returns: Vec<(u64, Moment)>,
    /// Every return of an answer, in order.
    answers: Vec<Moment>,
}

impl Timeline {
    pub(crate) fn of(operations: &[Operation], log: &AppliedLog) -> Self {
        let requests = log.grants.iter().map(|g| (g.request_id.as_str(), g.index));
        let places = log
            .events
            .iter()
            .filter(|(_, event)| event.event == "queued");
        let places = places.map(|(index, event)| (event.request_id.as_str(), *index));
        let mut first: HashMap<&str, u64> = HashMap::new();
        for (request, index) in requests.chain(places) {
            let made = first.entry(request).or_insert(index);
            *made = (*made).min(index);
        }
        let sends = operations.iter().filter_map(|op| {
            let index = first.get(op.request_id()?)?;
            Some((*index, op.sent))
        });
        let returns = operations.iter().filter_map(|op| {
            let granted = op.granted().map(|granted| granted.index);
            Some((granted.max(op.applied)?, op.returned?))
        });
        // What a handle of the client library says of itself is no answer of anybody; and what a guard is
        // told, any node may know that has no leader.
        let answered = |op: &&Operation| {
            let failed = matches!(op.outcome, Outcome::Unknown(_) | Outcome::Failed(_));
            !failed && !matches!(op.call, Call::Rely { .. } | Call::Admit { .. })
        };
        let mut answers: Vec<Moment> = operations
            .iter()
            .filter(answered)
            .filter_map(|op| op.returned)
            .collect();
        answers.sort_unstable();
        Self {
            sends: latest_so_far(sends.collect()),
            returns: earliest_from_here(returns.collect()),
            answers,
        }
    }

    /// The entry was not applied before this.
    pub(crate) fn not_before(&self, index: u64) -> Moment {
        let known = self.sends.partition_point(|(at, _)| *at <= index);
        known
            .checked_sub(1)
            .map_or(Moment::ZERO, |last| self.sends[last].1)
    }

    /// The entry was applied by then; `None` if no answer tells.
    pub(crate) fn not_after(&self, index: u64) -> Option<Moment> {
        let first = self.returns.partition_point(|(at, _)| *at < index);
        self.returns.get(first).map(|(_, returned)| *returned)
    }

    /// How much of a time passed in silences of at least `silence`, in which nobody was answered at
    /// all: a cluster without a leader, a machine that is too slow, a harness that stood still.
    pub(crate) fn silent(&self, from: Moment, until: Moment, silence: Duration) -> Duration {
        let first = self.answers.partition_point(|at| *at <= from);
        let inside = self.answers[first..].iter().take_while(|at| **at < until);
        let mut before = from;
        let mut silent = Duration::ZERO;
        for at in inside.copied().chain([until]) {
            let gap = at.saturating_sub(before);
            if gap >= silence {
                silent += gap;
            }
            before = at;
        }
        silent
    }
}

fn latest_so_far(mut pins: Vec<(u64, Moment)>) -> Vec<(u64, Moment)> {
    pins.sort_unstable();
    let mut latest = Moment::ZERO;
    for (_, at) in &mut pins {
        latest = latest.max(*at);
        *at = latest;
    }
    pins
}

fn earliest_from_here(mut pins: Vec<(u64, Moment)>) -> Vec<(u64, Moment)> {
    pins.sort_unstable();
    let mut earliest = Moment::MAX;
    for (_, at) in pins.iter_mut().rev() {
        earliest = earliest.min(*at);
        *at = earliest;
    }
    pins
}

#[cfg(test)]
mod tests {
    use crate::checks::story::{Story, ms};

    #[test]
    fn an_entry_lies_between_sends_before_and_returns_after_it() {
        let timeline = Story::default()
            .grant("r", "a", 100, 140, 1)
            .grant("s", "b", 150, 190, 2)
            .grant("t", "c", 120, 300, 4)
            .logged_grant("r", "a", 100, 1)
            .logged_grant("s", "b", 150, 2)
            .logged("")
            .logged_grant("t", "c", 120, 4)
            .evidence()
            .timeline;
        assert_eq!(timeline.not_before(0), ms(0));
        assert_eq!(timeline.not_before(1), ms(100));
        // The third entry came after the second one, which was sent later than the fourth.
        assert_eq!(timeline.not_before(3), ms(150));
        assert_eq!(timeline.not_before(4), ms(150));
        assert_eq!(timeline.not_after(1), Some(ms(140)));
        assert_eq!(timeline.not_after(3), Some(ms(300)));
        assert_eq!(timeline.not_after(5), None);
    }

    #[test]
    fn a_silence_is_counted_where_it_overlaps() {
        let timeline = Story::default()
            .grant("r", "a", 0, 100, 1)
            .grant("s", "b", 0, 150, 2)
            .grant("t", "c", 0, 900, 3)
            .evidence()
            .timeline;
        assert_eq!(timeline.silent(ms(0), ms(150), ms(200)), ms(0));
        assert_eq!(timeline.silent(ms(100), ms(950), ms(200)), ms(750));
        assert_eq!(timeline.silent(ms(400), ms(2_000), ms(200)), ms(1_600));
    }
}
