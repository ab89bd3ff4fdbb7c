//! The storage thread: the only one that writes.
//!
//! Each round drains the queue, writes all of it, flushes once, notes in the watermark what is now
//! durable, and calls the completions in order. That is group commit: while one flush runs, the
//! next group gathers.
//!
//! The first error ends it. Every completion, those of the same round included, then gets that
//! error, since nobody can say what of the round reached the disk.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::contract::{Completion, GroupCommit, Space};
use super::entry::{Entry, LogId, LogState, StoredVote};
use super::error::StoreError;
use super::open::{Opened, Options};
use super::queue::{Job, Taken};
use super::run::{self, Run};
use super::saver::{Saver, Slice};
use super::shared::{Database, Shared};
use super::trees::{self, Record};
use super::watermark::{Mark, Watermark};
use super::{files, quiet, scan};

/// The watermark is synced, and space looked at, at least this often.
const TICK: Duration = Duration::from_secs(1);

/// Runs removed in one round while a purge works through its backlog: about 1 ms of work.
const PURGED_RUNS_A_ROUND: usize = 128;

pub(super) struct Writer {
    database: Arc<Database>,
    shared: Arc<Shared>,
    options: Options,
    dir: PathBuf,
    watermark: Watermark,
    runs: VecDeque<Run>,
    log: LogState,
    vote: Option<StoredVote>,
    committed: Option<LogId>,
    saver: Saver,
    /// Something was written that no caller waits for; flushed with the next group, or by a tick.
    unflushed: bool,
    ticked: Option<Instant>,
    group: Group,
}

/// What one round gathers.
#[derive(Default)]
struct Group {
    done: Vec<Completion>,
    entries: usize,
    bytes: usize,
    /// Something was written that must be durable before the completions are called.
    dirty: bool,
    /// The watermark must be durable before the completions are called.
    sync_watermark: bool,
}

/// Nothing is decided by this clock but when to look at the disk.
#[expect(
    clippy::disallowed_methods,
    reason = "it measures flushes and paces the storage thread"
)]
fn now() -> Instant {
    Instant::now()
}

fn since(start: Instant) -> Duration {
    now().saturating_duration_since(start)
}

impl Writer {
    /// Takes over an opened directory; hands back the database for readers.
    pub(super) fn new(
        opened: Opened,
        shared: Arc<Shared>,
        options: Options,
    ) -> (Self, Arc<Database>) {
        let Opened {
            dir,
            database,
            watermark,
            found,
            ..
        } = opened;
        let database = Arc::new(database);
        let writer = Self {
            database: Arc::clone(&database),
            options,
            dir,
            watermark,
            runs: found.runs,
            log: found.log,
            vote: found.vote,
            committed: None,
            saver: Saver::new(found.manifest, found.strays),
            unflushed: false,
            ticked: None,
            // What was found is durable since the self-test's flush, and is stated first of all.
            group: Group {
                dirty: true,
                sync_watermark: true,
                ..Group::default()
            },
            shared,
        };
        (writer, database)
    }

    /// Works until the queue is closed and empty, or until something fails.
    pub(super) fn run(mut self) {
        let mut jobs = VecDeque::new();
        loop {
            let round = quiet::catch(|| self.round(&mut jobs));
            let round = round
                .unwrap_or_else(|message| Err(StoreError::panicked("writing", &message)))
                .and_then(|()| self.shared.failure().map_or(Ok(()), Err));
            if let Err(error) = round {
                return self.give_up(&error, jobs);
            }
            let patience = self.patience();
            if self.shared.queue.take(&mut jobs, patience) == Taken::Closed && jobs.is_empty() {
                return self.close();
            }
        }
    }

    /// How long to wait for jobs: not at all while there is work to be done in slices.
    fn patience(&self) -> Duration {
        if self.saver.busy() || self.purge_is_behind() {
            return Duration::ZERO;
        }
        let due = self.ticked.map(|ticked| TICK.saturating_sub(since(ticked)));
        due.unwrap_or(Duration::ZERO)
    }

    fn round(&mut self, jobs: &mut VecDeque<Job>) -> Result<(), StoreError> {
        while let Some(job) = jobs.pop_front() {
            self.write(job)?;
        }
        self.remove_purged()?;
        self.group.dirty |= self.save_slice()?;
        let ticks = self.ticked.is_none_or(|ticked| since(ticked) >= TICK);
        if self.group.dirty || ticks {
            self.note_committed()?;
        }
        if self.group.dirty || (ticks && self.unflushed) {
            self.flush()?;
        }
        if ticks {
            self.tick()?;
        }
        let group = std::mem::take(&mut self.group);
        for done in group.done {
            done(Ok(()));
        }
        Ok(())
    }

