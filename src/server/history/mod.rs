//! The history: what happened lately, kept on every node for those who watch.
//!
//! Every applied entry that changed something becomes a [`Moment`], in the order of the log. A watcher
//! has nothing but a cursor and reads from here at its own pace, so a slow one costs nothing; it is
//! told when the history has moved on without it ([`Lost`]), and never misses anything silently
//! (etcd#17529). The history is bounded by bytes. It is not on disk: after a restart the replayed log
//! fills it again, and a snapshot begins it anew, for what the snapshot skipped is not known here.
//!
//! Renewals are most of what happens and few want to hear of them, so they have a ring of their own:
//! however many leases are kept alive, they push no grant out of the history.
//!
//! [`pulse`] wakes the watchers, and ends them when this node cannot tell them any more what happens.

mod pulse;
mod ring;
mod seats;
#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, watch};

use crate::{
    issuer::{Command, Event, Replica},
    server::raft::{AppliedSink, Record, RecordKind},
};
use ring::Ring;

pub use crate::issuer::LogId;
pub use pulse::{Ending, Pulse, run};
pub use ring::Moment;
pub use seats::{Full, Seat};

/// The share of the bytes that is for renewals: one in so many.
const RENEWALS_SHARE: usize = 4;

/// The cursor cannot be gone on from: something after it is not kept here any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// The oldest cursor that can be.
    pub oldest: u64,
}

/// What was read from the history.
#[derive(Debug, Default)]
pub struct Read {
    /// What happened, in order.
    pub moments: Vec<Arc<Moment>>,
    /// Everything up to here was looked at. Where to read on, and the cursor of whoever delivered
    /// the moments.
    pub through: u64,
    /// The last index applied here.
    pub applied: u64,
}

/// The figures of a history.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Facts {
    /// The oldest cursor that a watch can go on from, renewals aside.
    pub oldest: u64,
    /// What it occupies.
    pub bytes: u64,
    /// Watches that are open.
    pub watchers: u64,
    /// How many there may be.
    pub watchers_max: u64,
}

/// What happened lately on this node.
#[derive(Debug)]
pub struct History {
    kept: Mutex<Kept>,
    /// Wakes the task that wakes the watchers: the thread that applies entries does not wake thousands.
    told: Notify,
    pulse: watch::Sender<Pulse>,
    seats: seats::Seats,
}

#[derive(Debug)]
struct Kept {
    changes: Ring,
    renewals: Ring,
    applied: u64,
}

impl History {
    /// An empty one, which keeps so many bytes and lets so many watch.
    #[must_use]
    pub fn new(bytes_max: usize, watchers_max: usize) -> Self {
        let renewals = bytes_max / RENEWALS_SHARE;
        History {
            kept: Mutex::new(Kept {
                changes: Ring::new(bytes_max - renewals),
                renewals: Ring::new(renewals),
                applied: 0,
            }),
            told: Notify::new(),
            pulse: watch::Sender::default(),
            seats: seats::Seats::new(watchers_max),
        }
    }

    /// A place for one more watcher, for as long as it is kept.
    ///
    /// # Errors
    ///
    /// All are taken.
    pub fn seat(&self) -> Result<Seat, Full> {
        self.seats.take()
    }

    /// Reads up to `max` moments after a cursor. A cursor ahead of what is applied here reads nothing.
    ///
    /// # Errors
    ///
    /// Something after the cursor was dropped: on a snapshot, or for want of space.
    pub fn read(&self, after: u64, renewals: bool, max: usize) -> Result<Read, Lost> {
        let kept = self.kept();
        let oldest = kept.oldest(renewals);
        if after < oldest {
            return Err(Lost { oldest });
        }
        let moments = if renewals {
            merged(&kept, after, max)
        } else {
            kept.changes.after(after).take(max).cloned().collect()
        };
        // Only a full read may have left something between its last moment and what is applied.
        let through = match moments.last() {
            Some(last) if moments.len() >= max => last.at.index,
            _ => kept.applied.max(after),
        };
        Ok(Read {
            moments,
            through,
            applied: kept.applied,
        })
    }

