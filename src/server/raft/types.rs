//! The types that openraft is put together with, and the words they become outside.

use std::fmt;

use bytes::Bytes;
use openraft::{
    LogId as RaftLogId, impls::leader_id_std::LeaderId, raft::responder::Responder,
    vote::RaftLeaderId,
};
use tokio::sync::oneshot;

use super::{NodeRecord, admission::Permit};
use crate::issuer::{LogId, Outcome};

/// What openraft is instantiated with. One leader a term, as the Raft paper has it: a token's term then
/// names its leader.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Types;

impl openraft::RaftTypeConfig for Types {
    type D = Proposal;
    type R = Reply;
    type NodeId = u64;
    type Node = NodeRecord;
    type Term = u64;
    type LeaderId = LeaderId<u64, u64>;
    type Vote = openraft::impls::Vote<Self::LeaderId>;
    type Payload = openraft::EntryPayload<Proposal, u64, NodeRecord>;
    type Entry = openraft::impls::Entry<<Self::LeaderId as RaftLeaderId>::Committed, Self::Payload>;
    type AsyncRuntime = openraft_rt_tokio::TokioRuntime;
    type Responder<T>
        = Answer<T>
    where
        T: Send + 'static;
    type Batch<T>
        = openraft::impls::InlineBatch<T>
    where
        T: Send + 'static;
    type ErrorSource = openraft::impls::BoxedErrorSource;
}

pub(super) type Vote = openraft::alias::VoteOf<Types>;
pub(super) type Entry = openraft::alias::EntryOf<Types>;
pub(super) type EntryPayload = openraft::alias::PayloadOf<Types>;
pub(super) type RaftId = openraft::alias::LogIdOf<Types>;
pub(super) type StoredMembership = openraft::alias::StoredMembershipOf<Types>;
pub(super) type SnapshotMeta = openraft::alias::SnapshotMetaOf<Types>;
pub(super) type Membership = openraft::Membership<u64, NodeRecord>;

/// A command on its way into the log: the payload as the leader encoded it, once. These bytes travel
/// to the followers and rest on every disk; whoever applies the entry decodes them.
#[derive(Clone, PartialEq, Eq)]
pub struct Proposal(pub(super) Bytes);

impl fmt::Debug for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Proposal({} bytes)", self.0.len())
    }
}

impl fmt::Display for Proposal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What an applied entry answers to whoever proposed it: nothing for Raft's own entries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply(pub(super) Option<Outcome>);

/// Hands an answer to the task that waits for it. One that went away does not want it.
///
/// It holds the proposal's permit: what is still in the log's queue counts as under way, whether or not
/// anybody waits for it any more.
pub struct Answer<T> {
    asked: oneshot::Sender<T>,
    _permit: Permit,
}

impl<T: Send + 'static> Answer<T> {
    pub(super) fn pair(permit: Permit) -> (Self, oneshot::Receiver<T>) {
        let (asked, answer) = oneshot::channel();
        (
            Self {
                asked,
                _permit: permit,
            },
            answer,
        )
    }
}

impl<T: Send + 'static> Responder<Types, T> for Answer<T> {
    fn on_complete(self, result: T) {
        drop(self.asked.send(result));
    }
}

/// Our log id from openraft's.
pub(super) fn ours(id: RaftId) -> LogId {
    LogId::new(id.leader_id.term, id.index)
}

/// openraft's log id from ours.
pub(super) fn theirs(id: LogId) -> RaftId {
    RaftLogId::new(id.term.into(), id.index)
}
