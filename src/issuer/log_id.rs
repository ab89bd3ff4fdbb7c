//! Where an entry stands in the log, and what stops a node.

use std::fmt;

/// The place of a committed entry: Raft's term and log index.
///
/// Ordered by term, then by index, as Raft orders them. `0.0` is the place before the first entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LogId {
    /// The term of the leader that appended the entry.
    pub term: u64,
    /// The index of the entry, from 1.
    pub index: u64,
}

impl LogId {
    /// Puts a place together.
    #[must_use]
    pub const fn new(term: u64, index: u64) -> Self {
        Self { term, index }
    }
}

impl fmt::Display for LogId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.term, self.index)
    }
}

/// An invariant does not hold. The state may be half changed, no answer may be given, and the node has
/// to stop itself: going on could issue a token twice.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    /// The entry is not the one after the last: an index is missing or repeated, or a term is lower.
    #[error("the log went from {last} to {next}, which is not the next entry")]
    NotNext {
        /// The last entry that was applied.
        last: LogId,
        /// The entry that came next.
        next: LogId,
    },
    /// The token of a grant would not be greater than the last one.
    #[error("the token {value} of entry {at} is not greater than the last token {last}")]
    TokenNotRising {
        /// The entry that would have made the grant.
        at: LogId,
        /// The value that it would have had.
        value: u64,
        /// The last token that was issued.
        last: u64,
    },
    /// Term and index lie beyond what a token can hold.
    #[error("entry {at} with floor {floor} lies beyond what a token can hold")]
    TokenSpaceExhausted {
        /// The entry that would have made the grant.
        at: LogId,
        /// The floor of the state.
        floor: u64,
    },
    /// Two parts of the state contradict each other.
    #[error("the state contradicts itself at entry {at}: {what}")]
    Inconsistent {
        /// The entry that was being applied.
        at: LogId,
        /// What does not fit.
        what: &'static str,
    },
}
