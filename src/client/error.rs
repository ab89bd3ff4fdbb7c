//! Why a call failed, and the two questions that a caller has: may I try again, and can it have had an
//! effect?

use super::address::Address;
use super::seen::Mismatch;
use super::watch::Cursor;
use crate::wire::failure::{Effect, Failure, Reason};
use std::fmt;
use std::time::Duration;

/// A call that could not be carried out. An outcome that the rules decide is never one of these.
#[derive(Debug)]
pub struct Error(Box<Inner>);

#[derive(Debug)]
struct Inner {
    operation: &'static str,
    kind: ErrorKind,
    effect: bool,
    attempts: u32,
    elapsed: Duration,
    cause: Option<Cause>,
    leader: Option<Address>,
}

/// What kind of failure it was.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A field of the request is not valid. Asking again gets the same answer.
    Invalid {
        /// The field at fault.
        field: String,
        /// Its limit.
        limit: String,
    },
    /// The request id is known with other parameters.
    RequestIdReused,
    /// The membership has no such node.
    NoSuchNode,
    /// The cluster's state forbids it, and its message says what to do.
    Refused,
    /// The cluster is at a limit, or its disk is nearly full; waiting did not help, or cannot.
    Exhausted,
    /// Time ran out, and certainly nothing happened.
    Unavailable,
    /// Nobody knows whether it took effect. Only the same request may be sent again.
    UnknownOutcome,
    /// Two endpoints belong to different clusters.
    ClusterMismatch(Box<Mismatch>),
    /// A node's answer breaks the wire contract; its version may not fit this one's.
    BadAnswer,
    /// The history of events does not reach back to the cursor of a watch, so it would have a gap. Look
    /// with [`Client::list`](super::Client::list), and watch anew.
    HistoryLost {
        /// The oldest cursor that would have done, if the node said so.
        oldest: Option<Box<Cursor>>,
    },
    /// The request id may have been forgotten. Kept inside: the client asks again under a new one.
    TooOld,
}

/// How one send of a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// No connection could be made: nothing was sent.
    Unreachable {
        /// The node.
        address: Address,
        /// What the operating system said.
        detail: String,
    },
    /// It was sent, and no answer came in time.
    NoAnswer {
        /// The node.
        address: Address,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The node said why it could not.
    Told {
        /// The node.
        address: Address,
        /// The reason's name in the wire contract, `NO_LEADER` for instance.
        reason: &'static str,
        /// The node's sentence.
        message: String,
    },
    /// The connection broke, or something in between answered.
    Broken {
        /// The node.
        address: Address,
        /// What came instead of an answer.
        detail: String,
    },
    /// Somebody listens there, and does not speak the client's protocol.
    WrongPort {
        /// Where.
        address: Address,
    },
    /// The answer breaks the wire contract.
    Unreadable {
        /// Which part of it, and how.
        detail: String,
    },
    /// The node answered, but it is part of no cluster yet.
    Forming {
        /// The node.
        address: Address,
    },
}

impl Error {
    pub(crate) fn new(operation: &'static str, kind: ErrorKind) -> Self {
        Self(Box::new(Inner {
            operation,
            kind,
            effect: false,
            attempts: 0,
            elapsed: Duration::ZERO,
            cause: None,
            leader: None,
        }))
    }

    pub(crate) fn with_effect(mut self, effect: bool) -> Self {
        self.0.effect = effect;
        self
    }

    pub(crate) fn after(mut self, attempts: u32, elapsed: Duration) -> Self {
        self.0.attempts = attempts;
        self.0.elapsed = elapsed;
        self
    }

    pub(crate) fn because(mut self, cause: Option<Cause>, leader: Option<Address>) -> Self {
        self.0.cause = cause;
        self.0.leader = leader;
        self
    }

    /// The error of a call that needed another one, which failed.
    pub(crate) fn on_behalf_of(mut self, operation: &'static str, effect: bool) -> Self {
        self.0.operation = operation;
        self.0.effect |= effect;
        if self.0.effect && self.0.kind == ErrorKind::Unavailable {
            self.0.kind = ErrorKind::UnknownOutcome;
        }
        self
    }

    /// The name of the call, `acquire` for instance.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// What kind of failure it was.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// May I try again? True where the same call can succeed later without anybody changing anything.
    /// If [`can_have_had_effect`](Self::can_have_had_effect) is true as well, an acquire must be tried
    /// again with the same [`Ask`](super::Ask); other calls are safe to repeat.
    #[must_use]
    pub fn may_retry(&self) -> bool {
        match self.0.kind {
            ErrorKind::Unavailable | ErrorKind::UnknownOutcome | ErrorKind::Exhausted => true,
            // A new request id is a new question.
            ErrorKind::TooOld => true,
            ErrorKind::Invalid { .. }
            | ErrorKind::RequestIdReused
            | ErrorKind::NoSuchNode
            | ErrorKind::Refused
            | ErrorKind::HistoryLost { .. }
            | ErrorKind::ClusterMismatch(_)
            | ErrorKind::BadAnswer => false,
        }
    }

    /// Can it have had an effect, or still have one later? False only if that is certain.
    #[must_use]
    pub fn can_have_had_effect(&self) -> bool {
        self.0.effect
    }

