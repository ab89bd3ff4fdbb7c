//! The store on a disk.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;

use tokio::sync::watch;

use super::contract::{Completion, NewSnapshot, SnapshotManifest, SnapshotReader, Store};
use super::entry::{Entry, LogId, LogState, StoredVote};
use super::error::{OpenError, StoreError};
use super::identity::{Identity, Membership, Ready, ReadyError};
use super::open::{self, Options, Recovered};
use super::queue::Job;
use super::shared::{Database, Shared};
use super::window::{Source, Window};
use super::writer::Writer;
use super::{quiet, reader};

/// The store of a node on its disk: sled, one storage thread, and the files beside it.
///
/// Dropping it finishes the writes that were handed over, waits for the storage thread and gives
/// the directory back.
pub struct DiskStore {
    shared: Arc<Shared>,
    database: Arc<Database>,
    dir: PathBuf,
    boots: u64,
    thread: Option<JoinHandle<()>>,
}

impl DiskStore {
    /// Opens the data directory of a node, or makes a new one if it does not exist or is empty.
    ///
    /// Everything in it is read and checked. A directory that lost or changed anything that this
    /// node may have acknowledged is refused with [`OpenError::Damaged`]; see there for what to do.
    pub fn open(dir: &Path, options: &Options) -> Result<(Self, Recovered), OpenError> {
        let mut opened = open::open(dir, options)?;
        let window = std::mem::take(&mut opened.found.window);
        let boots = opened.watermark.mark().boots;
        let recovered = Recovered {
            identity: opened.identity.clone(),
            boots,
            vote: window.vote,
            log: window.log,
            committed: window.committed,
            snapshot: window.snapshot.clone(),
            repairs: std::mem::take(&mut opened.repairs),
        };
        let shared = Arc::new(Shared::new(window, opened.identity.clone()));
        let (writer, database) = Writer::new(opened, Arc::clone(&shared), options.clone());
        let thread = std::thread::Builder::new()
            .name("fencepost-storage".to_owned())
            .spawn(move || writer.run())
            .map_err(|e| OpenError::io("start the storage thread of", dir, e))?;
        let dir = dir.to_owned();
        Ok((
            Self {
                shared,
                database,
                dir,
                boots,
                thread: Some(thread),
            },
            recovered,
        ))
    }

    /// Hands a job over, or answers it at once if the store takes none any more.
    fn put(&self, job: Job) {
        if let Err(job) = self.shared.queue.put(job) {
            job.into_completion()(Err(self
                .shared
                .failure()
                .unwrap_or_else(StoreError::closed)));
        }
    }

    /// The same while the window is held, so that jobs are queued in the order in which the window
    /// took them. The completion is called without the lock.
    fn put_locked(&self, window: MutexGuard<'_, Window>, job: Job) {
        let put = self.shared.queue.put(job);
        drop(window);
        if let Err(job) = put {
            job.into_completion()(Err(self
                .shared
                .failure()
                .unwrap_or_else(StoreError::closed)));
        }
    }

    /// One attempt; `None` if the log was truncated or purged meanwhile.
    fn read_once(
        &self,
        range: &Range<u64>,
        bytes_max: usize,
    ) -> Result<Option<Vec<Entry>>, StoreError> {
        let located = self.shared.window().locate(range, bytes_max);
        let (part, truncations) = match located {
            Source::Memory(found) => return Ok(Some(found)),
            Source::Database { range, truncations } => (range, truncations),
        };
        let read = quiet::catch(|| reader::read_entries(self.database.trees(), &part, bytes_max));
        let read = read.unwrap_or_else(|m| Err(StoreError::panicked("reading the log", &m)));
        if !self.shared.window().still_valid(&part, truncations) {
            return Ok(None);
        }
        let mut found = read?;
        let whole = found.first().is_some_and(|entry| entry.index == part.start)
            && found
                .windows(2)
                .all(|pair| pair[0].index + 1 == pair[1].index);
        if !whole {
            let (start, end) = (part.start, part.end);
            return Err(StoreError::damaged(format!(
                "entries {start}..{end} have a hole"
            )));
        }
        let bytes: usize = found.iter().map(|entry| entry.payload.len()).sum();
        let next = found.last().map_or(part.end, |entry| entry.index + 1);
        // The rest, if it is wanted and was in memory when we looked.
        if next == part.end && next < range.end && bytes < bytes_max {
            let window = self.shared.window();
            if !window.still_valid(&part, truncations) {
                return Ok(None);
            }
            if let Source::Memory(more) = window.locate(&(next..range.end), bytes_max - bytes) {
                let fits = |entry: &Entry| bytes + entry.payload.len() <= bytes_max;
                found.extend(more.into_iter().take_while(fits));
            }
        }
        Ok(Some(found))
    }
}

