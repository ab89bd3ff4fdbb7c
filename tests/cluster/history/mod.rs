//! What happened in a run, as the callers saw it and as the nodes wrote it down.
//!
//! There are two independent records. [`Operation`]s are written by the harness: one for each call,
//! with its send and its return on one monotonic clock. The [`audit`] logs are written by the nodes:
//! one line for each applied entry. The checks hold the one against the other.
//!
//! A call whose answer did not come, or came as an error that leaves its effect open, is *unknown*,
//! never *absent*: it may have taken effect, and only the audit logs can tell.

pub(crate) mod applied;
pub(crate) mod audit;
pub(crate) mod recorder;
pub(crate) mod watched;

use std::time::Duration;

/// A point of the run: the time since the recorder was made, on its monotonic clock.
pub(crate) type Moment = Duration;

/// What was asked. Tokens are plain numbers here: the checks share no type with what they check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Call {
    /// All sends of one request id are one operation, from the first send to the last reply.
    Acquire {
        holder: String,
        request_id: String,
        ttl: Duration,
        /// How long it would stand in line; zero if not at all.
        wait: Duration,
    },
    /// Every send of a renewal is an operation of its own, because each is applied on its own.
    Renew {
        token: u64,
        ttl: Duration,
    },
    Release {
        token: u64,
    },
    Revoke {
        token: u64,
    },
    /// Leaves the queue; about the place of that request id.
    Withdraw {
        request_id: String,
    },
    Inspect,
    /// A token is presented to the cluster's own guard register.
    Admit {
        token: u64,
    },
    /// No call, but a claim of the client library: until then the holder may rely on its lease.
    Rely {
        token: u64,
        until: Moment,
    },
}

/// How a call ended for its caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Granted(Granted),
    Renewed,
    Released,
    Revoked,
    /// The register let the token pass.
    Admitted,
    /// The register did not, and what it required. As definite as a refusal.
    Stale(u64),
    /// The register said that the token was never issued. As definite as a refusal.
    NeverIssued,
    /// Who was said to have the resource: the token of the grant, or `None` if nobody.
    Inspected(Option<u64>),
    /// The resource was with somebody else, by the token of the grant. As definite as a refusal.
    Held(u64),
    /// Its place in the queue ended without a grant, and how. As definite as a refusal.
    Left(String),
    /// The rules said no. Definite: it had no effect and will have none.
    Refused(String),
    /// An error that promises that there was no effect and will be none.
    Failed(String),
    /// Any other error, or no answer in time: it may have taken effect, or may do so later.
    Unknown(String),
}

/// What a grant's answer said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Granted {
    pub(crate) token: u64,
    /// The applied log entry that made the grant.
    pub(crate) index: u64,
    /// Replayed from the memory of request ids, or granted after waiting: the caller knows no start
    /// of the lease, and claims a deadline only once a renewal has returned.
    pub(crate) start_unknown: bool,
    /// It came from the queue: it starts with a lease of at most two seconds.
    pub(crate) after_wait: bool,
}

/// One call, with its times and how it ended.
#[derive(Clone, Debug)]
pub(crate) struct Operation {
    pub(crate) client: u32,
    pub(crate) resource: String,
    pub(crate) call: Call,
    pub(crate) sent: Moment,
    /// `None` while the call is under way, and for ever if the harness gave it up.
    pub(crate) returned: Option<Moment>,
    pub(crate) outcome: Outcome,
    /// What the answer said to have been applied: everything up to this index, before it returned.
    pub(crate) applied: Option<u64>,
}

impl Operation {
    /// The grant that this operation was answered with, if it was.
    pub(crate) fn granted(&self) -> Option<&Granted> {
        match &self.outcome {
            Outcome::Granted(granted) => Some(granted),
            _ => None,
        }
    }

    /// The request id of an acquire.
    pub(crate) fn request_id(&self) -> Option<&str> {
        match &self.call {
            Call::Acquire { request_id, .. } => Some(request_id),
            _ => None,
        }
    }

    /// Whether the caller was told that the call had no effect and will have none.
    pub(crate) fn definitely_without_effect(&self) -> bool {
        matches!(
            self.outcome,
            Outcome::Refused(_)
                | Outcome::Failed(_)
                | Outcome::Held(_)
                | Outcome::Left(_)
                | Outcome::Stale(_)
                | Outcome::NeverIssued
        )
    }
}