    /// How often it was sent.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.0.attempts
    }

    /// How the last send failed.
    #[must_use]
    pub fn last_cause(&self) -> Option<&Cause> {
        self.0.cause.as_ref()
    }

    /// Who was said to lead when the call ended, as far as anybody said.
    #[must_use]
    pub fn leader_hint(&self) -> Option<&Address> {
        self.0.leader.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = &*self.0;
        write!(f, "{}: ", inner.operation.replace('_', "-"))?;
        if let (ErrorKind::BadAnswer, Some(cause @ Cause::WrongPort { .. })) =
            (&inner.kind, &inner.cause)
        {
            return cause.fmt(f);
        }
        match &inner.kind {
            ErrorKind::Invalid { field, limit } => {
                return write!(f, "{field} is not valid: {limit}");
            }
            ErrorKind::RequestIdReused => {
                return f.write_str("the request id was used before, with other parameters");
            }
            ErrorKind::ClusterMismatch(mismatch) => return mismatch.fmt(f),
            ErrorKind::NoSuchNode => f.write_str("no such node")?,
            ErrorKind::Refused => f.write_str("refused")?,
            ErrorKind::Exhausted => f.write_str("the cluster cannot take it now")?,
            ErrorKind::Unavailable => {
                f.write_str("no node could carry it out, and nothing happened")?
            }
            ErrorKind::UnknownOutcome => f.write_str("nobody knows whether it took effect")?,
            ErrorKind::HistoryLost { .. } => {
                f.write_str("the history of events does not reach back to the cursor")?;
            }
            ErrorKind::BadAnswer => f.write_str("an answer breaks the wire contract")?,
            ErrorKind::TooOld => f.write_str("the request id may have been forgotten")?,
        }
        if let Some(cause) = &inner.cause {
            write!(f, "; {cause}")?;
        }
        if inner.attempts > 1 {
            write!(
                f,
                " ({} tries in {:.1} s",
                inner.attempts,
                inner.elapsed.as_secs_f64()
            )?;
            match &inner.leader {
                Some(leader) => write!(f, ", leader said to be {leader})")?,
                None => f.write_str(", no leader known)")?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreachable { address, detail } => {
                write!(f, "{address} cannot be reached: {detail}")
            }
            Self::NoAnswer { address, waited } => {
                write!(
                    f,
                    "{address} did not answer within {} ms",
                    waited.as_millis()
                )
            }
            Self::Told {
                address, message, ..
            } => write!(f, "{address} says: {message}"),
            Self::Broken { address, detail } => write!(f, "{address} broke off: {detail}"),
            Self::Unreadable { detail } => f.write_str(detail),
            Self::WrongPort { address } => write!(
                f,
                "{address} is not a client port of a fencepost node; the defaults are 7100 (clients), 7200 (peers) \
                 and 7300 (HTTP)"
            ),
            Self::Forming { address } => write!(
                f,
                "{address} is part of no cluster yet: it waits for the other nodes of its founding list, or to be \
                 added; its log names them"
            ),
        }
    }
}

/// What a failure that a node told means for the call.
pub(crate) enum Verdict {
    /// It ends the call.
    Final(ErrorKind),
    /// Another node, or the same later, may do it.
    Elsewhere,
    /// The cluster has too much to do; after the time it named.
    Later(Option<Duration>),
}

/// Reads a failure that fencepost itself wrote.
pub(crate) fn verdict(failure: &Failure) -> Verdict {
    match failure.reason {
        Reason::InvalidField => Verdict::Final(ErrorKind::Invalid {
            field: failure
                .field
                .clone()
                .unwrap_or_else(|| "a field".to_owned()),
            limit: failure
                .limit
                .clone()
                .unwrap_or_else(|| failure.message.clone()),
        }),
        Reason::RequestIdReused => Verdict::Final(ErrorKind::RequestIdReused),
        Reason::NoSuchNode => Verdict::Final(ErrorKind::NoSuchNode),
        Reason::Refused => Verdict::Final(ErrorKind::Refused),
        Reason::TooOld => Verdict::Final(ErrorKind::TooOld),
        Reason::HistoryLost => Verdict::Final(ErrorKind::HistoryLost {
            oldest: oldest(failure).map(Box::new),
        }),
        Reason::Limit | Reason::DiskFull if failure.retry_after.is_none() => {
            Verdict::Final(ErrorKind::Exhausted)
        }
        Reason::Overloaded | Reason::Limit | Reason::DiskFull => {
            Verdict::Later(failure.retry_after)
        }
        Reason::NoLeader | Reason::NotLeader | Reason::Stopping | Reason::UnknownOutcome => {
            Verdict::Elsewhere
        }
    }
}

/// The oldest cursor that a watch can go on from.
fn oldest(failure: &Failure) -> Option<Cursor> {
    let oldest = failure.oldest.as_ref()?;
    Some(Cursor {
        cluster: oldest.cluster_id.parse().ok()?,
        index: oldest.index,
    })
}

/// Whether a failure that fencepost itself wrote leaves the outcome open.
pub(crate) fn leaves_open(failure: &Failure) -> bool {
    failure.effect == Effect::Unknown
}
