//! How a call that could not be carried out is told: a gRPC status with a `google.rpc.ErrorInfo`.
//!
//! Both sides share this file, so that what a node writes is what a client reads. The meaning of each
//! reason, and of the metadata, is documented for clients in any language at the head of
//! `proto/fencepost/v1/issuer.proto`. An outcome that the rules decide is never one of these: it is a
//! field of the response.

use std::{collections::HashMap, fmt, time::Duration};

use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

/// The `domain` of every `ErrorInfo` that fencepost writes.
pub const DOMAIN: &str = "fencepost";

/// Why a call failed; the `reason` of the `ErrorInfo`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reason {
    /// A field of the request is not valid; `field` and `limit` say which and why. Final.
    InvalidField,
    /// The request id is known with other parameters. Final.
    RequestIdReused,
    /// The membership has no such node.
    NoSuchNode,
    /// The cluster's state forbids it; the message says what to do.
    Refused,
    /// Too many proposals in flight; waiting helps.
    Overloaded,
    /// A limit of the cluster is reached, for instance on live leases.
    Limit,
    /// The leader's disk is nearly full; grants are refused, renewals and releases are not.
    DiskFull,
    /// No leader is known: an election is under way, or the quorum is lost.
    NoLeader,
    /// A call that had been passed on reached a node that does not lead.
    NotLeader,
    /// The node is shutting down.
    Stopping,
    /// It may have taken effect, or may still.
    UnknownOutcome,
    /// The request id may have been forgotten; ask again under a new one.
    TooOld,
    /// The history of events does not reach back to the cursor; `oldest` says how far it does.
    HistoryLost,
}

impl Reason {
    const ALL: [(Self, &'static str, Code); 13] = [
        (Self::InvalidField, "INVALID_FIELD", Code::InvalidArgument),
        (
            Self::RequestIdReused,
            "REQUEST_ID_REUSED",
            Code::InvalidArgument,
        ),
        (Self::NoSuchNode, "NO_SUCH_NODE", Code::NotFound),
        (Self::Refused, "REFUSED", Code::FailedPrecondition),
        (Self::Overloaded, "OVERLOADED", Code::ResourceExhausted),
        (Self::Limit, "LIMIT", Code::ResourceExhausted),
        (Self::DiskFull, "DISK_FULL", Code::ResourceExhausted),
        (Self::NoLeader, "NO_LEADER", Code::Unavailable),
        (Self::NotLeader, "NOT_LEADER", Code::Unavailable),
        (Self::Stopping, "STOPPING", Code::Unavailable),
        (Self::UnknownOutcome, "UNKNOWN_OUTCOME", Code::Unavailable),
        (Self::TooOld, "TOO_OLD", Code::Aborted),
        (Self::HistoryLost, "HISTORY_LOST", Code::OutOfRange),
    ];

    /// The name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// The gRPC code it comes with. `UnknownOutcome` may also come as `DEADLINE_EXCEEDED`.
    #[must_use]
    pub fn code(self) -> Code {
        self.row().2
    }

    /// Every reason that fencepost knows.
    pub fn all() -> impl Iterator<Item = Self> {
        Self::ALL.into_iter().map(|(reason, ..)| reason)
    }

    fn row(self) -> (Self, &'static str, Code) {
        let found = Self::ALL.into_iter().find(|(reason, ..)| *reason == self);
        found.expect("ALL lists every reason")
    }

    fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|(_, known, _)| *known == name)
            .map(|(reason, ..)| reason)
    }
}

/// Whether a failed call can have changed anything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Certainly not, now or later.
    None,
    /// Perhaps, now or later.
    Unknown,
}

/// A call that could not be carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// Why.
    pub reason: Reason,
    /// Whether it can have changed anything.
    pub effect: Effect,
    /// One sentence for people.
    pub message: String,
    /// The field at fault, for [`Reason::InvalidField`].
    pub field: Option<String>,
    /// What the field's limit is.
    pub limit: Option<String>,
    /// When it is worth trying again.
    pub retry_after: Option<Duration>,
    /// `host:port` of the leader's client listener, where it is known.
    pub leader: Option<Box<str>>,
    /// From where on a watch may go on, for [`Reason::HistoryLost`]. Apart, because it is rare and failures
    /// travel in results.
    pub oldest: Option<Box<Oldest>>,
    /// The caller's own time ran out: the status is `DEADLINE_EXCEEDED`.
    pub deadline: bool,
}

/// How far back a node's history of events reaches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Oldest {
    /// The cluster that the index belongs to.
    pub cluster_id: String,
    /// The oldest log index that a watch may go on from.
    pub index: u64,
}

