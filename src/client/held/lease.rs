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

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::sequencer::Sequencer;
    use crate::token::Token;

    const TTL: Duration = Duration::from_secs(30);

    pub(in crate::client::held) fn at(ms: u64) -> BootInstant {
        BootInstant::from_boot(Duration::from_secs(1_000) + Duration::from_millis(ms))
    }

    /// A grant with token `index`, asked for at `start`, if that is known.
    pub(in crate::client::held) fn granted(
        resource: &str,
        index: u64,
        lease: Duration,
        start: Option<BootInstant>,
    ) -> Acquired {
        let value = crate::token::TokenValue::new(65_536 + index).unwrap();
        let token = Token::new(value, 1, index);
        let resource: crate::resource::ResourceName = resource.parse().unwrap();
        Acquired {
            resource: resource.clone(),
            holder: "me".parse().unwrap(),
            token,
            sequencer: Sequencer {
                issuer: "test".parse().unwrap(),
                resource,
                token: token.value(),
            },
            lease,
            after_wait: false,
            replayed: start.is_none(),
            granted_at_unix_ms: 0,
            safe_until: start.map(|start| start.plus(lease)),
        }
    }

    #[test]
    fn a_lease_is_lost_shortly_before_its_deadline() {
        let lease = Lease::new(granted("a", 1, TTL, Some(at(0))), at(5));
        assert_eq!(lease.standing(at(5)).safe_until, Some(at(30_000)));
        assert!(lease.standing(at(29_899)).lost().is_none());
        let standing = lease.standing(at(29_900));
        assert_eq!(standing.lost().unwrap().how(), LostHow::RanOut);
        assert_eq!(standing.safe_until, None);
    }

    #[test]
    fn a_late_success_does_not_bring_it_back() {
        let lease = Lease::new(granted("a", 1, TTL, Some(at(0))), at(5));
        // Nobody has looked since it ran out: the clock decides, before the news does.
        assert!(!lease.renewed(at(31_000), at(59_000), TTL));
        assert!(lease.standing(at(31_000)).lost().is_some());
        assert!(!lease.renewed(at(31_000), at(59_000), TTL));
        assert!(lease.standing(at(31_000)).lost().is_some());
    }

    #[test]
    fn the_first_reason_stays() {
        let lease = Lease::new(granted("a", 1, TTL, Some(at(0))), at(5));
        lease.lose(LostHow::Ended(crate::grant::EndedHow::Revoked));
        lease.lose(LostHow::Released);
        let how = lease.standing(at(40_000)).lost().unwrap().how();
        assert_eq!(how, LostHow::Ended(crate::grant::EndedHow::Revoked));
    }

    #[test]
    fn a_start_that_is_not_known_claims_nothing_before_a_renewal() {
        let known_too_late = granted("a", 1, TTL, Some(at(0)));
        let two_seconds = granted("a", 1, Duration::from_secs(2), None);
        for (acquired, learned) in [(two_seconds, at(500)), (known_too_late, at(29_950))] {
            let lease = Lease::new(acquired, learned);
            let standing = lease.standing(learned);
            assert_eq!(standing.safe_until, None);
            assert!(standing.lost().is_none());
            assert_eq!(standing.renew_at(learned), learned);
            assert!(lease.renewed(learned, learned.plus(TTL), TTL));
            assert_eq!(lease.standing(learned).safe_until, Some(learned.plus(TTL)));
        }
    }

    #[test]
    fn what_is_never_claimed_is_lost_in_the_end() {
        let lease = Lease::new(granted("a", 1, Duration::from_secs(2), None), at(500));
        assert!(lease.standing(at(2_399)).lost().is_none());
        assert!(lease.standing(at(2_400)).lost().is_some());
    }
}
