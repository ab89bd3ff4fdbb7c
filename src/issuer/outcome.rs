//! Outcomes: what the core says to a command. A refusal is an outcome, not an error.

use crate::grant::{EndedHow, LeftHow, Ttl};
use crate::issuer::RequestKey;
use crate::resource::Holder;
use crate::token::{Token, TokenValue};

/// The answer to one entry; its variant always matches the command's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// To [`Acquire`](super::Acquire).
    Acquire(AcquireOutcome),
    /// To [`Renew`](super::Renew): one for each renewal, in their order.
    Renew(Vec<RenewOutcome>),
    /// To [`Release`](super::Release).
    Release(ReleaseOutcome),
    /// To [`Expire`](super::Expire): how many of the leases ended. The others had been renewed, or
    /// had ended before.
    Expire {
        /// How many ended in this entry.
        ended: u32,
    },
    /// To [`Revoke`](super::Revoke).
    Revoke(RevokeOutcome),
    /// To [`RaiseFloor`](super::RaiseFloor).
    RaiseFloor(RaiseFloorOutcome),
    /// To [`Withdraw`](super::Withdraw): one for each place, in their order.
    Withdraw(Vec<WithdrawOutcome>),
    /// To [`Promote`](super::Promote).
    Promote(PromoteOutcome),
    /// To [`Admit`](super::Admit).
    Admit(AdmitOutcome),
}

impl Outcome {
    /// The word for logs, metrics and the audit log.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Acquire(outcome) => outcome.name(),
            Self::Renew(_) => "renew",
            Self::Release(ReleaseOutcome::Released) => "released",
            Self::Release(ReleaseOutcome::Ended { .. }) => "ended",
            Self::Release(ReleaseOutcome::Unknown) => "unknown",
            Self::Expire { .. } => "expire",
            Self::Revoke(RevokeOutcome::Revoked) => "revoked",
            Self::Revoke(RevokeOutcome::Ended { .. }) => "ended",
            Self::Revoke(RevokeOutcome::OtherResource) => "other_resource",
            Self::Revoke(RevokeOutcome::Unknown) => "unknown",
            Self::RaiseFloor(RaiseFloorOutcome::Raised { .. }) => "raised",
            Self::RaiseFloor(RaiseFloorOutcome::BeyondClock { .. }) => "beyond_clock",
            Self::Withdraw(_) => "withdraw",
            Self::Promote(PromoteOutcome::Granted { .. }) => "granted",
            Self::Promote(PromoteOutcome::Nothing) => "nothing",
            Self::Admit(outcome) => outcome.name(),
        }
    }
}

/// The answer to an acquire.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AcquireOutcome {
    /// The holder has the resource.
    Granted {
        /// The token of the grant.
        token: Token,
        /// The lease that the grant has now: its granted TTL, or the one that its last renewal named;
        /// at most 2 s if it came after waiting and nobody has claimed it yet.
        lease: Ttl,
        /// The request id was known, and this is the grant that it got earlier. Its lease has been
        /// running since then, so the asker claims nothing until a renewal of its own returns.
        replayed: bool,
        /// The grant came from the queue, in an entry later than the request's own. Always replayed
        /// here, and a renewal claims it.
        after_wait: bool,
    },
    /// Somebody else has it, and the request waits. Its grant, or the end of its place, comes as an
    /// [`Event`](super::Event).
    Queued {
        /// Where it stands: 1 is granted next.
        position: u32,
        /// How many wait for the resource, this one included.
        queue: u32,
        /// The request id was known, and waits already.
        replayed: bool,
    },
    /// The request id was known, had a place in the queue, and left it without a grant; or it was
    /// withdrawn before it came. It is never granted later.
    Left {
        /// How the place ended.
        how: LeftHow,
    },
    /// Somebody else has it. This is remembered: the same request id is never granted later, so a
    /// client that goes on trying uses a new one.
    Held {
        /// Who has it now. `None` if a replayed refusal finds the resource free by now.
        by: Option<HeldBy>,
        /// How many wait for it.
        queue: u32,
        /// The request id was known, and had been refused.
        replayed: bool,
    },
    /// The request id was known, was granted, and its grant has ended since.
    Ended {
        /// The token that it had been granted.
        token: Token,
        /// How that grant ended.
        how: EndedHow,
    },
    /// It cannot be told any more whether this request id had been asked before: **the outcome is
    /// unknown**. Nothing was stored. The client asks again under a new id, which supersedes its old
    /// grant if there is one.
    TooOld,
    /// The request id was asked before with another TTL or another wait. Nothing happened.
    ParametersDiffer,
    /// The cluster has as many live grants as it may have, those counted that a queue is about to
    /// get. This is remembered like `Held`.
    TooManyGrants {
        /// How many that are.
        limit: u64,
        /// The request id was known, and had been refused.
        replayed: bool,
    },
    /// As many wait as may wait. This is remembered like `Held`.
    TooManyWaiters {
        /// How many that are.
        limit: u32,
        /// Whether the limit is the one of a single resource, and not the one of the whole cluster.
        of_resource: bool,
        /// The request id was known, and had been refused.
        replayed: bool,
    },
    /// The holder has as many grants and places in queues as it may have. This is remembered like
    /// `Held`.
    TooManyGrantsOfHolder {
        /// How many that are.
        limit: u32,
        /// The request id was known, and had been refused.
        replayed: bool,
    },
}

