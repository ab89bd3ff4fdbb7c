//! Commands: everything that a log entry may ask of the core.

use crate::grant::{AskedAt, LeftHow, RequestId, Ttl};
use crate::resource::{Holder, Reason, ResourceName};
use crate::token::TokenValue;

/// One entry of the log, as the core sees it.
///
/// The leader builds it, checks its encoded length against
/// [`COMMAND_BYTES_MAX`](crate::limits::COMMAND_BYTES_MAX) and proposes it. `stamped_at_ms` is the
/// leader's wall clock, milliseconds since 1970; it is shown to people and decides nothing, with one
/// exception that is a refusal: see [`RaiseFloor`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Asks for a resource. Answers with [`AcquireOutcome`](super::AcquireOutcome).
    Acquire(Acquire),
    /// Keeps grants alive. Answers with one [`RenewOutcome`](super::RenewOutcome) for each token.
    Renew(Renew),
    /// Gives a grant back. Answers with [`ReleaseOutcome`](super::ReleaseOutcome).
    Release(Release),
    /// Ends grants whose leases ran out. Proposed by the leader alone, from its lease clock.
    Expire(Expire),
    /// Ends a grant because an operator says so. Answers with [`RevokeOutcome`](super::RevokeOutcome).
    Revoke(Revoke),
    /// Lifts all later tokens. Answers with [`RaiseFloorOutcome`](super::RaiseFloorOutcome).
    RaiseFloor(RaiseFloor),
    /// Ends places in queues, never a grant. Proposed for a caller that gave up, or by the leader for
    /// those who are gone or whose wait ran out. Answers with one
    /// [`WithdrawOutcome`](super::WithdrawOutcome) for each place.
    Withdraw(Withdraw),
    /// Grants a free resource to the head of its queue. Proposed by the leader alone, where an entry
    /// ended several grants. Answers with [`PromoteOutcome`](super::PromoteOutcome).
    Promote(Promote),
    /// Asks the cluster's own guard register whether a token may pass, and raises the mark of its
    /// resource. Proposed only where the mark would rise. Answers with
    /// [`AdmitOutcome`](super::AdmitOutcome).
    Admit(Admit),
}

impl Command {
    /// The word for logs and metrics.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Acquire(_) => "acquire",
            Self::Renew(_) => "renew",
            Self::Release(_) => "release",
            Self::Expire(_) => "expire",
            Self::Revoke(_) => "revoke",
            Self::RaiseFloor(_) => "raise_floor",
            Self::Withdraw(_) => "withdraw",
            Self::Promote(_) => "promote",
            Self::Admit(_) => "admit",
        }
    }
}

/// A holder asks for a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acquire {
    /// What is asked for.
    pub resource: ResourceName,
    /// Who asks.
    pub holder: Holder,
    /// How long the lease shall live without a renewal. A retry sends the same.
    pub ttl: Ttl,
    /// The request id, with resource and holder, as 128 bits.
    pub request: RequestKey,
    /// Which send of the request id this is; rises with each. The state keeps the highest.
    pub attempt: u32,
    /// What the asker had seen before the first send. Without it a request id is known only for as
    /// long as the memory of ids reaches back.
    pub asked_at: Option<AskedAt>,
    /// How long to wait for the resource, in milliseconds; zero does not wait. The API checks it
    /// against [`WAIT_MS_MAX`](crate::limits::WAIT_MS_MAX). A retry sends the same.
    pub wait_ms: u32,
    /// The leader's wall clock, for people.
    pub stamped_at_ms: u64,
}

/// Renewals that were collected into one entry. Stale ones do not fail the others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renew {
    /// Which grants, in the order in which the answers come.
    pub renewals: Vec<Renewal>,
    /// The leader's wall clock, for people.
    pub stamped_at_ms: u64,
}

/// One renewal in a [`Renew`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Renewal {
    /// Which grant: a token is unique, so its value names one.
    pub token: TokenValue,
    /// The TTL from here on; the grant keeps the one it has if this is `None`.
    pub ttl: Option<Ttl>,
}

