//! Linearizable reads, many to a round.
//!
//! A read is current if this node was confirmed as leader by a quorum after the read was asked for
//! (ReadIndex; Raft dissertation, section 6.4). One round of heartbeats confirms it for every read that
//! was waiting when the round began. Leases are never trusted: a restarted follower forgets the one it
//! promised.

use std::time::Duration;

use openraft::{
    LinearizerOption,
    errors::{LinearizableReadError, RaftError},
};
use tokio::sync::{mpsc, oneshot};

use super::{ReadError, node::Raft};

/// How long one round waits for a quorum.
const ROUND_MAX: Duration = Duration::from_secs(1);

/// Reads that wait to be let through, at most; further ones wait to be taken.
const WAITING_MAX: usize = 4_096;

/// What a round says, before the leader's addresses are looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    Current,
    NotLeader(Option<u64>),
    NoQuorum,
    Stopped,
}

/// Where reads wait.
#[derive(Clone)]
pub(super) struct Barrier {
    waiting: mpsc::Sender<oneshot::Sender<Verdict>>,
}

impl Barrier {
    /// Makes it, and what the task that runs the rounds reads.
    pub(super) fn new() -> (Self, mpsc::Receiver<oneshot::Sender<Verdict>>) {
        let (waiting, queue) = mpsc::channel(WAITING_MAX);
        (Self { waiting }, queue)
    }

    /// Waits until the state here is at least as new as everything acknowledged before this call.
    pub(super) async fn pass(&self) -> Verdict {
        let (asked, answer) = oneshot::channel();
        if self.waiting.send(asked).await.is_err() {
            return Verdict::Stopped;
        }
        answer.await.unwrap_or(Verdict::Stopped)
    }
}

/// Runs rounds until the node stops.
pub(super) async fn run(raft: Raft, mut queue: mpsc::Receiver<oneshot::Sender<Verdict>>) {
    let mut waiting = Vec::new();
    while queue.recv_many(&mut waiting, WAITING_MAX).await > 0 {
        let verdict = round(&raft).await;
        for asked in waiting.drain(..) {
            // Whoever went away does not want it.
            drop(asked.send(verdict.clone()));
        }
    }
}

async fn round(raft: &Raft) -> Verdict {
    let read_index = LinearizerOption::new(Some(Duration::ZERO), true).with_wait_timeout(ROUND_MAX);
    match raft.ensure_linearizable(read_index).await {
        Ok(_) => Verdict::Current,
        Err(RaftError::APIError(LinearizableReadError::ForwardToLeader(forward))) => {
            Verdict::NotLeader(forward.leader_id)
        }
        Err(RaftError::APIError(LinearizableReadError::QuorumNotEnough(_))) => Verdict::NoQuorum,
        Err(RaftError::Fatal(_)) => Verdict::Stopped,
    }
}

impl Verdict {
    pub(super) fn into_result(
        self,
        hint: impl FnOnce(Option<u64>) -> Option<super::LeaderHint>,
    ) -> Result<(), ReadError> {
        match self {
            Self::Current => Ok(()),
            Self::NotLeader(leader) => Err(ReadError::NotLeader { hint: hint(leader) }),
            Self::NoQuorum => Err(ReadError::NoQuorum),
            Self::Stopped => Err(ReadError::Stopped),
        }
    }
}
