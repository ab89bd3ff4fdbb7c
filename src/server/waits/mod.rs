//! Waiting in line: the calls that wait at this node, and what the leader does for the queues.
//!
//! The queue itself is replicated state: who waits for what, in which order, is decided in the core and
//! survives any node. This part keeps what is *not* state.
//!
//! # At every node
//!
//! A waiting call stays open at the node that its caller reached. That node passes the Acquire to the
//! leader, and learns from its own applied entries how it came out: [`Waits`] is told about each of them,
//! and finds the calls by the key of their request id. A call is known here *before* its Acquire is
//! proposed, so no entry can slip by. Several calls may wait for one place, because a caller that lost
//! its connection comes back before anybody notices; each is answered.
//!
//! Twice a second the node vouches to the leader for all calls that are open here. When the leader has
//! not acknowledged that for a second, the calls end: nobody keeps their places any more, and their
//! callers may reach a node that does better.
//!
//! # At the leader
//!
//! It remembers who was vouched for, and when. That is no state: a new leader begins with everybody being
//! there, and so does one that stood still. It proposes `Withdraw` for places that nobody vouched for
//! during two seconds and for those whose wait is over, and `Promote` for resources that are free and have
//! a queue. What becomes of it, the log decides.
//!
//! # What is left out
//!
//! Nothing here measures when a *caller* is gone: that is the transport's business, which drops the call.
//! A half-open connection looks like a caller that is there until the transport notices.

mod attendance;
mod calls;
mod counted;
mod office;
mod sink;
mod vouching;

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::server::{
    clock,
    raft::{Attached, VouchHandler},
    telemetry::Metrics,
};
use attendance::Attendance;
use counted::Counted;

pub use calls::{Calls, NotTaken, Turn, Waiting};
pub use office::lead;
pub use vouching::vouch;

/// Everything that waits here, and, on the leader, who is attached anywhere.
pub struct Waits {
    calls: Calls,
    /// There is one while this node leads in touch with a quorum.
    attendance: Mutex<Option<Attendance>>,
    /// Wakes the office: a resource may be free and have a queue.
    freed: Notify,
    counted: Counted,
}

impl Waits {
    /// Nobody waits yet.
    #[must_use]
    pub fn new(metrics: &Metrics) -> Self {
        Waits {
            calls: Calls::default(),
            attendance: Mutex::default(),
            freed: Notify::new(),
            counted: Counted::new(metrics),
        }
    }

    /// The calls that wait at this node.
    #[must_use]
    pub fn calls(&self) -> &Calls {
        &self.calls
    }

    fn attendance(&self) -> MutexGuard<'_, Option<Attendance>> {
        // Whoever panicked with it left nothing half done that the next count would not mend.
        self.attendance
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl VouchHandler for Waits {
    fn vouched(&self, places: &[Attached]) -> bool {
        let now = clock::now();
        match self.attendance().as_mut() {
            Some(attendance) => {
                attendance.vouched(places, now);
                true
            }
            None => false,
        }
    }
}