/// A holder gives a grant back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Release {
    /// Which grant. Never the resource: a late release must not end the successor's grant.
    pub token: TokenValue,
    /// The leader's wall clock, for people.
    pub stamped_at_ms: u64,
}

/// The leader ends grants whose deadlines have passed on its lease clock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expire {
    /// Which grants. Each is looked at on its own.
    pub leases: Vec<DueLease>,
    /// The leader's wall clock, for people.
    pub stamped_at_ms: u64,
}

/// One lease that is due: it ends only if nobody renewed it since its deadline was computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DueLease {
    /// Which grant.
    pub token: TokenValue,
    /// The number of renewals that the deadline was computed for, kept by the lease clock beside the
    /// deadline. Never the state's current number: that one would always match.
    pub renewals: u64,
}

/// An operator ends a grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revoke {
    /// What the operator takes the grant to be of; a mismatch is refused.
    pub resource: ResourceName,
    /// Which grant. Named, so that a retry never ends the successor.
    pub token: TokenValue,
    /// Why, for people.
    pub reason: Option<Reason>,
    /// The leader's wall clock, for people.
    pub stamped_at_ms: u64,
}

/// An operator lifts all later tokens above a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RaiseFloor {
    /// Every later token is greater than this. Absolute, so a retry changes nothing.
    pub above: u64,
    /// The leader's wall clock in *microseconds* since 1970. A number beyond it is refused, because
    /// a later restore lifts tokens to the microsecond clock and must still top this.
    pub stamped_at_us: u64,
}

/// Places in queues end. Each is looked at on its own, and a grant is never touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Withdraw {
    /// Which places, 1 to
    /// [`WITHDRAWALS_PER_COMMAND_MAX`](crate::limits::WITHDRAWALS_PER_COMMAND_MAX), in the order in
    /// which the answers come.
    pub places: Vec<Leaving>,
    /// Why. `Withdrawn` and `Detached` act only if no later send has come, and `Withdrawn` also marks
    /// an id that is not known yet. `WaitedOut` acts whatever was sent. `Superseded` acts on nothing:
    /// only a newer request of the holder does that.
    pub how: LeftHow,
    /// The leader's wall clock, for people.
    pub stamped_at_ms: u64,
}

/// One place in a [`Withdraw`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Leaving {
    /// Whose place: the request id, with resource and holder.
    pub request: RequestKey,
    /// The last send that this is about. A place that a later one keeps alive stays.
    pub attempt: u32,
}

/// The leader grants a free resource to the head of its queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promote {
    /// Which resource.
    pub resource: ResourceName,
    /// The leader's wall clock, for people.
    pub stamped_at_ms: u64,
}

/// A token is presented to the cluster's own guard register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admit {
    /// What it is for. That it was issued here is the API's to check: every token in the log is of
    /// this issuer.
    pub resource: ResourceName,
    /// What is presented.
    pub token: TokenValue,
    /// Whether each token passes once only, so that a token at the mark is refused.
    pub once: bool,
    /// The leader's wall clock, for people.
    pub stamped_at_ms: u64,
}

/// A request id with its resource and its holder, as 128 bits of a BLAKE3 hash.
///
/// The leader computes it once, before it proposes; the state never sees the bytes themselves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestKey([u8; 16]);

impl RequestKey {
    /// Computes the key of a request id as asked by `holder` for `resource`.
    #[must_use]
    pub fn new(id: &RequestId, resource: &ResourceName, holder: &Holder) -> Self {
        let mut hasher = blake3::Hasher::new();
        // No name contains NUL, so the three parts cannot run into each other.
        hasher.update(resource.as_str().as_bytes()).update(&[0]);
        hasher.update(holder.as_str().as_bytes()).update(&[0]);
        hasher.update(id.as_bytes());
        let mut key = [0; 16];
        key.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
        Self(key)
    }

    /// Takes the 16 bytes of a key that was computed elsewhere.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The 16 bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl std::fmt::Display for RequestKey {
    /// 32 lower-case hexadecimal digits.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for RequestKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}
