//! The lease clock: when, on this node's monotonic clock, each live grant may be ended, and when each
//! wait runs out.
//!
//! No timestamp in the state decides anything. Every node keeps this beside its state and sets
//! `applied here + TTL * 1.002` each time it applies a grant or a renewal; only the leader acts on
//! it, by proposing `Expire`. An entry is applied after the holder sent its request, so a node's
//! deadline is never before the holder's own, on whichever node leads next: a new leader already has
//! the deadlines, and an election resets no TTL (etcd#9888).
//!
//! A wait is kept in the same way, from the first applied send of its request on.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use crate::grant::Ttl;
use crate::issuer::{DueLease, RequestKey};
use crate::limits::LEASE_MARGIN_PER_MILLE;
use crate::token::TokenValue;

/// The deadlines of all live grants and of all waits on this node. `now` is always an argument.
///
/// Deadlines are kept as nanoseconds after the first instant that the clock saw, which takes half the
/// room of an `Instant`. A `now` before that first instant counts as it: late, never early.
#[derive(Debug, Default)]
pub struct LeaseClock {
    start: Option<Instant>,
    /// Each with the number of renewals that its deadline was computed for. They are stored together,
    /// so that a renewal which slips in after makes the `Expire` do nothing (etcd#15247).
    leases: Deadlines<TokenValue, u64>,
    waits: Deadlines<RequestKey, ()>,
}

/// Nanoseconds since the clock's start: 584 years of them.
type Nanos = u64;

impl LeaseClock {
    /// A clock without leases.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Starts a lease, or starts it anew, at `now`.
    pub fn set(&mut self, token: TokenValue, renewals: u64, lease: Ttl, now: Instant) {
        let at = self.after(lease.as_ms(), now);
        self.leases.set(token, renewals, at);
    }

    /// Forgets the lease of a grant that ended.
    pub fn clear(&mut self, token: TokenValue) {
        self.leases.clear(&token);
    }

    /// Starts a wait at `now`.
    pub fn set_wait(&mut self, request: RequestKey, wait_ms: u32, now: Instant) {
        let at = self.after(u64::from(wait_ms), now);
        self.waits.set(request, (), at);
    }

    /// Forgets a wait that came to an end.
    pub fn clear_wait(&mut self, request: &RequestKey) {
        self.waits.clear(request);
    }

    /// The leases whose deadlines have passed at `now`, the longest overdue first, at most `max`.
    /// They stay here until an applied entry ends or renews them.
    #[must_use]
    pub fn due(&self, now: Instant, max: usize) -> Vec<DueLease> {
        let passed = self.leases.passed(self.nanos(now)).take(max);
        let leases = passed.map(|(token, renewals)| DueLease { token, renewals });
        leases.collect()
    }

    /// The requests whose waits have run out at `now`, the longest overdue first, at most `max`. They
    /// stay here until an applied entry ends their places.
    #[must_use]
    pub fn due_waits(&self, now: Instant, max: usize) -> Vec<RequestKey> {
        let passed = self.waits.passed(self.nanos(now)).take(max);
        passed.map(|(request, ())| request).collect()
    }

    /// When the next lease comes due; in the past if one is due already.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.instant(self.leases.first()?)
    }

    /// When the next wait runs out; in the past if one has already.
    #[must_use]
    pub fn next_wait_deadline(&self) -> Option<Instant> {
        self.instant(self.waits.first()?)
    }

    /// How long a lease still has at `now`, zero if it is due; `None` if there is no such lease.
    #[must_use]
    pub fn remaining(&self, token: TokenValue, now: Instant) -> Option<Duration> {
        let (at, _) = self.leases.by_key.get(&token)?;
        Some(Duration::from_nanos(at.saturating_sub(self.nanos(now))))
    }

    /// How many leases there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.leases.by_key.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.leases.by_key.is_empty()
    }

    /// How many waits there are.
    #[must_use]
    pub fn waits_len(&self) -> usize {
        self.waits.by_key.len()
    }

    /// So many milliseconds after `now`, and the margin on top.
    fn after(&mut self, ms: u64, now: Instant) -> Nanos {
        self.start.get_or_insert(now);
        // A thousandth of a millisecond is a thousand nanoseconds.
        let lasts = ms * (1_000_000 + 1_000 * LEASE_MARGIN_PER_MILLE);
        self.nanos(now).saturating_add(lasts)
    }

    fn nanos(&self, now: Instant) -> Nanos {
        let since = self.start.map(|start| now.saturating_duration_since(start));
        Nanos::try_from(since.unwrap_or_default().as_nanos()).unwrap_or(Nanos::MAX)
    }

    fn instant(&self, at: Nanos) -> Option<Instant> {
        Some(self.start? + Duration::from_nanos(at))
    }
}

/// Deadlines by what they are of, and in the order in which they come.
#[derive(Debug)]
struct Deadlines<K, V> {
    by_key: BTreeMap<K, (Nanos, V)>,
    in_order: BTreeSet<(Nanos, K)>,
}

impl<K, V> Default for Deadlines<K, V> {
    fn default() -> Self {
        Self {
            by_key: BTreeMap::new(),
            in_order: BTreeSet::new(),
        }
    }
}

impl<K: Ord + Copy, V: Copy> Deadlines<K, V> {
    fn set(&mut self, key: K, computed_for: V, at: Nanos) {
        if let Some((old, _)) = self.by_key.insert(key, (at, computed_for)) {
            self.in_order.remove(&(old, key));
        }
        self.in_order.insert((at, key));
    }

    fn clear(&mut self, key: &K) {
        if let Some((old, _)) = self.by_key.remove(key) {
            self.in_order.remove(&(old, *key));
        }
    }

    fn first(&self) -> Option<Nanos> {
        self.in_order.first().map(|(at, _)| *at)
    }

    /// Those that have passed, the longest overdue first.
    fn passed(&self, now: Nanos) -> impl Iterator<Item = (K, V)> {
        let passed = self.in_order.iter().take_while(move |(at, _)| *at <= now);
        passed.filter_map(|(_, key)| Some((*key, self.by_key.get(key)?.1)))
    }
}