impl Store for DiskStore {
    fn log_state(&self) -> LogState {
        self.shared.window().log
    }

    fn append(&self, entries: Vec<Entry>, done: Completion) {
        let mut window = self.shared.window();
        let checked = self
            .shared
            .check_ready()
            .and_then(|()| window.check_append(&entries).map_err(StoreError::invalid));
        if let Err(error) = checked {
            drop(window);
            return done(Err(error));
        }
        let truncations = window.append(&entries);
        self.put_locked(
            window,
            Job::Append {
                entries,
                truncations,
                done,
            },
        );
    }

    fn read(&self, range: Range<u64>, bytes_max: usize) -> Result<Vec<Entry>, StoreError> {
        loop {
            match self.read_once(&range, bytes_max) {
                Ok(Some(found)) => return Ok(found),
                // The log was truncated or purged under the reader: look again.
                Ok(None) => {}
                Err(error) => {
                    self.shared.fail(error.clone());
                    return Err(error);
                }
            }
        }
    }

    fn vote(&self) -> Option<StoredVote> {
        self.shared.window().vote
    }

    fn save_vote(&self, vote: StoredVote, done: Completion) {
        let mut window = self.shared.window();
        let checked = self
            .shared
            .check_ready()
            .and_then(|()| window.check_vote(&vote).map_err(StoreError::invalid));
        if let Err(error) = checked {
            drop(window);
            return done(Err(error));
        }
        window.vote = Some(vote);
        self.put_locked(window, Job::Vote { vote, done });
    }

    fn truncate_after(&self, last: Option<LogId>, done: Completion) {
        let mut window = self.shared.window();
        match window.truncate_after(last) {
            Ok(()) => self.put_locked(window, Job::Truncate { last, done }),
            Err(what) => {
                drop(window);
                done(Err(StoreError::invalid(what)));
            }
        }
    }

    fn purge(&self, upto: LogId, done: Completion) {
        let mut window = self.shared.window();
        window.purge(upto);
        self.put_locked(window, Job::Purge { upto, done });
    }

    fn committed(&self) -> Option<LogId> {
        self.shared.window().committed
    }

    fn save_committed(&self, committed: Option<LogId>) {
        self.shared.window().committed = committed;
    }

    fn snapshot(&self) -> Option<SnapshotManifest> {
        self.shared.window().snapshot.clone()
    }

    fn save_snapshot(&self, snapshot: NewSnapshot, done: Completion) {
        let checked = self.shared.check_ready();
        match checked.and_then(|()| snapshot.check().map_err(StoreError::invalid)) {
            Ok(()) => self.put(Job::Snapshot { snapshot, done }),
            Err(error) => done(Err(error)),
        }
    }

    fn read_snapshot(&self) -> Result<Option<SnapshotReader>, StoreError> {
        if let Some(error) = self.shared.failure() {
            return Err(error);
        }
        Ok(self.snapshot().map(|manifest| {
            reader::read_snapshot(
                Arc::clone(&self.database),
                Arc::clone(&self.shared),
                manifest,
            )
        }))
    }

    fn identity(&self) -> Identity {
        self.shared.identity().clone()
    }

    fn make_ready(&self, ready: Ready) -> Result<(), ReadyError> {
        let mut identity = self.shared.identity();
        if Ready::check(identity.ready(), &ready)? {
            return Ok(());
        }
        let bound = Identity {
            membership: Membership::Ready(ready),
            ..identity.clone()
        };
        if let Err(error) = open::write_identity(&self.dir, &bound) {
            let error = StoreError::io("writing IDENTITY", &error);
            self.shared.fail(error.clone());
            return Err(error.into());
        }
        *identity = bound;
        self.shared.set_ready();
        Ok(())
    }

    fn boots(&self) -> u64 {
        self.boots
    }

    fn failure(&self) -> watch::Receiver<Option<StoreError>> {
        self.shared.watch_failure()
    }

    fn space_low(&self) -> bool {
        self.shared.space_low.load(Ordering::Relaxed)
    }
}

impl Drop for DiskStore {
    fn drop(&mut self) {
        self.shared.queue.close();
        // The last handle may be dropped by a completion, on the storage thread itself.
        let thread = self
            .thread
            .take()
            .filter(|thread| thread.thread().id() != std::thread::current().id());
        if let Some(thread) = thread
            && thread.join().is_err()
        {
            tracing::error!("the storage thread panicked");
        }
    }
}

impl std::fmt::Debug for DiskStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DiskStore")
            .field("dir", &self.dir)
            .finish_non_exhaustive()
    }
}
