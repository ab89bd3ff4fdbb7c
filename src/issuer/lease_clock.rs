//! The lease clock: when, on this node's monotonic clock, each live grant may be ended.
//!
//! No timestamp in the state decides anything. Every node keeps this beside its state and sets
//! `applied here + TTL * 1.002` each time it applies a grant or a renewal; only the leader acts on
//! it, by proposing `Expire`. An entry is applied after the holder sent its request, so a node's
//! deadline is never before the holder's own, on whichever node leads next: a new leader already has
//! the deadlines, and an election resets no TTL (etcd#9888).

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::grant::Ttl;
use crate::issuer::DueLease;
use crate::limits::LEASE_MARGIN_PER_MILLE;
use crate::token::TokenValue;

/// The deadlines of all live grants on this node. `now` is always an argument.
///
/// Deadlines are kept as nanoseconds after the first instant that the clock saw, which takes half the
/// room of an `Instant`. A `now` before that first instant counts as it: late, never early.
#[derive(Debug, Default)]
pub struct LeaseClock {
    start: Option<Instant>,
    by_token: BTreeMap<TokenValue, Deadline>,
    /// The same deadlines in the order in which they come due.
    in_order: BTreeSet<(Nanos, TokenValue)>,
}

/// Nanoseconds since the clock's start: 584 years of them.
type Nanos = u64;

/// When a lease may be ended, and the number of renewals that this was computed for. They are stored
/// together, so that a renewal which slips in after makes the `Expire` do nothing (etcd#15247).
#[derive(Debug, Clone, Copy)]
struct Deadline {
    at: Nanos,
    renewals: u64,
}

impl LeaseClock {
    /// A clock without leases.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a lease, or starts it anew, at `now`.
    pub fn set(&mut self, token: TokenValue, renewals: u64, ttl: Ttl, now: Instant) {
        self.start.get_or_insert(now);
        // A thousandth of a millisecond is a thousand nanoseconds.
        let lasts = ttl.as_ms() * (1_000_000 + 1_000 * LEASE_MARGIN_PER_MILLE);
        let at = self.nanos(now).saturating_add(lasts);
        if let Some(old) = self.by_token.insert(token, Deadline { at, renewals }) {
            self.in_order.remove(&(old.at, token));
        }
        self.in_order.insert((at, token));
    }

    /// Forgets the lease of a grant that ended.
    pub fn clear(&mut self, token: TokenValue) {
        if let Some(old) = self.by_token.remove(&token) {
            self.in_order.remove(&(old.at, token));
        }
    }

    /// The leases whose deadlines have passed at `now`, the longest overdue first, at most `max`.
    /// They stay here until an applied entry ends or renews them.
    #[must_use]
    pub fn due(&self, now: Instant, max: usize) -> Vec<DueLease> {
        let now = self.nanos(now);
        let passed = self.in_order.iter().take_while(|(at, _)| *at <= now);
        let leases = passed.take(max).filter_map(|(_, token)| {
            let renewals = self.by_token.get(token)?.renewals;
            Some(DueLease {
                token: *token,
                renewals,
            })
        });
        leases.collect()
    }

    /// When the next lease comes due; in the past if one is due already.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let (at, _) = self.in_order.first()?;
        Some(self.start? + Duration::from_nanos(*at))
    }

    /// How long a lease still has at `now`, zero if it is due; `None` if there is no such lease.
    #[must_use]
    pub fn remaining(&self, token: TokenValue, now: Instant) -> Option<Duration> {
        let deadline = self.by_token.get(&token)?;
        Some(Duration::from_nanos(
            deadline.at.saturating_sub(self.nanos(now)),
        ))
    }

    /// How many leases there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_token.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_token.is_empty()
    }

    fn nanos(&self, now: Instant) -> Nanos {
        let since = self.start.map(|start| now.saturating_duration_since(start));
        Nanos::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(Nanos::MAX)
    }
}