    fn write(&mut self, job: Job) -> Result<(), StoreError> {
        match job {
            Job::Append {
                entries,
                truncations,
                done,
            } => {
                self.group.done.push(done);
                self.append(&entries, truncations)
            }
            Job::Vote { vote, done } => {
                self.group.done.push(done);
                self.vote = Some(vote);
                self.group.sync_watermark = true;
                self.group.dirty = true;
                self.put(trees::VOTE, &vote)
            }
            Job::Truncate { last, done } => {
                self.group.done.push(done);
                self.truncate_after(last)
            }
            Job::Purge { upto, done } => {
                self.group.done.push(done);
                self.purge(upto)
            }
            Job::Snapshot { snapshot, done } => {
                self.saver.add(snapshot, done);
                Ok(())
            }
        }
    }

    fn put(&self, name: &str, record: &impl Record) -> Result<(), StoreError> {
        let put = self.database.trees().meta.insert(name, record.encode(name));
        put.map(drop)
            .map_err(|e| StoreError::sled("writing a record", &e))
    }

    fn append(&mut self, entries: &[Entry], truncations: u64) -> Result<(), StoreError> {
        let Some(last) = entries.last() else {
            return Ok(());
        };
        let log = &self.database.trees().log;
        let mut rest = entries;
        while let Some((run, mut records, behind)) = run::pack(rest, self.options.record_bytes_max)
        {
            let written = if records.len() == 1 {
                let (key, value) = records.remove(0);
                log.insert(key, value).map(drop)
            } else {
                let mut batch = sled::Batch::default();
                records
                    .into_iter()
                    .for_each(|(key, value)| batch.insert(key, value));
                log.apply_batch(batch)
            };
            written.map_err(|e| StoreError::sled("appending to the log", &e))?;
            self.runs.push_back(run);
            rest = behind;
        }
        self.log.last = Some(last.log_id());
        self.group.dirty = true;
        self.group.entries += entries.len();
        self.group.bytes += entries
            .iter()
            .map(|entry| entry.payload.len())
            .sum::<usize>();
        self.shared
            .window()
            .note_written(truncations, last.index + 1);
        Ok(())
    }

    /// Removes the tail in one batch, after the watermark was lowered durably: from then on it
    /// does not state what is about to go.
    fn truncate_after(&mut self, last: Option<LogId>) -> Result<(), StoreError> {
        let next = last.map_or(0, |last| last.index.saturating_add(1));
        if next >= self.log.next_index() {
            return Ok(());
        }
        self.log.last = last;
        let tip = self.tip();
        let stated = *self.watermark.mark();
        if stated.tip > tip {
            self.state(Mark { tip, ..stated }, true)?;
        }
        let mut batch = sled::Batch::default();
        while let Some(run) = self.runs.pop_back_if(|run| run.last >= next) {
            run.keys().for_each(|key| batch.remove(key));
            if run.first < next {
                self.keep_head(run, next, &mut batch)?;
                break;
            }
        }
        self.group.dirty = true;
        let applied = self.database.trees().log.apply_batch(batch);
        applied.map_err(|e| StoreError::sled("truncating the log", &e))
    }

    /// Writes the entries before `next` of a run that a truncation cuts.
    fn keep_head(
        &mut self,
        run: Run,
        next: u64,
        batch: &mut sled::Batch,
    ) -> Result<(), StoreError> {
        let mut entries = super::reader::read_run(self.database.trees(), run.first)?;
        entries.retain(|entry| entry.index < next);
        if let Some((run, records, _)) = run::pack(&entries, run::RECORD_BYTES_MAX) {
            records
                .into_iter()
                .for_each(|(key, value)| batch.insert(key, value));
            self.runs.push_back(run);
        }
        Ok(())
    }

    /// Writes the marker; the runs go in later rounds, from the head up.
    fn purge(&mut self, upto: LogId) -> Result<(), StoreError> {
        if self
            .log
            .purged
            .is_some_and(|purged| purged.index >= upto.index)
        {
            return Ok(());
        }
        self.log.purged = Some(upto);
        if self.log.last.is_none_or(|last| last.index <= upto.index) {
            self.log.last = Some(upto);
        }
        self.group.dirty = true;
        self.put(trees::PURGED, &upto)
    }

    fn purge_is_behind(&self) -> bool {
        let purged = self.log.purged.map(|purged| purged.index);
        self.runs
            .front()
            .is_some_and(|run| Some(run.last) <= purged)
    }