impl Failure {
    /// A failure with nothing but its reason and a sentence. Its effect is `None`, save for those
    /// reasons that are about not knowing.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        let effect = match reason {
            Reason::UnknownOutcome | Reason::TooOld => Effect::Unknown,
            _ => Effect::None,
        };
        let message = message.into();
        Self {
            reason,
            effect,
            message,
            field: None,
            limit: None,
            retry_after: None,
            leader: None,
            oldest: None,
            deadline: false,
        }
    }

    /// A request whose `field` breaks its `limit`.
    pub fn invalid(field: impl Into<String>, limit: impl Into<String>) -> Self {
        let (field, limit) = (field.into(), limit.into());
        let mut failure = Self::new(Reason::InvalidField, format!("{field}: {limit}"));
        failure.field = Some(field);
        failure.limit = Some(limit);
        failure
    }

    /// The caller's time ran out before the outcome was known.
    pub fn deadline(message: impl Into<String>) -> Self {
        Self {
            deadline: true,
            ..Self::new(Reason::UnknownOutcome, message)
        }
    }

    /// Says when trying again is worth it.
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Self {
        self.retry_after = Some(after);
        self
    }

    /// Says where the leader is.
    #[must_use]
    pub fn leader(mut self, address: Option<String>) -> Self {
        self.leader = address.map(String::into_boxed_str);
        self
    }

    /// Says from where on the history is still kept, and of which cluster it is.
    #[must_use]
    pub fn oldest(mut self, cluster_id: String, index: u64) -> Self {
        self.oldest = Some(Box::new(Oldest { cluster_id, index }));
        self
    }

    /// The status that carries it over the wire.
    #[must_use]
    pub fn into_status(self) -> Status {
        let code = if self.deadline {
            Code::DeadlineExceeded
        } else {
            self.reason.code()
        };
        let mut metadata = HashMap::from([("effect".to_owned(), self.effect.name().to_owned())]);
        metadata.extend(self.field.map(|field| ("field".to_owned(), field)));
        metadata.extend(self.limit.map(|limit| ("limit".to_owned(), limit)));
        metadata.extend(
            self.leader
                .map(|leader| ("leader".to_owned(), leader.into())),
        );
        if let Some(oldest) = self.oldest {
            metadata.insert("cluster_id".to_owned(), oldest.cluster_id);
            metadata.insert("oldest_index".to_owned(), oldest.index.to_string());
        }
        let after_ms = self.retry_after.map(|after| after.as_millis().to_string());
        metadata.extend(after_ms.map(|after| ("retry_after_ms".to_owned(), after)));
        let details = ErrorDetails::with_error_info(self.reason.name(), DOMAIN, metadata);
        Status::with_error_details(code, self.message, details)
    }

    /// Reads a status back. `None`: fencepost did not write it, so its effect is unknown.
    #[must_use]
    pub fn from_status(status: &Status) -> Option<Self> {
        let info = status
            .get_details_error_info()
            .filter(|info| info.domain == DOMAIN)?;
        let reason = Reason::from_name(&info.reason)?;
        let mut metadata = info.metadata;
        let after_ms = metadata
            .remove("retry_after_ms")
            .and_then(|after| after.parse().ok());
        Some(Self {
            reason,
            effect: Effect::from_name(metadata.get("effect").map_or("", String::as_str)),
            message: status.message().to_owned(),
            field: metadata.remove("field"),
            limit: metadata.remove("limit"),
            retry_after: after_ms.map(Duration::from_millis),
            leader: metadata.remove("leader").map(String::into_boxed_str),
            oldest: Oldest::from_metadata(&mut metadata).map(Box::new),
            deadline: status.code() == Code::DeadlineExceeded,
        })
    }
}

impl Oldest {
    fn from_metadata(metadata: &mut HashMap<String, String>) -> Option<Self> {
        Some(Self {
            index: metadata.remove("oldest_index")?.parse().ok()?,
            cluster_id: metadata.remove("cluster_id")?,
        })
    }
}

impl Effect {
    fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Unknown => "unknown",
        }
    }

    /// Anything but a clear "none" is taken for unknown.
    fn from_name(name: &str) -> Self {
        if name == "none" {
            Self::None
        } else {
            Self::Unknown
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<Failure> for Status {
    fn from(failure: Failure) -> Self {
        failure.into_status()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_survives_the_wire() {
        for reason in Reason::all() {
            let failure = Failure::new(reason, "why")
                .retry_after(Duration::from_millis(7))
                .leader(Some("127.0.0.1:7100".to_owned()))
                .oldest("c1".to_owned(), 8);
            let status = failure.clone().into_status();
            assert_eq!(status.code(), reason.code());
            assert_eq!(Failure::from_status(&status), Some(failure));
        }
        let invalid = Failure::invalid("ttl_ms", "100 to 86400000");
        assert_eq!(
            Failure::from_status(&invalid.clone().into_status()),
            Some(invalid)
        );
    }

    #[test]
    fn a_deadline_is_an_unknown_outcome() {
        let status = Failure::deadline("out of time").into_status();
        assert_eq!(status.code(), Code::DeadlineExceeded);
        let failure = Failure::from_status(&status).unwrap();
        assert_eq!(
            (failure.reason, failure.effect),
            (Reason::UnknownOutcome, Effect::Unknown)
        );
    }

    #[test]
    fn a_status_of_somebody_else_is_not_taken_for_ours() {
        assert_eq!(Failure::from_status(&Status::unavailable("a proxy")), None);
        let foreign = ErrorDetails::with_error_info("OVERLOADED", "example.org", HashMap::new());
        let status = Status::with_error_details(Code::ResourceExhausted, "no", foreign);
        assert_eq!(Failure::from_status(&status), None);
    }

    #[test]
    fn an_unclear_effect_is_unknown() {
        let details = ErrorDetails::with_error_info("OVERLOADED", DOMAIN, HashMap::new());
        let status = Status::with_error_details(Code::ResourceExhausted, "no", details);
        assert_eq!(
            Failure::from_status(&status).unwrap().effect,
            Effect::Unknown
        );
    }
}