    /// What the watchers of this node go by.
    #[must_use]
    pub fn pulse(&self) -> watch::Receiver<Pulse> {
        self.pulse.subscribe()
    }

    /// Its figures.
    #[must_use]
    pub fn facts(&self) -> Facts {
        let (oldest, bytes) = {
            let kept = self.kept();
            (
                kept.oldest(false),
                kept.changes.bytes() + kept.renewals.bytes(),
            )
        };
        Facts {
            oldest,
            bytes: number(bytes),
            watchers: number(self.seats.taken()),
            watchers_max: number(self.seats.max()),
        }
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn oldest(&self, renewals: bool) -> u64 {
        let changes = self.changes.oldest();
        if renewals {
            changes.max(self.renewals.oldest())
        } else {
            changes
        }
    }
}

/// Both rings as one, by index. No entry is in both.
fn merged(kept: &Kept, after: u64, max: usize) -> Vec<Arc<Moment>> {
    let mut changes = kept.changes.after(after).peekable();
    let mut renewals = kept.renewals.after(after).peekable();
    let mut moments = Vec::new();
    while moments.len() < max {
        let next = match (changes.peek(), renewals.peek()) {
            (Some(change), Some(renewal)) if renewal.at.index < change.at.index => renewals.next(),
            (Some(_), _) => changes.next(),
            (None, _) => renewals.next(),
        };
        let Some(moment) = next else { break };
        moments.push(Arc::clone(moment));
    }
    moments
}

impl AppliedSink for History {
    fn applied(&self, records: &[Arc<Record>]) {
        let Some(last) = records.last() else { return };
        // Made before the lock is taken: readers wait for a few pointers to be moved, no more.
        let moments: Vec<_> = records
            .iter()
            .filter_map(|record| moment(record))
            .map(Arc::new)
            .collect();
        {
            let mut kept = self.kept();
            for moment in moments {
                let renewed = |event: &Event| matches!(event, Event::Renewed { .. });
                if moment.events.iter().all(renewed) {
                    kept.renewals.push(moment);
                } else {
                    kept.changes.push(moment);
                }
            }
            kept.applied = last.at.index;
        }
        self.told.notify_one();
    }

    fn replaced(&self, at: LogId, _: &Replica) {
        {
            let mut kept = self.kept();
            kept.changes.restart(at.index);
            kept.renewals.restart(at.index);
            kept.applied = at.index;
        }
        self.told.notify_one();
    }
}

/// What an entry changed; `None` if nothing that a watch tells of. Marks of the guard register rise as
/// often as holders write, and must push no grant out of the history.
fn moment(record: &Record) -> Option<Moment> {
    match &record.kind {
        RecordKind::Command {
            command, events, ..
        } if events.iter().any(told) => Some(Moment {
            at: record.at,
            at_ms: stamped_at_ms(command),
            events: events.as_slice().into(),
        }),
        RecordKind::Command { .. } | RecordKind::Blank | RecordKind::Members(_) => None,
    }
}

fn told(event: &Event) -> bool {
    !matches!(event, Event::Admitted { .. })
}

/// When the leader proposed a command, by its wall clock.
fn stamped_at_ms(command: &Command) -> u64 {
    match command {
        Command::Acquire(acquire) => acquire.stamped_at_ms,
        Command::Renew(renew) => renew.stamped_at_ms,
        Command::Release(release) => release.stamped_at_ms,
        Command::Expire(expire) => expire.stamped_at_ms,
        Command::Revoke(revoke) => revoke.stamped_at_ms,
        Command::RaiseFloor(raise) => raise.stamped_at_us / 1_000,
        Command::Withdraw(withdraw) => withdraw.stamped_at_ms,
        Command::Promote(promote) => promote.stamped_at_ms,
        Command::Admit(admit) => admit.stamped_at_ms,
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