impl AcquireOutcome {
    /// The word for logs, metrics and the audit log.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Granted { .. } => "granted",
            Self::Queued { .. } => "queued",
            Self::Left { .. } => "left",
            Self::Held { .. } => "held",
            Self::Ended { .. } => "ended",
            Self::TooOld => "too_old",
            Self::ParametersDiffer => "parameters_differ",
            Self::TooManyGrants { .. } => "too_many_grants",
            Self::TooManyWaiters { .. } => "too_many_waiters",
            Self::TooManyGrantsOfHolder { .. } => "too_many_grants_of_holder",
        }
    }
}

/// The live grant that stands in the way of an acquire. How long it still has is not the state's to
/// know: the answering node takes that from its own [`LeaseClock`](super::LeaseClock).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldBy {
    /// Who has the resource.
    pub holder: Holder,
    /// The token of that grant.
    pub token: Token,
}

/// The answer to one renewal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenewOutcome {
    /// The lease starts anew.
    Renewed {
        /// The TTL it has now.
        lease: Ttl,
        /// How often it was renewed, this time included.
        renewals: u64,
    },
    /// The grant had ended: the caller is not the holder any more.
    Ended {
        /// How it ended.
        how: EndedHow,
    },
    /// There is no such live grant, and no memory of one: never issued, or ended beyond memory.
    Unknown,
}

impl RenewOutcome {
    /// The word for logs, metrics and the audit log.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Renewed { .. } => "renewed",
            Self::Ended { .. } => "ended",
            Self::Unknown => "unknown",
        }
    }
}

/// The answer to a release.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// The grant is given back, by this entry or by an earlier release of the same token: a retried
    /// release must not be mistaken for a lost lease.
    Released,
    /// The grant had ended in another way before.
    Ended {
        /// How it ended; never `Released`.
        how: EndedHow,
    },
    /// There is no such live grant, and no memory of one.
    Unknown,
}

/// The answer to a revocation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RevokeOutcome {
    /// The grant is revoked, by this entry or by an earlier revocation of the same token.
    Revoked,
    /// The grant had ended in another way before.
    Ended {
        /// How it ended; never `Revoked`.
        how: EndedHow,
    },
    /// The token is that of a live grant of another resource. Nothing happened.
    OtherResource,
    /// There is no such live grant, and no memory of one.
    Unknown,
}

/// The answer to a floor that was to be raised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RaiseFloorOutcome {
    /// Every later token is greater than what was asked, by this entry or because it was so before.
    Raised {
        /// The floor now.
        floor: u64,
    },
    /// The number lies beyond the leader's microsecond clock, or beyond what tokens may reach.
    /// Nothing happened.
    BeyondClock {
        /// The highest number that would have been accepted in this entry.
        limit: u64,
    },
}

/// The answer to one place that was to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WithdrawOutcome {
    /// The place has ended without a grant, by this entry or by an earlier one.
    Left {
        /// How it ended; not necessarily as this entry meant it.
        how: LeftHow,
    },
    /// The request has a live grant, which a withdrawal never touches: release it.
    Granted {
        /// The token of the grant.
        token: Token,
    },
    /// The request was granted, and its grant has ended.
    Ended {
        /// The token that it had.
        token: Token,
        /// How the grant ended.
        how: EndedHow,
    },
    /// The request was refused, and never had a place.
    Refused,
    /// The request is not known here: not applied yet, or forgotten. Sends up to this attempt will
    /// not act when they come; a later one will.
    Marked,
    /// A later send keeps the place. Nothing happened.
    Stale,
    /// The request is not known here, and the leader leaves no mark. Nothing happened.
    Unknown,
}

impl WithdrawOutcome {
    /// The word for logs, metrics and the audit log.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Left { .. } => "left",
            Self::Granted { .. } => "granted",
            Self::Ended { .. } => "ended",
            Self::Refused => "refused",
            Self::Marked => "marked",
            Self::Stale => "stale",
            Self::Unknown => "unknown",
        }
    }
}

/// The answer to a promotion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PromoteOutcome {
    /// The head of the queue has the resource.
    Granted {
        /// The token of the grant.
        token: Token,
        /// Which request got it.
        request: RequestKey,
    },
    /// The resource is held, or nobody waits for it. Nothing happened.
    Nothing,
}

/// The answer of the cluster's own guard register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AdmitOutcome {
    /// The token may pass. The mark is at it, by this entry or because it was so before.
    Admitted,
    /// A higher token was here before, or this one where each passes once. Nothing happened.
    Stale {
        /// The lowest token that would have passed.
        required: TokenValue,
    },
    /// The token is above everything that this issuer has issued. Nothing happened: a mark that high
    /// would shut out the holders of real tokens. It is the sign of a restore gone wrong, or of a token
    /// that somebody made up.
    Ahead {
        /// The last token that was issued; 0 before the first.
        last_token: u64,
    },
    /// The resource has no mark yet, and the register has as many as it may have. Nothing happened.
    TooManyMarks {
        /// How many it may have.
        limit: u64,
    },
}

impl AdmitOutcome {
    /// The word for logs, metrics and the audit log.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Admitted => "admitted",
            Self::Stale { .. } => "stale",
            Self::Ahead { .. } => "ahead",
            Self::TooManyMarks { .. } => "too_many_marks",
        }
    }
}
