//! What other nodes' data directories have shown of themselves.
//!
//! A stale copy of a directory carries its own old witness along, so the node that runs on it cannot
//! know. Its peers may: the original had been started more often, or had reached a later term. This is
//! kept in memory only, a best effort that a restart of this node forgets.

use std::collections::BTreeMap;

use crate::server::store::InstanceId;

/// How often a data directory had been started, and the term that it had reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server::raft) struct Shown {
    pub(in crate::server::raft) boot: u64,
    pub(in crate::server::raft) term: u64,
}

/// The highest of both that each data directory has shown.
#[derive(Debug, Default)]
pub(super) struct Sightings(BTreeMap<InstanceId, Shown>);

impl Sightings {
    /// Notes what a directory shows. `Some`: it had shown more before, so this one is a stale copy.
    ///
    /// Calls of one life may overtake each other, so only a new life must show the term of the last.
    pub(super) fn look(&mut self, instance: InstanceId, shown: Shown) -> Option<Shown> {
        let seen = self.0.entry(instance).or_insert(shown);
        let went_back = shown.boot < seen.boot;
        let forgot = shown.boot > seen.boot && shown.term < seen.term;
        if went_back || forgot {
            return Some(*seen);
        }
        *seen = Shown {
            boot: shown.boot,
            term: seen.term.max(shown.term),
        };
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: InstanceId = InstanceId([1; 16]);

    fn shown(boot: u64, term: u64) -> Shown {
        Shown { boot, term }
    }

    #[test]
    fn a_restart_and_calls_that_overtake_each_other_pass() {
        let mut seen = Sightings::default();
        for each in [
            shown(1, 5),
            shown(1, 7),
            shown(1, 6),
            shown(2, 7),
            shown(3, 9),
        ] {
            assert_eq!(seen.look(A, each), None, "{each:?}");
        }
        assert_eq!(
            seen.look(InstanceId([2; 16]), shown(1, 1)),
            None,
            "another directory"
        );
    }

    #[test]
    fn a_copy_from_before_a_start_is_refused() {
        let mut seen = Sightings::default();
        assert_eq!(seen.look(A, shown(6, 9)), None);
        assert_eq!(seen.look(A, shown(4, 9)), Some(shown(6, 9)));
    }

    #[test]
    fn a_copy_that_has_started_since_but_forgot_a_term_is_refused() {
        let mut seen = Sightings::default();
        assert_eq!(seen.look(A, shown(6, 9)), None);
        assert_eq!(seen.look(A, shown(7, 8)), Some(shown(6, 9)));
        assert_eq!(seen.look(A, shown(7, 9)), None, "the original itself");
    }
}
