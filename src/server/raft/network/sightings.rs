//! What other nodes' data directories have shown of themselves.
//!
//! A stale copy of a directory carries its own old witness along, so the node that runs on it cannot
//! know. Its peers may: the original had been started more often, or as often but in another process,
//! or had reached a later term; or, whatever it shows, it had acknowledged entries to its leader that
//! the copy lacks. This is kept in memory only, a best effort that a restart of this node forgets.

use std::collections::{BTreeMap, BTreeSet};

use crate::server::store::InstanceId;

/// How often a data directory had been started, by which process it is now, and the term that it had
/// reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server::raft) struct Shown {
    pub(in crate::server::raft) boot: u64,
    pub(in crate::server::raft) term: u64,
    pub(in crate::server::raft) life: u64,
}

/// The highest that each data directory has shown.
#[derive(Debug, Default)]
pub(in crate::server::raft) struct Sightings {
    shown: BTreeMap<InstanceId, Shown>,
    /// By directory: the last entry that it acknowledged to this node, and the term in which this node
    /// led then. In one term a follower never removes what it acknowledged to the leader.
    acknowledged: BTreeMap<InstanceId, Acknowledged>,
    /// Directories that lack what they had acknowledged.
    lost: BTreeSet<InstanceId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Acknowledged {
    term: u64,
    index: u64,
}

impl Sightings {
    /// Notes what a directory shows. `Some`: it had shown more before, so this one is a stale copy.
    ///
    /// Calls of one life may overtake each other, so only a new life must show the term of the last.
    pub(super) fn look(&mut self, instance: InstanceId, shown: Shown) -> Option<Shown> {
        let seen = self.shown.entry(instance).or_insert(shown);
        let another = shown.boot == seen.boot && shown.life != seen.life;
        let went_back = shown.boot < seen.boot || another;
        let forgot = shown.boot > seen.boot && shown.term < seen.term;
        if went_back || forgot {
            return Some(*seen);
        }
        *seen = Shown {
            boot: shown.boot,
            term: seen.term.max(shown.term),
            life: shown.life,
        };
        None
    }

    /// Notes that a directory has stored the log of this node, the leader of `term`, up to `index`.
    pub(super) fn acknowledges(&mut self, instance: InstanceId, term: u64, index: u64) {
        let now = Acknowledged { term, index };
        let before = self.acknowledged.entry(instance).or_insert(now);
        if before.term != term || before.index < index {
            *before = now;
        }
    }

    /// Notes that a directory lacks entry `index` of this node's log, in the term that it leads. Whether
    /// it had acknowledged it: then it is not what it was, whatever it shows, and is refused from now on.
    pub(super) fn lacks(&mut self, instance: InstanceId, term: u64, index: u64) -> bool {
        let before = self.acknowledged.get(&instance);
        let lost = before.is_some_and(|before| before.term == term && index <= before.index);
        if lost {
            self.lost.insert(instance);
        }
        lost
    }

    /// Whether a directory was seen to lack what it had acknowledged.
    pub(super) fn has_lost(&self, instance: InstanceId) -> bool {
        self.lost.contains(&instance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: InstanceId = InstanceId::from_bytes([1; 16]);

    fn shown(boot: u64, term: u64) -> Shown {
        let life = boot * 10;
        Shown { boot, term, life }
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
            seen.look(InstanceId::from_bytes([2; 16]), shown(1, 1)),
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

    #[test]
    fn a_copy_that_was_started_as_often_as_the_original_is_refused() {
        let mut seen = Sightings::default();
        assert_eq!(seen.look(A, shown(6, 9)), None);
        let copy = Shown {
            life: 61,
            ..shown(6, 9)
        };
        assert_eq!(seen.look(A, copy), Some(shown(6, 9)));
        assert_eq!(seen.look(A, shown(6, 9)), None, "the original itself");
    }

    #[test]
    fn a_directory_that_lacks_what_it_acknowledged_is_known_as_such() {
        let mut seen = Sightings::default();
        assert!(!seen.lacks(A, 3, 7), "a follower that was behind all along");
        seen.acknowledges(A, 3, 7);
        seen.acknowledges(A, 3, 5);
        assert!(
            !seen.lacks(A, 3, 8) && !seen.has_lost(A),
            "it never had entry 8"
        );
        assert!(
            !seen.lacks(A, 5, 7),
            "another leader may have cut it off in between"
        );
        assert!(seen.lacks(A, 3, 7) && seen.has_lost(A));
    }
}
