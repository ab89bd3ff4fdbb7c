//! Whether this node is in touch with its cluster: openraft goes on naming a leader that is long gone,
//! because with pre-votes an isolated follower never begins a new term.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use openraft::{Instant as _, async_runtime::watch::WatchReceiver};

use super::node::RaftNode;

/// A node that heard nothing for this long is cut off: several elections at the usual timing.
const SILENT_MAX: Duration = Duration::from_secs(2);

/// Whether a node is in touch with its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    /// It has heard from a leader lately, or, as the leader, from a quorum.
    InTouch,
    /// It follows, and has heard from no leader.
    NoLeader,
    /// It calls itself the leader, and no quorum has answered it.
    NoQuorum,
}

impl Touch {
    /// A sentence for probes, if it is not in touch.
    ///
    /// # Errors
    ///
    /// What is missing.
    pub const fn check(self) -> Result<(), &'static str> {
        match self {
            Self::InTouch => Ok(()),
            Self::NoLeader => Err("this node has heard from no leader lately"),
            Self::NoQuorum => {
                Err("this node calls itself leader, but no quorum has answered it lately")
            }
        }
    }
}

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
    /// How long silence lasts before it means something: with slow heartbeats two seconds do not.
    pub(super) fn silent_max(&self) -> Duration {
        SILENT_MAX.max(self.inner.local.config.timing.election_max)
    }

    /// Whether a leader has been heard lately, or, on the leader, a quorum.
    #[must_use]
    pub fn touch(&self, now: Instant) -> Touch {
        self.touch_within(self.silent_max(), now)
    }

    /// The same within two election timeouts, for those who can go elsewhere at little cost and must
    /// not be kept waiting by a node that learns of nothing, or for whom nothing is decided here.
    #[must_use]
    pub fn touch_closely(&self, now: Instant) -> Touch {
        self.touch_within(2 * self.inner.local.config.timing.election_max, now)
    }

    fn touch_within(&self, within: Duration, now: Instant) -> Touch {
        let metrics = self.inner.raft.metrics();
        let metrics = metrics.borrow_watched();
        let (silent, out_of_touch) = if metrics.current_leader == Some(metrics.id) {
            if metrics.membership_config.voter_ids().count() == 1 {
                return Touch::InTouch;
            }
            let acked = metrics.last_quorum_acked;
            let silent = acked.map(|acked| acked.into_inner().elapsed());
            (silent, Touch::NoQuorum)
        } else {
            let heard = self.inner.service.heard.last();
            let silent = heard.map(|heard| now.saturating_duration_since(heard));
            (silent, Touch::NoLeader)
        };
        match silent {
            Some(silent) if silent <= within => Touch::InTouch,
            _ => out_of_touch,
        }
    }
}
