//! What rests in the log: entries, the vote, and where things stand.

use bytes::Bytes;

pub use crate::issuer::LogId;

/// One entry of the Raft log as the store sees it: a place and bytes that it never looks into.
///
/// The leader encodes a payload once; the same bytes travel to the followers and rest on every
/// disk unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Position in the log. The first entry of a cluster has index 0.
    pub index: u64,
    /// Raft term in which a leader appended the entry. Never falls along the log.
    pub term: u64,
    /// Opaque content, at most [`ENTRY_BYTES_MAX`](super::ENTRY_BYTES_MAX).
    pub payload: Bytes,
}

impl Entry {
    /// Term and index of this entry.
    #[must_use]
    pub fn log_id(&self) -> LogId {
        LogId {
            term: self.term,
            index: self.index,
        }
    }
}

/// The vote of a node: whom it follows or votes for, and in which term (Raft paper, figure 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredVote {
    /// Term of the vote.
    pub term: u64,
    /// The node voted for; `None` for a term that was only heard of.
    pub node_id: Option<u64>,
    /// Whether a quorum is known to have granted it, so that `node_id` leads `term`.
    pub committed: bool,
}

impl StoredVote {
    /// Whether a node that has promised `earlier` may hold `self` later on. A vote never goes
    /// back in term, and within a term it changes sides only for a leader that a quorum elected.
    #[must_use]
    pub fn may_follow(&self, earlier: &StoredVote) -> bool {
        if self.term != earlier.term {
            return self.term > earlier.term;
        }
        match (earlier.committed, self.committed) {
            (false, true) => true,
            (true, false) => false,
            (true, true) => self.node_id == earlier.node_id,
            (false, false) => earlier.node_id.is_none() || self.node_id == earlier.node_id,
        }
    }
}

/// Where the log begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogState {
    /// The newest entry that was removed from the head, if any ever was.
    pub purged: Option<LogId>,
    /// The newest entry, or `purged` when none is left, or `None` in a log that never had one.
    pub last: Option<LogId>,
}

impl LogState {
    /// Index of the oldest entry that the log may still hold.
    #[must_use]
    pub fn first_index(&self) -> u64 {
        self.purged
            .map_or(0, |purged| purged.index.saturating_add(1))
    }

    /// Index that the next appended entry must have.
    #[must_use]
    pub fn next_index(&self) -> u64 {
        self.last.map_or(0, |last| last.index.saturating_add(1))
    }
}
