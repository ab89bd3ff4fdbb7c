//! Whether this node is in touch with its cluster: openraft goes on naming a leader that is long gone,
//! because with pre-votes an isolated follower never begins a new term.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use openraft::{Instant as _, async_runtime::watch::WatchReceiver};

use super::node::RaftNode;

/// When this node last heard from a leader. Clones share it.
#[derive(Clone, Default)]
pub(super) struct Heard(Arc<Mutex<Option<Instant>>>);

impl Heard {
    /// A leader was heard.
    pub(super) fn note(&self, now: Instant) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(now);
    }

    fn last(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RaftNode {
    /// Whether a leader was heard within `within`, or, on the leader, whether a quorum was.
    #[must_use]
    pub fn in_touch(&self, now: Instant, within: Duration) -> bool {
        let metrics = self.inner.raft.metrics();
        let metrics = metrics.borrow_watched();
        let silent = if metrics.current_leader == Some(metrics.id) {
            if metrics.membership_config.voter_ids().count() == 1 {
                return true;
            }
            let acked = metrics.last_quorum_acked;
            acked.map(|acked| acked.into_inner().elapsed())
        } else {
            let heard = self.inner.service.heard.last();
            heard.map(|heard| now.saturating_duration_since(heard))
        };
        silent.is_some_and(|silent| silent <= within)
    }
}
