//! From a command to its outcome, and from what can go wrong there to what the caller is told.

use std::{sync::Arc, time::Instant};

use super::method::Halt;
use crate::{
    issuer::{Command, Outcome},
    server::{
        clock,
        raft::{ChangeError, Committed, ProposeError, RaftNode, ReadError},
        telemetry::{Count, Metrics},
    },
    wire::failure::{Failure, Reason},
};

/// Hands commands to Raft, and counts.
#[derive(Clone)]
pub(super) struct Proposals {
    raft: RaftNode,
    metrics: Arc<Metrics>,
    commands: Arc<[(&'static str, Count)]>,
}

impl Proposals {
    pub(super) fn new(raft: RaftNode, metrics: Arc<Metrics>) -> Self {
        let names = [
            "acquire",
            "renew",
            "release",
            "expire",
            "revoke",
            "raise_floor",
            "withdraw",
            "admit",
        ];
        let commands = names.map(|name| (name, metrics.proposals(name)));
        Proposals {
            raft,
            metrics,
            commands: Arc::new(commands),
        }
    }

    /// Proposes a command and waits until it is applied here.
    pub(super) async fn propose(
        &self,
        command: &Command,
        deadline: Instant,
    ) -> Result<Committed, Halt> {
        let name = command.name();
        if let Some((_, counter)) = self.commands.iter().find(|(known, _)| *known == name) {
            counter.inc();
        }
        let began = clock::now();
        let result = self.raft.propose(command, deadline).await;
        if result.is_ok() {
            let took = clock::now().saturating_duration_since(began);
            self.metrics.commit_seconds.took(took);
        }
        result.map_err(|error| halt(error, deadline))
    }

    /// So many renewals share an entry.
    pub(super) fn observe_batch(&self, renewals: usize) {
        self.metrics.renewal_batch.had(renewals);
    }
}

fn halt(error: ProposeError, deadline: Instant) -> Halt {
    let failure = match error {
        ProposeError::NotLeader { hint } => return Halt::NotLeader(hint),
        ProposeError::Unknown { .. } if clock::now() >= deadline => Failure::deadline(
            "the time ran out before the outcome was known: it may have taken effect, or may still",
        ),
        ProposeError::Unknown { why } => Failure::new(
            Reason::UnknownOutcome,
            format!("the outcome is unknown ({why}): it may have taken effect, or may still"),
        ),
        ProposeError::Overloaded { retry_after } => Failure::new(
            Reason::Overloaded,
            "too many proposals are waiting for their commit: try again later",
        )
        .retry_after(retry_after),
        ProposeError::TooLarge { bytes, max } => Failure::invalid(
            "request",
            format!("at most {max} encoded bytes, not {bytes}"),
        ),
        ProposeError::TooLate => Failure::new(
            Reason::NoLeader,
            "the time ran out before the call could be proposed: nothing happened",
        ),
        ProposeError::Stopped => stopping(),
    };
    Halt::Failed(failure)
}

/// A read that could not be made sure to be current.
pub(super) fn unread(error: ReadError) -> Halt {
    match error {
        ReadError::NotLeader { hint } => Halt::NotLeader(hint),
        ReadError::NoQuorum => Halt::Failed(Failure::new(
            Reason::NoLeader,
            "no majority of the nodes confirmed in time that this node still leads: try again, or \
             another node",
        )),
        ReadError::Stopped => Halt::Failed(stopping()),
    }
}

/// A change of the cluster that was not made, or not seen to be made.
pub(super) fn unchanged(error: ChangeError) -> Halt {
    Halt::Failed(match error {
        ChangeError::NotLeader { hint } => return Halt::NotLeader(hint),
        ChangeError::NoSuchNode(id) => Failure::new(
            Reason::NoSuchNode,
            format!("the cluster has no node {id}: `fencepost cluster status` lists its members"),
        ),
        ChangeError::Refused(why) => Failure::new(Reason::Refused, why),
        ChangeError::Unknown { why } => Failure::new(
            Reason::UnknownOutcome,
            format!(
                "the outcome is unknown ({why}): the change may have been made, or may still be; \
                 `fencepost cluster status` shows it"
            ),
        ),
        ChangeError::Stopped => stopping(),
    })
}

/// The core answered to another command than it was asked: it cannot, so this is never guessed.
pub(super) fn mismatched(outcome: &Outcome) -> Halt {
    Halt::Failed(Failure::new(
        Reason::UnknownOutcome,
        format!(
            "the outcome `{}` does not belong to this call",
            outcome.name()
        ),
    ))
}

pub(super) fn stopping() -> Failure {
    Failure::new(
        Reason::Stopping,
        "this node is stopping: nothing happened, try another node",
    )
}
