//! What can be read off the state. None of it changes anything, so none of it is in the log.

use super::{Bounds, Machine};
use crate::grant::{ClusterId, EndedHow, Grant, LeftHow, Ttl};
use crate::issuer::requests::CameOut;
use crate::issuer::{LogId, RequestKey, Waiter};
use crate::limits::LIST_PAGE_MAX;
use crate::resource::{Holder, IssuerName, ResourceName};
use crate::token::{Token, TokenValue};

/// A digest of the whole state, equal on all nodes at an equal log position.
pub type StateDigest = [u8; 32];

/// One page of a listing.
#[derive(Debug, Clone)]
pub struct Page<'a> {
    /// The grants, by the name of their resource.
    pub grants: Vec<&'a Grant>,
    /// Whether there are more; the next page comes after the last resource of this one.
    pub more: bool,
}

/// How a request stands at this moment, whatever its answer was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It waits.
    Waiting {
        /// Where it stands: 1 is granted next.
        position: u32,
        /// How many wait for the resource, this one included.
        queue: u32,
        /// Its highest send so far.
        attempt: u32,
    },
    /// It has a live grant.
    Granted {
        /// The token of the grant.
        token: Token,
        /// The lease that the grant has now.
        lease: Ttl,
        /// Whether the grant came from the queue.
        after_wait: bool,
    },
    /// It was granted, and its grant has ended.
    Ended {
        /// The token that it had.
        token: Token,
        /// How the grant ended.
        how: EndedHow,
    },
    /// It had a place in a queue, and left it without a grant.
    Left {
        /// How the place ended.
        how: LeftHow,
    },
    /// It was refused, and never had a place.
    Refused,
    /// Nothing of it has been applied, or it is forgotten. A withdrawal that came before it does not
    /// count: a later send would still act.
    Unknown,
}

impl Machine {
    /// Who issues.
    #[must_use]
    pub fn issuer(&self) -> &IssuerName {
        &self.issuer
    }

    /// Which cluster this is the state of.
    #[must_use]
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// How much the state may hold.
    #[must_use]
    pub fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// The last entry that was applied.
    #[must_use]
    pub fn applied(&self) -> LogId {
        self.applied
    }

    /// The hash over all entries so far, their outcomes and their events: equal on all nodes at an
    /// equal log position, or `apply` diverged.
    #[must_use]
    pub fn chain(&self) -> [u8; 32] {
        self.chain
    }

    /// What is added to `term * 2^16 + index` to make a token.
    #[must_use]
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// The last token that was issued; `None` before the first.
    #[must_use]
    pub fn last_token(&self) -> Option<TokenValue> {
        TokenValue::new(self.last_token).ok()
    }

    /// The mark of a resource in the cluster's own guard register; `None` before the first token was
    /// admitted. After a restore every resource has one, whether it was ever named or not.
    #[must_use]
    pub fn high_water(&self, resource: &ResourceName) -> Option<TokenValue> {
        TokenValue::new(self.marks.of(resource)).ok()
    }

    /// How many resources were named in the register.
    #[must_use]
    pub fn high_water_marks(&self) -> usize {
        self.marks.len()
    }

    /// Every resource that was named in the register, by name, and its mark.
    pub fn marks(&self) -> impl Iterator<Item = (&ResourceName, TokenValue)> {
        self.marks.iter()
    }

    /// Whether a token is accounted for: it was issued, or an operator or a restore has seen to it that
    /// all later ones are greater. Once it is, it stays so. A guard that has admitted one for which this
    /// is false may refuse the next holder.
    #[must_use]
    pub fn accounts_for(&self, token: TokenValue) -> bool {
        let accounted = self
            .last_token
            .max(self.raised_above)
            .max(self.marks.floor());
        token.get() <= accounted
    }

    /// How many grants live.
    #[must_use]
    pub fn live_grants(&self) -> usize {
        self.grants.len()
    }

    /// How many request ids are known: those of live grants and of waiters, and those that have
    /// settled or were withdrawn before they came.
    #[must_use]
    pub fn known_request_ids(&self) -> usize {
        self.requests.len() + self.queues.len()
    }