    fn remove_purged(&mut self) -> Result<(), StoreError> {
        for _ in 0..PURGED_RUNS_A_ROUND {
            if !self.purge_is_behind() {
                break;
            }
            let Some(run) = self.runs.pop_front() else {
                break;
            };
            let log = &self.database.trees().log;
            let removed = if run.parts == 0 {
                run.keys().try_for_each(|key| log.remove(key).map(drop))
            } else {
                // All parts of a split entry or none: a kill must not leave some of them.
                let mut batch = sled::Batch::default();
                run.keys().for_each(|key| batch.remove(key));
                log.apply_batch(batch)
            };
            removed.map_err(|e| StoreError::sled("purging the log", &e))?;
            self.unflushed = true;
        }
        Ok(())
    }

    fn save_slice(&mut self) -> Result<bool, StoreError> {
        let saved = self.saver.round(self.database.trees());
        let slice = saved.map_err(|e| StoreError::sled("saving a snapshot", &e))?;
        self.unflushed |= slice != Slice::Nothing;
        self.group.done.extend(self.saver.needless());
        Ok(slice == Slice::Content)
    }

    fn note_committed(&mut self) -> Result<(), StoreError> {
        let committed = self.shared.window().committed;
        // A hint beyond what is written would outlive a crash that the entries do not.
        if committed == self.committed || committed > self.log.last {
            return Ok(());
        }
        self.committed = committed;
        self.unflushed = true;
        match committed {
            Some(committed) => self.put(trees::COMMITTED, &committed),
            None => Ok(()),
        }
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let started = now();
        let flushed = self.database.flush();
        flushed.map_err(|e| StoreError::sled("flushing the database", &e))?;
        let flush = since(started);
        self.unflushed = false;
        if let Some(saved) = self.saver.flushed() {
            self.shared.window().snapshot = Some(saved.manifest);
            self.group.done.push(saved.done);
        }
        let Group { entries, bytes, .. } = self.group;
        let writes = self.group.done.len();
        self.options.observer.committed(&GroupCommit {
            flush,
            writes,
            entries,
            bytes,
        });
        let boots = self.watermark.mark().boots;
        let mark = Mark {
            boots,
            vote: self.vote,
            tip: self.tip(),
            purged: self.log.purged,
        };
        self.state(
            mark,
            self.group.sync_watermark || self.options.sync_watermark_always,
        )
    }

    fn tip(&self) -> Option<LogId> {
        scan::tip(
            &self.log,
            self.saver.current().and_then(|manifest| manifest.last),
        )
    }

    /// States something in the watermark that is on the disk already.
    fn state(&mut self, mark: Mark, sync: bool) -> Result<(), StoreError> {
        let stated = self.watermark.state(mark);
        stated.map_err(|e| StoreError::io("writing the watermark", &e))?;
        if sync && self.watermark.unsynced() {
            let started = now();
            let synced = self.watermark.sync();
            synced.map_err(|e| StoreError::io("syncing the watermark", &e))?;
            let took = since(started);
            self.options.observer.watermark_synced(took);
        }
        Ok(())
    }

    fn tick(&mut self) -> Result<(), StoreError> {
        self.ticked = Some(now());
        let mark = *self.watermark.mark();
        self.state(mark, true)?;
        let database = files::database_file(&self.dir.join(files::DATABASE));
        let used = std::fs::metadata(database).map(|file| file.len());
        let space = used.and_then(|used_bytes| {
            let free_bytes = files::free_bytes(&self.dir)?;
            let low = free_bytes < self.options.space_floor_bytes;
            Ok(Space {
                used_bytes,
                free_bytes,
                low,
            })
        });
        let space = space.map_err(|e| StoreError::io("looking at the free space", &e))?;
        self.shared.space_low.store(space.low, Ordering::Relaxed);
        self.options.observer.space(&space);
        Ok(())
    }

    fn close(mut self) {
        let closing = quiet::catch(|| {
            self.note_committed()?;
            self.flush()?;
            let mark = *self.watermark.mark();
            self.state(mark, true)
        });
        let closing =
            closing.unwrap_or_else(|message| Err(StoreError::panicked("closing", &message)));
        if let Err(error) = closing {
            tracing::warn!(%error, "the store did not close cleanly; nothing acknowledged is lost");
        }
        for done in self.saver.abandon() {
            done(Err(StoreError::closed()));
        }
    }

    fn give_up(mut self, error: &StoreError, mut jobs: VecDeque<Job>) {
        self.shared.fail(error.clone());
        self.shared.queue.take(&mut jobs, Duration::ZERO);
        let done = self.group.done.drain(..).chain(self.saver.abandon());
        for done in done.chain(jobs.into_iter().map(Job::into_completion)) {
            done(Err(error.clone()));
        }
    }
}
