//! What is done to a cluster, in which order and for how long: all of it follows from a seed, so that
//! a run can be repeated by its seed alone (as far as the machine's own timing allows).

use std::{fmt, time::Duration};

use crate::dice::Dice;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum What {
    /// kill -9 of the leader; started again once others have granted, or right away.
    KillLeader,
    /// kill -9 of all nodes at once, which is a power cut but for the disks' caches.
    KillAll,
    /// SIGSTOP of the leader for longer than any TTL and an election, then SIGCONT: it wakes up and
    /// still takes itself for the leader.
    PauseLeader,
    /// kill -9 of a follower, until the others have dropped the log that it lacks: it needs a snapshot.
    StarveFollower,
    /// kill -9 of both followers: the leader is left without a quorum.
    KillMajority,
}

/// One step of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) what: What,
    /// How long the fault lasts at least.
    pub(crate) lasts: Duration,
    /// Healed only after the rest of the cluster has granted again, where it can.
    pub(crate) until_grants: bool,
}

/// How often each fault is in one round.
const ROUND: [(What, usize); 5] = [
    (What::KillLeader, 14),
    (What::KillAll, 4),
    (What::PauseLeader, 3),
    (What::StarveFollower, 2),
    (What::KillMajority, 2),
];

/// One round: every fault as often as it must happen, in an order of its own.
pub(crate) fn round(dice: &mut Dice) -> Vec<Fault> {
    let whats = ROUND
        .iter()
        .flat_map(|(what, times)| std::iter::repeat_n(*what, *times));
    let mut faults: Vec<Fault> = whats
        .map(|what| Fault {
            what,
            lasts: match what {
                What::PauseLeader => dice.millis(2_500, 3_500),
                _ => dice.millis(0, 800),
            },
            until_grants: dice.percent(70),
        })
        .collect();
    dice.shuffle(&mut faults);
    faults
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.what {
            What::KillLeader => "kill -9 of the leader",
            What::KillAll => "kill -9 of all nodes",
            What::PauseLeader => "SIGSTOP of the leader",
            What::StarveFollower => "kill -9 of a follower until it needs a snapshot",
            What::KillMajority => "kill -9 of both followers",
        };
        let until = if self.until_grants {
            " and until others grant"
        } else {
            ""
        };
        write!(f, "{what}, for {:?}{until}", self.lasts)
    }
}

#[test]
fn a_round_has_every_fault_and_follows_from_its_seed() {
    let first = round(&mut Dice::new(1));
    assert_eq!(first, round(&mut Dice::new(1)));
    assert_ne!(first, round(&mut Dice::new(2)));
    for (what, times) in ROUND {
        assert_eq!(
            first.iter().filter(|fault| fault.what == what).count(),
            times
        );
    }
}
