//! The store in memory: the same promises towards a disk that is a value.
//!
//! Tests and simulations use it where a real disk would only be slow. A [`MemoryDisk`] outlives
//! the stores opened on it, and can do what a disk does at its worst: hold writes back, and lose
//! those that it held when the power goes.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::{Bytes, BytesMut};
use tokio::sync::watch;

use super::contract::{Completion, NewSnapshot, SnapshotManifest, SnapshotReader, Store};
use super::entry::{Entry, LogId, LogState, StoredVote};
use super::error::StoreError;
use super::identity::{Identity, InstanceId, Membership, Ready, ReadyError};
use super::open::Recovered;
use super::window::{Source, Window};

/// Content of one snapshot and what is known of it.
type Snapshot = (SnapshotManifest, Bytes);

#[derive(Debug, Clone)]
enum Write {
    Append(Vec<Entry>),
    Vote(StoredVote),
    Truncate(Option<LogId>),
    Purge(LogId),
    Committed(Option<LogId>),
    Snapshot(Snapshot),
}

/// What is stored: as callers see it, or as the disk has it.
#[derive(Debug, Clone)]
struct Contents {
    window: Window,
    snapshot: Option<Snapshot>,
}

impl Contents {
    fn new() -> Self {
        Self {
            window: Window::new(usize::MAX),
            snapshot: None,
        }
    }

    fn apply(&mut self, write: Write) -> Result<(), String> {
        match write {
            Write::Append(entries) => {
                self.window.append(&entries);
            }
            Write::Vote(vote) => self.window.vote = Some(vote),
            Write::Truncate(last) => self.window.truncate_after(last)?,
            Write::Purge(upto) => {
                self.window.purge(upto);
            }
            Write::Committed(committed) => self.window.committed = committed,
            Write::Snapshot(snapshot) => {
                let current = self.snapshot.as_ref().map(|(current, _)| current.last);
                if current <= Some(snapshot.0.last) {
                    self.snapshot = Some(snapshot);
                }
            }
        }
        Ok(())
    }
}

struct Platter {
    identity: Identity,
    boots: u64,
    durable: Contents,
    held: bool,
    pending: VecDeque<(Write, Option<Completion>)>,
    /// Which opening of the disk may write; a store of an earlier one is a dead process.
    life: u64,
}

/// A disk that is a value. Clones are the same disk.
#[derive(Clone)]
pub struct MemoryDisk(Arc<Mutex<Platter>>);

impl MemoryDisk {
    /// An empty disk for a node of this id.
    #[must_use]
    pub fn new(node_id: u64, instance: InstanceId) -> Self {
        Self(Arc::new(Mutex::new(Platter {
            identity: Identity {
                node_id,
                instance,
                membership: Membership::Forming,
            },
            boots: 0,
            durable: Contents::new(),
            held: false,
            pending: VecDeque::new(),
            life: 0,
        })))
    }

    fn platter(&self) -> MutexGuard<'_, Platter> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on writes are kept in the disk's cache and not acknowledged, like under a slow or
    /// hanging fsync, until [`Self::release`].
    pub fn hold(&self) {
        self.platter().held = true;
    }

    /// Makes everything that was held durable, acknowledges it, and holds nothing any more.
    pub fn release(&self) {
        let mut done = Vec::new();
        {
            let mut platter = self.platter();
            platter.held = false;
            while let Some((write, waiting)) = platter.pending.pop_front() {
                let applied = platter.durable.apply(write).map_err(StoreError::invalid);
                done.extend(waiting.map(|waiting| (waiting, applied)));
            }
        }
        for (waiting, applied) in done {
            waiting(applied);
        }
    }

    /// Cuts the power: of the writes that were held the first `kept` reached the disk and the
    /// others are lost; none of them is ever acknowledged. The store that was open is dead.
    pub fn cut_power(&self, kept: usize) {
        let lost = {
            let mut platter = self.platter();
            platter.held = false;
            platter.life += 1;
            let mut pending = std::mem::take(&mut platter.pending);
            let kept = kept.min(pending.len());
            for (write, _) in pending.drain(..kept) {
                // It was checked when it was handed over.
                let _applied = platter.durable.apply(write);
            }
            pending
        };
        drop(lost);
    }
}

impl std::fmt::Debug for MemoryDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryDisk").finish_non_exhaustive()
    }
}

/// The store of a node in memory. Completions are called before the write returns, unless the disk
/// holds writes back.
pub struct MemoryStore {
    disk: MemoryDisk,
    life: u64,
    boots: u64,
    contents: Mutex<Contents>,
    failure: watch::Sender<Option<StoreError>>,
}

