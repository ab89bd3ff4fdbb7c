//! Raft's log on a [`Store`](crate::server::store::Store).
//!
//! The store has one queue and one thread, so writes cannot overtake each other: what openraft asks
//! for in an order becomes durable in that order. That is why a purge need not be waited for, and why
//! an append after a truncation can never be durable without it.

use std::{fmt::Debug, io, ops::RangeBounds};

use openraft::{
    OptionalSend, RaftLogReader,
    entry::RaftEntry,
    storage::{IOFlushed, LogState, RaftLogStorage},
};

use super::{
    encoding::{decode_payload, encode_payload},
    types::{Entry, RaftId, Types, Vote, ours, theirs},
};
use crate::server::store::{self, SharedStore, StoreError, StoredVote, completion};

/// The most payload bytes in one message to a follower: a quarter of what gRPC takes by default, so
/// that entries of any size stay below that limit with everything around them.
pub(super) const APPEND_BYTES_MAX: usize = 1 << 20;

/// Raft's log and vote, as openraft wants them. Clones see the same log.
#[derive(Clone)]
pub struct LogStore {
    store: SharedStore,
}

impl LogStore {
    /// A log on this store.
    #[must_use]
    pub fn new(store: SharedStore) -> Self {
        Self { store }
    }

    fn read(&self, from: u64, to: u64, bytes_max: usize) -> io::Result<Vec<Entry>> {
        let entries = self.store.read(from..to, bytes_max).map_err(failed)?;
        entries.into_iter().map(from_store).collect()
    }
}

impl RaftLogReader<Types> for LogStore {
    async fn try_get_log_entries<R>(&mut self, range: R) -> io::Result<Vec<Entry>>
    where
        R: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let (from, to) = half_open(&range);
        self.read(from, to, usize::MAX)
    }

    async fn limited_get_log_entries(&mut self, from: u64, to: u64) -> io::Result<Vec<Entry>> {
        self.read(from, to, APPEND_BYTES_MAX)
    }

    async fn read_vote(&mut self) -> io::Result<Option<Vote>> {
        self.store.vote().map(vote_from_store).transpose()
    }
}

impl RaftLogStorage<Types> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types>> {
        let state = self.store.log_state();
        Ok(LogState {
            last_purged_log_id: state.purged.map(theirs),
            last_log_id: state.last.map(theirs),
        })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> io::Result<()> {
        let stored = StoredVote {
            term: vote.leader_id.term,
            node_id: Some(vote.leader_id.voted_for),
            committed: vote.committed,
        };
        let (done, completed) = completion();
        self.store.save_vote(stored, done);
        completed.done().await.map_err(failed)
    }

    async fn save_committed(&mut self, committed: Option<RaftId>) -> io::Result<()> {
        self.store.save_committed(committed.map(ours));
        Ok(())
    }

    async fn read_committed(&mut self) -> io::Result<Option<RaftId>> {
        Ok(self.store.committed().map(theirs))
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> io::Result<()>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries = entries.into_iter().map(into_store).collect();
        let done =
            move |result: Result<(), StoreError>| callback.io_completed(result.map_err(failed));
        self.store.append(entries, Box::new(done));
        Ok(())
    }

    async fn truncate_after(&mut self, last: Option<RaftId>) -> io::Result<()> {
        let (done, completed) = completion();
        self.store.truncate_after(last.map(ours), done);
        completed.done().await.map_err(failed)
    }

    async fn purge(&mut self, upto: RaftId) -> io::Result<()> {
        // A failure ends the store for good, and the next write that is waited for says so.
        self.store.purge(ours(upto), Box::new(|_| ()));
        Ok(())
    }
}

fn into_store(entry: Entry) -> store::Entry {
    let (leader, index) = entry.log_id_parts();
    store::Entry {
        index,
        term: leader.term,
        payload: encode_payload(&entry.payload),
    }
}

fn from_store(entry: store::Entry) -> io::Result<Entry> {
    let id = theirs(entry.log_id());
    Ok(Entry::new(id, decode_payload(entry.payload)?))
}

fn vote_from_store(vote: StoredVote) -> io::Result<Vote> {
    let Some(node_id) = vote.node_id else {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "a stored vote names no node",
        ));
    };
    if vote.committed {
        return Ok(Vote::new_committed(vote.term, node_id));
    }
    Ok(Vote::new(vote.term, node_id))
}

fn half_open(range: &impl RangeBounds<u64>) -> (u64, u64) {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let from = match range.start_bound() {
        Included(from) => *from,
        Excluded(from) => from.saturating_add(1),
        Unbounded => 0,
    };
    let to = match range.end_bound() {
        Included(to) => to.saturating_add(1),
        Excluded(to) => *to,
        Unbounded => u64::MAX,
    };
    (from, to)
}

/// openraft takes storage errors as [`io::Error`]; the node reads the kind from the store itself.
pub(super) fn failed(error: StoreError) -> io::Error {
    io::Error::other(error)
}
