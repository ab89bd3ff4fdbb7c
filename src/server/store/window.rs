//! The newest entries in memory, and where things stand as callers see them.
//!
//! What was handed over counts at once: an entry can be read before it is durable, which is what
//! lets a leader send it while its own disk still works. Entries leave the window once they are in
//! the database and the window is over its budget, so replication does not read the database
//! unless a follower is far behind.

use std::collections::VecDeque;
use std::ops::Range;

use super::ENTRY_BYTES_MAX;
use super::contract::SnapshotManifest;
use super::entry::{Entry, LogId, LogState, StoredVote};
use super::run::check_next;

/// What an entry costs in memory beside its payload, about.
const ENTRY_OVERHEAD: usize = 64;

#[derive(Debug, Clone, Default)]
pub(super) struct Window {
    pub(super) log: LogState,
    pub(super) vote: Option<StoredVote>,
    pub(super) committed: Option<LogId>,
    pub(super) snapshot: Option<SnapshotManifest>,
    entries: VecDeque<Entry>,
    bytes: usize,
    bytes_max: usize,
    /// All entries before this index are in the database.
    written_next: u64,
    /// Counts what removed entries from the tail; a note of what was written before is void.
    truncations: u64,
}

/// Where a read can be answered from.
pub(super) enum Source {
    /// From memory, all of it.
    Memory(Vec<Entry>),
    /// This part from the database first; valid if `truncations` is still the same afterwards.
    Database { range: Range<u64>, truncations: u64 },
}

impl Window {
    pub(super) fn new(bytes_max: usize) -> Self {
        Self {
            bytes_max,
            ..Self::default()
        }
    }

    /// Checks the contract of an append: no hole, no falling term, no oversized payload.
    pub(super) fn check_append(&self, entries: &[Entry]) -> Result<(), String> {
        let mut last = self.log.last;
        if let (None, Some(first)) = (last, entries.first())
            && first.index != 0
        {
            return Err(format!(
                "an empty log begins at entry 0, not at {}",
                first.index
            ));
        }
        for entry in entries {
            check_next(last, entry)?;
            if entry.payload.len() > ENTRY_BYTES_MAX {
                let (index, bytes) = (entry.index, entry.payload.len());
                return Err(format!(
                    "entry {index} has {bytes} bytes of {ENTRY_BYTES_MAX} allowed"
                ));
            }
            last = Some(entry.log_id());
        }
        Ok(())
    }

    /// Checks that a vote keeps what the one before it promised.
    pub(super) fn check_vote(&self, vote: &StoredVote) -> Result<(), String> {
        match self.vote {
            Some(before) if *vote != before && !vote.may_follow(&before) => Err(format!(
                "a vote may not go back: {vote:?} after {before:?} would break a promise"
            )),
            _ => Ok(()),
        }
    }

    /// Takes checked entries; returns the count of truncations to be given back with
    /// [`Self::note_written`].
    pub(super) fn append(&mut self, entries: &[Entry]) -> u64 {
        for entry in entries {
            self.push(entry.clone());
        }
        self.truncations
    }

    fn push(&mut self, entry: Entry) {
        self.log.last = Some(entry.log_id());
        self.bytes += entry.payload.len() + ENTRY_OVERHEAD;
        self.entries.push_back(entry);
    }

    /// Takes an entry found in the database at the start.
    pub(super) fn recover(&mut self, entry: Entry) {
        self.written_next = entry.index + 1;
        self.push(entry);
        self.evict();
    }

    /// Notes that all entries before `next` are in the database.
    pub(super) fn note_written(&mut self, truncations: u64, next: u64) {
        if truncations == self.truncations {
            self.written_next = next;
            self.evict();
        }
    }

    fn evict(&mut self) {
        while self.bytes > self.bytes_max {
            match self.entries.front() {
                Some(oldest) if oldest.index < self.written_next => self.pop_front(),
                _ => return,
            }
        }
    }

    fn pop_front(&mut self) {
        if let Some(oldest) = self.entries.pop_front() {
            self.bytes -= oldest.payload.len() + ENTRY_OVERHEAD;
        }
    }

    /// Forgets every entry after `last`, whose term the caller knows.
    pub(super) fn truncate_after(&mut self, last: Option<LogId>) -> Result<(), String> {
        let next = last.map_or(0, |last| last.index.saturating_add(1));
        if next >= self.log.next_index() {
            return Ok(());
        }
        if next < self.log.first_index() {
            let first = self.log.first_index();
            return Err(format!(
                "cannot truncate from entry {next}: the log begins at {first}"
            ));
        }
        while self
            .entries
            .back()
            .is_some_and(|newest| newest.index >= next)
        {
            if let Some(newest) = self.entries.pop_back() {
                self.bytes -= newest.payload.len() + ENTRY_OVERHEAD;
            }
        }
        self.log.last = last;
        self.written_next = self.written_next.min(next);
        self.truncations += 1;
        Ok(())
    }

    /// Forgets every entry up to `upto`. Returns whether that changed anything.
    pub(super) fn purge(&mut self, upto: LogId) -> bool {
        if self
            .log
            .purged
            .is_some_and(|purged| purged.index >= upto.index)
        {
            return false;
        }
        self.log.purged = Some(upto);
        while self
            .entries
            .front()
            .is_some_and(|oldest| oldest.index <= upto.index)
        {
            self.pop_front();
        }
        if self.log.last.is_none_or(|last| last.index <= upto.index) {
            self.log.last = Some(upto);
            self.written_next = upto.index.saturating_add(1);
            self.truncations += 1;
        }
        true
    }

    /// Says where the entries of `range` are. Limits it to the entries that exist.
    pub(super) fn locate(&self, range: &Range<u64>, bytes_max: usize) -> Source {
        let start = range.start.max(self.log.first_index());
        let end = range.end.min(self.log.next_index());
        let oldest = self
            .entries
            .front()
            .map_or(self.log.next_index(), |entry| entry.index);
        if start < oldest && start < end {
            let range = start..end.min(oldest);
            return Source::Database {
                range,
                truncations: self.truncations,
            };
        }
        let mut found = Vec::new();
        let mut bytes = 0;
        if start < end {
            let skip = usize::try_from(start - oldest).unwrap_or(usize::MAX);
            let count = usize::try_from(end - start).unwrap_or(usize::MAX);
            for entry in self.entries.iter().skip(skip).take(count) {
                bytes += entry.payload.len();
                if bytes > bytes_max && !found.is_empty() {
                    break;
                }
                found.push(entry.clone());
            }
        }
        Source::Memory(found)
    }

    /// Whether entries read from the database since [`Self::locate`] are still the log's.
    pub(super) fn still_valid(&self, range: &Range<u64>, truncations: u64) -> bool {
        self.truncations == truncations && self.log.first_index() <= range.start
    }
}
