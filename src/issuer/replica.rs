//! A replica: the state, and beside it this node's own lease clock, kept in step.

use std::io::Read;
use std::time::{Duration, Instant};

use crate::grant::Grant;
use crate::issuer::machine::{Applied, Machine};
use crate::issuer::{
    Broken, Command, DueLease, Event, InstanceId, LeaseClock, LogId, NodeId, RequestKey,
    SnapshotError,
};
use crate::resource::ResourceName;
use crate::token::TokenValue;

/// What one node holds: everything that the log decided, and when it may end which lease.
///
/// `now` is always this node's monotonic clock, read *after* the entry was committed. The clock side is
/// no part of the state: nodes differ in it, and an election changes none of it.
#[derive(Debug)]
pub struct Replica {
    machine: Machine,
    clock: LeaseClock,
}

/// A live grant together with what is left of its lease on this node's clock.
#[derive(Debug, Clone, Copy)]
pub struct Holding<'a> {
    /// The grant.
    pub grant: &'a Grant,
    /// How long until this node would propose to end it, if it led and nobody renewed; zero if the
    /// lease is due. An estimate to show and to wait by, never to act on.
    pub remaining: Duration,
}

impl Replica {
    /// Puts a clock beside a state, of which all leases and all waits start now at their full length:
    /// late, never early. So it is after a restart, and after a snapshot.
    #[must_use]
    pub fn new(machine: Machine, now: Instant) -> Self {
        let mut clock = LeaseClock::new();
        for grant in machine.grants() {
            clock.set(grant.token.value(), grant.renewals, grant.lease(), now);
        }
        for waiter in machine.all_waiters() {
            clock.set_wait(waiter.request, waiter.wait_ms, now);
        }
        Self { machine, clock }
    }

    /// Applies the next entry of the log, and starts the leases that it grants or renews and the waits
    /// that begin with it.
    ///
    /// `Err` means that the node must stop: see [`Machine::apply`].
    pub fn apply(&mut self, at: LogId, command: &Command, now: Instant) -> Result<Applied, Broken> {
        let applied = self.machine.apply(at, command)?;
        for event in &applied.events {
            match event {
                Event::Granted {
                    token,
                    lease,
                    request,
                    ..
                } => {
                    self.clock.set(token.value(), 0, *lease, now);
                    self.clock.clear_wait(request);
                }
                Event::Renewed {
                    token,
                    ttl,
                    renewals,
                    ..
                } => {
                    self.clock.set(token.value(), *renewals, *ttl, now);
                }
                Event::Ended { token, .. } => self.clock.clear(token.value()),
                Event::Queued {
                    request, wait_ms, ..
                } => self.clock.set_wait(*request, *wait_ms, now),
                Event::Left { request, .. } => self.clock.clear_wait(request),
                Event::FloorRaised { .. } | Event::Admitted { .. } => {}
            }
        }
        Ok(applied)
    }

    /// Applies an entry that carries nothing.
    pub fn apply_blank(&mut self, at: LogId) -> Result<(), Broken> {
        self.machine.apply_blank(at)
    }

    /// Applies a membership entry; see [`Machine::apply_members`].
    pub fn apply_members(
        &mut self,
        at: LogId,
        members: &[(NodeId, InstanceId)],
    ) -> Result<(), Broken> {
        self.machine.apply_members(at, members)
    }

    /// Takes over a snapshot. If it is refused, nothing has changed.
    pub fn install(&mut self, snapshot: impl Read, now: Instant) -> Result<(), SnapshotError> {
        *self = Self::new(Machine::read_snapshot(snapshot)?, now);
        Ok(())
    }

    /// The state.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// This node's lease clock.
    #[must_use]
    pub fn clock(&self) -> &LeaseClock {
        &self.clock
    }

    /// The leases that the leader may propose to end at `now`, the longest overdue first.
    #[must_use]
    pub fn due(&self, now: Instant, max: usize) -> Vec<DueLease> {
        self.clock.due(now, max)
    }

    /// When the next lease comes due; in the past if one is due already.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.clock.next_deadline()
    }

    /// The requests whose waits the leader may propose to end at `now`, as
    /// [`WaitedOut`](crate::grant::LeftHow::WaitedOut), the longest overdue first.
    #[must_use]
    pub fn due_waits(&self, now: Instant, max: usize) -> Vec<RequestKey> {
        self.clock.due_waits(now, max)
    }

    /// When the next wait runs out; in the past if one has already.
    #[must_use]
    pub fn next_wait_deadline(&self) -> Option<Instant> {
        self.clock.next_wait_deadline()
    }

    /// The live grant of a resource, and what is left of its lease.
    #[must_use]
    pub fn holding(&self, resource: &ResourceName, now: Instant) -> Option<Holding<'_>> {
        self.machine
            .inspect(resource)
            .map(|grant| self.with_remaining(grant, now))
    }

    /// The live grant with this token, and what is left of its lease.
    #[must_use]
    pub fn holding_of(&self, token: TokenValue, now: Instant) -> Option<Holding<'_>> {
        self.machine
            .grant(token)
            .map(|grant| self.with_remaining(grant, now))
    }

    /// What is left of the lease of a grant of this replica.
    #[must_use]
    pub fn with_remaining<'a>(&self, grant: &'a Grant, now: Instant) -> Holding<'a> {
        let remaining = self
            .clock
            .remaining(grant.token.value(), now)
            .unwrap_or_default();
        Holding { grant, remaining }
    }
}
