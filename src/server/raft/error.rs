//! What can go wrong, by operation. Each error says whether there may have been an effect.

use std::{fmt, time::Duration};

use bytes::Bytes;
use thiserror::Error;

use super::LeaderHint;

/// A proposal that did not come back applied.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ProposeError {
    /// This node does not lead. Nothing was done: try there.
    #[error("this node does not lead")]
    NotLeader {
        /// Who does, as far as this node knows.
        hint: Option<LeaderHint>,
    },
    /// It may have taken effect, or may still: only the same request id may be sent again.
    #[error("the outcome is unknown: {why}")]
    Unknown {
        /// What happened to it.
        why: &'static str,
    },
    /// Too many proposals are under way. Nothing was done: try again later.
    #[error("too many proposals are under way")]
    Overloaded {
        /// How long to wait before the next try.
        retry_after: Duration,
    },
    /// The encoded command is too long to be proposed. Nothing was done.
    #[error("the command takes {bytes} bytes, and at most {max} fit into an entry")]
    TooLarge {
        /// Its length.
        bytes: usize,
        /// The most.
        max: usize,
    },
    /// The deadline passed before it could be handed to Raft. Nothing was done.
    #[error("the deadline passed before it could be proposed")]
    TooLate,
    /// This node is stopping. Nothing was done.
    #[error("this node is stopping")]
    Stopped,
}

/// A read that could not be made sure to be current. Reads have no effect.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReadError {
    /// This node does not lead: ask there.
    #[error("this node does not lead")]
    NotLeader {
        /// Who does, as far as this node knows.
        hint: Option<LeaderHint>,
    },
    /// No quorum confirmed in time that this node still leads.
    #[error("no quorum confirmed in time that this node leads")]
    NoQuorum,
    /// This node is stopping.
    #[error("this node is stopping")]
    Stopped,
}

/// A call that could not be passed to the leader.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ForwardError {
    /// Nobody leads, as far as this node knows, or the one who did says that it does not any more.
    /// Nothing was done.
    #[error("no leader is known")]
    NotLeader {
        /// Who may lead by now.
        hint: Option<LeaderHint>,
    },
    /// This node leads itself: it should answer, not forward.
    #[error("this node leads")]
    IsLeader,
    /// The leader could not be reached. Nothing was done.
    #[error("the leader cannot be reached: {0}")]
    Unreachable(String),
    /// It was sent, and no answer came. It may have taken effect.
    #[error("no answer came from the leader: {0}")]
    Unknown(String),
    /// The leader answered with this status.
    #[error("the leader answered: {0}")]
    Status(ForwardStatus),
}

/// A gRPC status on its way through a node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ForwardStatus {
    /// The gRPC code.
    pub code: i32,
    /// For people.
    pub message: String,
    /// For programs: an encoded `google.rpc.Status`.
    pub details: Bytes,
}

impl fmt::Display for ForwardStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", self.message, self.code)
    }
}

/// A change of the cluster that was not made, or not seen to be made.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ChangeError {
    /// This node does not lead. Nothing was done: try there.
    #[error("this node does not lead")]
    NotLeader {
        /// Who does, as far as this node knows.
        hint: Option<LeaderHint>,
    },
    /// There is no such member. Nothing was done.
    #[error("the cluster has no node {0}")]
    NoSuchNode(u64),
    /// The state of the cluster forbids it; the text says why and what to do. Nothing was done.
    #[error("{0}")]
    Refused(String),
    /// It may have been made, or may still be: look at the status.
    #[error("the outcome is unknown: {why}")]
    Unknown {
        /// What happened to it.
        why: &'static str,
    },
    /// This node is stopping.
    #[error("this node is stopping")]
    Stopped,
}

/// Why a node has to end. The process exits with the code of its kind.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct FatalError {
    /// What kind of end.
    pub kind: FatalKind,
    /// What happened, and what to do.
    pub message: String,
}

/// Kinds of ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FatalKind {
    /// This node is not who it should be: another cluster, another list, a wiped or copied directory,
    /// an id that was used before.
    Identity,
    /// The data directory lost something, or the disk failed.
    StorageDamaged,
    /// No space. A restart with space recovers everything acknowledged.
    DiskFull,
    /// Raft or the state machine stopped itself.
    Raft,
}
