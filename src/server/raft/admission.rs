//! How many proposals may be under way.
//!
//! Without a bound, a slow disk turns every call into a late one. So what would start something new is
//! refused beyond a number; what ends or keeps a grant is only counted, because holding it back would
//! turn load into lost leases.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::issuer::Command;

/// What a refused caller is told to wait: a few group commits.
pub(super) const RETRY_AFTER: Duration = Duration::from_millis(50);

/// Counts what is under way. Clones share the count.
#[derive(Clone)]
pub(super) struct Admission {
    under_way: Arc<AtomicUsize>,
    max: usize,
}

/// Stands for one proposal, until Raft has answered or dropped it. Clones stand for the same one.
#[derive(Clone)]
pub(super) struct Permit {
    _counted: Arc<Counted>,
}

struct Counted {
    under_way: Arc<AtomicUsize>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Admission {
    pub(super) fn new(max: usize) -> Self {
        Self {
            under_way: Arc::default(),
            max,
        }
    }

    /// Lets a proposal in; `None` if it would be one too many.
    pub(super) fn admit(&self, command: &Command) -> Option<Permit> {
        let before = self.under_way.fetch_add(1, Ordering::Relaxed);
        let counted = Counted {
            under_way: Arc::clone(&self.under_way),
        };
        let permit = Permit {
            _counted: Arc::new(counted),
        };
        if before >= self.max && starts_something(command) {
            return None;
        }
        Some(permit)
    }

    pub(super) fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Relaxed)
    }
}

fn starts_something(command: &Command) -> bool {
    match command {
        // A guard that is told to come back later has admitted nothing: that is safe.
        Command::Acquire(_) | Command::RaiseFloor(_) | Command::Admit(_) => true,
        Command::Renew(_)
        | Command::Release(_)
        | Command::Expire(_)
        | Command::Revoke(_)
        | Command::Withdraw(_)
        | Command::Promote(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grant::LeftHow;
    use crate::issuer::{Expire, Promote, RaiseFloor, Renew, Withdraw};
    use crate::resource::ResourceName;

    #[test]
    fn ending_and_renewing_is_never_held_back() {
        let admission = Admission::new(1);
        let floor = Command::RaiseFloor(RaiseFloor {
            above: 1,
            stamped_at_us: 1,
        });
        let first = admission.admit(&floor).expect("one is allowed");
        assert!(
            admission.admit(&floor).is_none(),
            "a second one is too many"
        );
        let renew = Command::Renew(Renew {
            renewals: Vec::new(),
            stamped_at_ms: 0,
        });
        let expire = Command::Expire(Expire {
            leases: Vec::new(),
            stamped_at_ms: 0,
        });
        let withdraw = Command::Withdraw(Withdraw {
            places: Vec::new(),
            how: LeftHow::Detached,
            stamped_at_ms: 0,
        });
        let promote = Command::Promote(Promote {
            resource: ResourceName::new("r").expect("a name"),
            stamped_at_ms: 0,
        });
        let others = [renew, expire, withdraw, promote].map(|command| admission.admit(&command));
        assert!(others.iter().all(Option::is_some));
        assert_eq!(admission.under_way(), 5, "the refused one is not counted");
        drop((first, others));
        assert!(admission.admit(&floor).is_some());
    }
}
