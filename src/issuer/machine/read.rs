//! What can be read off the state. None of it changes anything, so none of it is in the log.

use super::{Bounds, Machine};
use crate::grant::{ClusterId, EndedHow, Grant};
use crate::issuer::LogId;
use crate::limits::LIST_PAGE_MAX;
use crate::resource::{IssuerName, ResourceName};
use crate::token::TokenValue;

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

    /// How many grants live.
    #[must_use]
    pub fn live_grants(&self) -> usize {
        self.grants.len()
    }

    /// How many request ids are known: those of live grants, and those that have settled.
    #[must_use]
    pub fn known_request_ids(&self) -> usize {
        self.requests.live_len() + self.requests.settled().len()
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