    /// How many wait, for whatever.
    #[must_use]
    pub fn waiters_len(&self) -> usize {
        self.queues.len()
    }

    /// How many wait for a resource.
    #[must_use]
    pub fn queue_len(&self, resource: &ResourceName) -> u32 {
        self.queues.len_of(resource)
    }

    /// Who waits for a resource, in the order in which they will be granted.
    pub fn waiters(&self, resource: &ResourceName) -> impl Iterator<Item = &Waiter> {
        self.queues.of(resource).map(|place| &place.waiter)
    }

    /// Everybody who waits, by the name of the resource and then in order.
    pub fn all_waiters(&self) -> impl Iterator<Item = &Waiter> {
        self.queues.iter().map(|place| &place.waiter)
    }

    /// Where a holder stands in the queue of a resource: 1 is granted next. `None` if it does not
    /// wait there.
    #[must_use]
    pub fn position(&self, resource: &ResourceName, holder: &Holder) -> Option<u32> {
        self.queues
            .position(self.queues.of_holder(resource, holder)?)
    }

    /// The request of every waiter, and its highest send so far: what has to be vouched for.
    pub fn places(&self) -> impl Iterator<Item = (RequestKey, u32)> {
        self.all_waiters()
            .map(|waiter| (waiter.request, waiter.attempt))
    }

    /// The resources that have a queue and no live grant, by name, at most `max`: what the leader
    /// proposes to promote.
    #[must_use]
    pub fn promotable(&self, max: usize) -> Vec<ResourceName> {
        self.queues.free().take(max).cloned().collect()
    }

    /// How a request stands now; for whoever was told that it waits, and may have missed an event.
    #[must_use]
    pub fn standing(&self, request: &RequestKey) -> Standing {
        if let Some(place) = self.queues.get(request) {
            return Standing::Waiting {
                position: self.queues.position(request).unwrap_or_default(),
                queue: self.queues.len_of(&place.waiter.resource),
                attempt: place.waiter.attempt,
            };
        }
        let live = self.requests.token_of(request);
        if let Some(grant) = live.and_then(|token| self.grant(token)) {
            return Standing::Granted {
                token: grant.token,
                lease: grant.lease(),
                after_wait: grant.after_wait,
            };
        }
        match self.requests.how_settled(request) {
            None => Standing::Unknown,
            Some(CameOut::Ended { token, how }) => Standing::Ended { token, how },
            Some(CameOut::Left(how)) => Standing::Left { how },
            Some(
                CameOut::Held
                | CameOut::TooManyGrants
                | CameOut::TooManyWaiters { .. }
                | CameOut::TooManyGrantsOfHolder,
            ) => Standing::Refused,
        }
    }

    /// The live grant of a resource.
    #[must_use]
    pub fn inspect(&self, resource: &ResourceName) -> Option<&Grant> {
        self.grants.of(resource).map(|live| &live.grant)
    }

    /// The live grant with this token.
    #[must_use]
    pub fn grant(&self, token: TokenValue) -> Option<&Grant> {
        self.grants.get(token).map(|live| &live.grant)
    }

    /// How the grant with this token ended; `None` if it lives, was never issued, or ended beyond
    /// memory.
    #[must_use]
    pub fn how_ended(&self, token: TokenValue) -> Option<EndedHow> {
        self.requests.how_ended(token)
    }

    /// All live grants, in the order in which they were made.
    pub fn grants(&self) -> impl Iterator<Item = &Grant> {
        self.grants.iter().map(|live| &live.grant)
    }

    /// The live grants of resources whose names begin with `prefix` (all, if it is empty) and come
    /// after `after`, by name, at most `limit` and never more than
    /// [`LIST_PAGE_MAX`](crate::limits::LIST_PAGE_MAX).
    #[must_use]
    pub fn list(&self, prefix: &str, after: Option<&str>, limit: usize) -> Page<'_> {
        let limit = limit.clamp(1, LIST_PAGE_MAX);
        let mut grants: Vec<_> = self.grants.from(prefix, after).take(limit + 1).collect();
        let more = grants.len() > limit;
        grants.truncate(limit);
        Page { grants, more }
    }
}