impl MemoryStore {
    /// Opens the disk, as a node that starts does. A store that was open on it before is dead.
    #[must_use]
    pub fn open(disk: &MemoryDisk) -> (Self, Recovered) {
        disk.cut_power(usize::MAX);
        let mut platter = disk.platter();
        platter.boots += 1;
        let contents = platter.durable.clone();
        let window = &contents.window;
        let recovered = Recovered {
            identity: platter.identity.clone(),
            boots: platter.boots,
            vote: window.vote,
            log: window.log,
            committed: window.committed,
            snapshot: contents
                .snapshot
                .as_ref()
                .map(|(manifest, _)| manifest.clone()),
            repairs: Vec::new(),
        };
        let store = Self {
            disk: disk.clone(),
            life: platter.life,
            boots: platter.boots,
            contents: Mutex::new(contents),
            failure: watch::Sender::new(None),
        };
        (store, recovered)
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_ready(&self) -> Result<(), StoreError> {
        match self.disk.platter().identity.membership {
            Membership::Ready(_) => Ok(()),
            Membership::Forming => Err(StoreError::invalid(
                "this node does not belong to a cluster yet",
            )),
        }
    }

    /// Shows a write to readers at once and hands it to the disk.
    fn write(
        &self,
        check: impl FnOnce(&Contents) -> Result<Write, StoreError>,
        done: Option<Completion>,
    ) {
        let mut contents = self.contents();
        let applied = check(&contents).and_then(|write| {
            let applied = contents.apply(write.clone()).map_err(StoreError::invalid);
            applied.map(|()| write)
        });
        let mut waiting = done;
        let outcome = applied.map(|write| {
            let mut platter = self.disk.platter();
            if platter.life != self.life {
                // The power went: nobody hears of it any more.
                waiting = None;
            } else if platter.held {
                platter.pending.push_back((write, waiting.take()));
            } else {
                let _applied = platter.durable.apply(write);
            }
        });
        drop(contents);
        if let Some(done) = waiting {
            done(outcome);
        }
    }
}

impl Store for MemoryStore {
    fn log_state(&self) -> LogState {
        self.contents().window.log
    }

    fn append(&self, entries: Vec<Entry>, done: Completion) {
        let ready = self.check_ready();
        let check = |contents: &Contents| {
            ready?;
            contents
                .window
                .check_append(&entries)
                .map_err(StoreError::invalid)?;
            Ok(Write::Append(entries))
        };
        self.write(check, Some(done));
    }

    fn read(&self, range: Range<u64>, bytes_max: usize) -> Result<Vec<Entry>, StoreError> {
        match self.contents().window.locate(&range, bytes_max) {
            Source::Memory(found) => Ok(found),
            Source::Database { range, .. } => Err(StoreError::damaged(format!(
                "entries {range:?} are not in memory"
            ))),
        }
    }

    fn vote(&self) -> Option<StoredVote> {
        self.contents().window.vote
    }

    fn save_vote(&self, vote: StoredVote, done: Completion) {
        let ready = self.check_ready();
        let check = |contents: &Contents| {
            ready?;
            contents
                .window
                .check_vote(&vote)
                .map_err(StoreError::invalid)?;
            Ok(Write::Vote(vote))
        };
        self.write(check, Some(done));
    }

    fn truncate_after(&self, last: Option<LogId>, done: Completion) {
        self.write(|_| Ok(Write::Truncate(last)), Some(done));
    }

    fn purge(&self, upto: LogId, done: Completion) {
        self.write(|_| Ok(Write::Purge(upto)), Some(done));
    }

    fn committed(&self) -> Option<LogId> {
        self.contents().window.committed
    }

    fn save_committed(&self, committed: Option<LogId>) {
        self.write(|_| Ok(Write::Committed(committed)), None);
    }

    fn snapshot(&self) -> Option<SnapshotManifest> {
        self.contents()
            .snapshot
            .as_ref()
            .map(|(manifest, _)| manifest.clone())
    }

    fn save_snapshot(&self, snapshot: NewSnapshot, done: Completion) {
        let ready = self.check_ready();
        let check = |contents: &Contents| {
            ready?;
            snapshot.check().map_err(StoreError::invalid)?;
            let number = contents
                .snapshot
                .as_ref()
                .map_or(1, |(before, _)| before.number + 1);
            let mut content = BytesMut::new();
            snapshot
                .pieces
                .iter()
                .for_each(|piece| content.extend_from_slice(piece));
            let manifest = SnapshotManifest {
                number,
                last: snapshot.last,
                meta: snapshot.meta,
                bytes: content.len() as u64,
            };
            Ok(Write::Snapshot((manifest, content.freeze())))
        };
        self.write(check, Some(done));
    }

    fn read_snapshot(&self) -> Result<Option<SnapshotReader>, StoreError> {
        let snapshot = self.contents().snapshot.clone();
        Ok(snapshot.map(|(manifest, mut content)| {
            let pieces = std::iter::from_fn(move || {
                let piece = content.split_to(content.len().min(64 * 1024));
                (!piece.is_empty()).then_some(Ok(piece))
            });
            SnapshotReader {
                manifest,
                pieces: Box::new(pieces),
            }
        }))
    }

    fn identity(&self) -> Identity {
        self.disk.platter().identity.clone()
    }

    fn make_ready(&self, ready: Ready) -> Result<(), ReadyError> {
        let mut platter = self.disk.platter();
        if !Ready::check(platter.identity.ready(), &ready)? {
            platter.identity.membership = Membership::Ready(ready);
        }
        Ok(())
    }

    fn boots(&self) -> u64 {
        self.boots
    }

    fn failure(&self) -> watch::Receiver<Option<StoreError>> {
        self.failure.subscribe()
    }

    fn space_low(&self) -> bool {
        false
    }
}

impl std::fmt::Debug for MemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MemoryStore")
            .field("boots", &self.boots)
            .finish_non_exhaustive()
    }
}
