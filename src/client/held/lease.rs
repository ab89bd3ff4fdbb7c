//! What a handle and the background share about one lease: until when it is safe, and whether it is lost.
//!
//! All that is known stands in one place and changes in one step, so that whoever looks first (a waiting
//! future, the background, a renewal that comes in) decides alike, and nobody can bring back what somebody
//! has already called lost.

use super::lost::{Lost, LostHow};
use crate::client::clock::BootInstant;
use crate::client::{Acquired, Error};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;

/// How long before its deadline a lease is called lost, at most: time for the word to get around. Of short
/// leases it is a twentieth.
const MARGIN_MAX: Duration = Duration::from_millis(100);

/// One lease, from its grant to its end.
pub(super) struct Lease {
    pub(super) acquired: Acquired,
    standing: watch::Sender<Standing>,
}

/// How a lease stands.
#[derive(Debug, Clone)]
pub(super) struct Standing {
    /// Until when it certainly lives; `None` before the first acknowledged renewal of a grant whose start
    /// is not known.
    pub(super) safe_until: Option<BootInstant>,
    /// When it is called lost unless a renewal is acknowledged first.
    pub(super) lost_at: BootInstant,
    /// The length of the lease as it was granted or renewed last.
    pub(super) lease: Duration,
    /// The last failed renewal since then.
    cause: Option<Arc<Error>>,
    lost: Option<Lost>,
}

impl Standing {
    fn safe(safe_until: BootInstant, lease: Duration) -> Self {
        Self {
            safe_until: Some(safe_until),
            lost_at: safe_until.minus(margin(lease)),
            lease,
            cause: None,
            lost: None,
        }
    }

    /// Whether and how it is lost.
    pub(super) fn lost(&self) -> Option<&Lost> {
        self.lost.as_ref()
    }

    /// When to renew it: a third of the lease after it began, or at once when nobody knows when that was.
    pub(super) fn renew_at(&self, now: BootInstant) -> BootInstant {
        self.safe_until
            .map_or(now, |until| until.minus(self.lease - self.lease / 3))
    }
}

fn margin(lease: Duration) -> Duration {
    (lease / 20).min(MARGIN_MAX)
}

impl Lease {
    /// A lease that was granted, of which this process learned at `now`.
    pub(super) fn new(acquired: Acquired, now: BootInstant) -> Self {
        let lease = acquired.lease;
        let known = acquired
            .safe_until()
            .map(|until| Standing::safe(until, lease))
            .filter(|standing| now < standing.lost_at);
        // Out of a queue, from an earlier answer, or so late that the known start says nothing any more: a
        // renewal tells. Without one it has certainly run out when the lease has passed once more.
        let standing = known.unwrap_or_else(|| Standing {
            safe_until: None,
            ..Standing::safe(now.plus(lease), lease)
        });
        let (standing, _) = watch::channel(standing);
        Self { acquired, standing }
    }

    /// How it stands at `now`. The clock comes first: what has run out is lost, whatever arrives later.
    pub(super) fn standing(&self, now: BootInstant) -> Standing {
        self.standing.send_if_modified(|standing| {
            let ran_out = standing.lost.is_none() && standing.lost_at <= now;
            if ran_out {
                self.lose_in(standing, LostHow::RanOut);
            }
            ran_out
        });
        self.standing.borrow().clone()
    }

    /// A renewal was acknowledged; false, and without effect, when the lease was lost before.
    pub(super) fn renewed(
        &self,
        now: BootInstant,
        safe_until: BootInstant,
        lease: Duration,
    ) -> bool {
        if self.standing(now).lost.is_some() {
            return false;
        }
        self.standing.send_if_modified(|standing| {
            let alive = standing.lost.is_none();
            if alive {
                // A renewal that was sent later never ends sooner, unless the TTL is a shorter one now.
                *standing = Standing::safe(safe_until, lease);
            }
            alive
        })
    }

    /// A renewal failed, and says nothing about the lease.
    pub(super) fn not_renewed(&self, cause: &Arc<Error>) {
        self.standing.send_if_modified(|standing| {
            standing.cause = Some(Arc::clone(cause));
            false
        });
    }

    /// It is lost; the first reason stays.
    pub(super) fn lose(&self, how: LostHow) {
        self.standing.send_if_modified(|standing| {
            let alive = standing.lost.is_none();
            if alive {
                self.lose_in(standing, how);
            }
            alive
        });
    }

    fn lose_in(&self, standing: &mut Standing, how: LostHow) {
        standing.safe_until = None;
        standing.lost = Some(Lost {
            resource: self.acquired.resource.clone(),
            token: self.acquired.token,
            how,
            cause: standing.cause.take().filter(|_| how == LostHow::RanOut),
        });
    }

    /// Tells of each change from now on.
    pub(super) fn subscribe(&self) -> watch::Receiver<Standing> {
        self.standing.subscribe()
    }
}
