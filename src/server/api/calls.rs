//! How many calls may be under way at one node, however they came in.
//!
//! Connections and streams have bounds of their own, but many times many of them are more than a node has
//! memory for. Calls that wait in line are counted by the part that keeps them, and not here: they last,
//! and would use up the room of the others.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use crate::wire::failure::{Failure, Reason};

/// What a refused caller is told to wait: a few group commits.
const RETRY_AFTER: Duration = Duration::from_millis(50);

/// What a call is about, when there are too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// It would start or look up something, and can come back later.
    Starts,
    /// It keeps or ends what there is: held back for longer, because load must not turn into lost leases.
    Keeps,
}

/// The calls under way.
#[derive(Debug)]
pub(super) struct Calls {
    under_way: AtomicUsize,
    /// What the operations of all pipelines occupy, until their answers have left. Each stream has a bound
    /// of its own, but a caller may open many and read none of them.
    pipelined: AtomicUsize,
    max: usize,
}

/// One call, until it is dropped.
#[derive(Debug)]
pub(super) struct UnderWay<'a>(&'a Calls);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Calls {
    pub(super) fn new(max: usize) -> Self {
        Calls {
            under_way: AtomicUsize::new(0),
            pipelined: AtomicUsize::new(0),
            max,
        }
    }

    /// Whether the answers that wait for their callers leave room for another operation. As many shares as
    /// calls: either takes up to some 4 KiB.
    pub(super) fn has_room(&self, kind: Kind) -> Result<(), Failure> {
        if self.pipelined.load(Ordering::Relaxed) < self.max_of(kind) {
            return Ok(());
        }
        let message =
            "the answers that callers of this node have not taken fill its room: try again later";
        Err(Failure::new(Reason::Overloaded, message).retry_after(RETRY_AFTER))
    }

    pub(super) fn occupy(&self, shares: usize) {
        self.pipelined.fetch_add(shares, Ordering::Relaxed);
    }

    pub(super) fn vacate(&self, shares: usize) {
        self.pipelined.fetch_sub(shares, Ordering::Relaxed);
    }

    fn max_of(&self, kind: Kind) -> usize {
        match kind {
            Kind::Starts => self.max,
            Kind::Keeps => self.max.saturating_mul(2),
        }
    }

    /// Lets a call in. What keeps or ends grants has as much room again.
    pub(super) fn enter(&self, kind: Kind) -> Result<UnderWay<'_>, Failure> {
        let before = self.under_way.fetch_add(1, Ordering::Relaxed);
        let call = UnderWay(self);
        if before < self.max_of(kind) {
            return Ok(call);
        }
        let message =
            format!("{before} calls are under way at this node, too many: try again later");
        Err(Failure::new(Reason::Overloaded, message).retry_after(RETRY_AFTER))
    }

    pub(super) fn under_way(&self) -> usize {
        self.under_way.load(Ordering::Relaxed)
    }

    pub(super) fn max(&self) -> usize {
        self.max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_keeps_a_grant_gets_in_where_something_new_does_not_but_not_without_end() {
        let calls = Calls::new(1);
        let first = calls.enter(Kind::Starts).unwrap();
        let refused = calls.enter(Kind::Starts).unwrap_err();
        assert_eq!(refused.reason, Reason::Overloaded);
        assert!(refused.retry_after.is_some());
        let second = calls.enter(Kind::Keeps).unwrap();
        assert!(calls.enter(Kind::Keeps).is_err());
        assert_eq!(calls.under_way(), 2, "the refused are not counted");
        drop((first, second));
        assert!(calls.enter(Kind::Starts).is_ok());
    }

    #[test]
    fn answers_that_nobody_takes_hold_back_new_operations_of_all() {
        let calls = Calls::new(8);
        calls.occupy(8);
        assert_eq!(
            calls.has_room(Kind::Starts).unwrap_err().reason,
            Reason::Overloaded
        );
        assert!(calls.has_room(Kind::Keeps).is_ok());
        calls.occupy(8);
        assert!(calls.has_room(Kind::Keeps).is_err());
        calls.vacate(9);
        assert!(calls.has_room(Kind::Starts).is_ok());
    }
}
