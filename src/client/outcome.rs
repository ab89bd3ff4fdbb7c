//! What the rules decide: outcomes are data, with what the caller needs next.

use super::clock::BootInstant;
use crate::grant::{EndedHow, LeftHow, Ttl};
use crate::resource::{Holder, ResourceName};
use crate::sequencer::Sequencer;
use crate::token::Token;
use std::fmt;
use std::time::Duration;

/// How an acquire came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AcquireOutcome {
    /// The resource is yours.
    Granted(Acquired),
    /// Somebody else has it; nothing has changed.
    Held(HeldBy),
    /// This request was granted earlier, and that grant has ended since. After a wait: the grant came
    /// while this call was cut off, and nobody claimed it within 2 s.
    Ended(Ended),
    /// It stood in line, and its place ended without a grant. The same request is never granted later.
    Left(LeftHow),
}

/// How a withdrawal came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WithdrawOutcome {
    /// The place is gone, now or before; or the request had not arrived, and will have no effect.
    Left(LeftHow),
    /// It was granted before this arrived, and the grant lives: release it.
    Granted(Acquired),
    /// It was granted, and that grant has ended since.
    Ended(Ended),
    /// A later send of the same request has come back to the place, which is left alone.
    Stale,
    /// It was refused: there was nothing to leave.
    Refused,
}

/// A grant, as its holder sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Acquired {
    /// What was granted.
    pub resource: ResourceName,
    /// To whom.
    pub holder: Holder,
    /// The fencing token, to be sent along with every request to the resource.
    pub token: Token,
    /// Issuer, resource and token together: what a guard wants to see.
    pub sequencer: Sequencer,
    /// How long the lease is without a renewal.
    pub lease: Duration,
    /// It came out of the line. The lease is at most 2 s until the first renewal, which makes it the whole
    /// TTL: send it at once.
    pub after_wait: bool,
    /// The answer was given before, to an earlier copy of this request.
    pub replayed: bool,
    /// For people, by the leader's wall clock, milliseconds since 1970.
    pub granted_at_unix_ms: u64,
    /// Until when the lease certainly lives.
    pub(super) safe_until: Option<BootInstant>,
}

impl Acquired {
    /// Until when the holder may rely on the lease, by the clock that counts suspension: the send of
    /// the first copy of the request plus the lease. The cluster ends it later than that, never earlier.
    ///
    /// `None` when that start is not known to this process, because it came after waiting or the answer was
    /// replayed: the token protects already, but renew before relying on any time that is left.
    #[must_use]
    pub fn safe_until(&self) -> Option<BootInstant> {
        self.safe_until
    }

    /// What to send to keep it, with its own TTL.
    #[must_use]
    pub fn renewal(&self) -> Renewal {
        Renewal {
            resource: self.resource.clone(),
            holder: self.holder.clone(),
            token: self.token.value(),
            ttl: None,
        }
    }
}

/// Who has a resource that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldBy {
    /// Who has it; `None` when the refusal is [replayed](Self::replayed) and nobody has it by now.
    pub holder: Option<Holder>,
    /// The token of that grant.
    pub token: Option<Token>,
    /// The refusal was given before, to an earlier copy of this request. A request id that was refused
    /// is never granted later; who has the resource is told anew.
    pub replayed: bool,
    /// About how long the lease still lasts if it is not renewed.
    pub remaining: Duration,
    /// How many wait in line.
    pub queue: u32,
}

impl fmt::Display for HeldBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.holder {
            Some(holder) => write!(f, "held by {holder} for about {:?} more", self.remaining),
            None => f.write_str("held when this request was first sent, free by now"),
        }
    }
}

/// A grant that is no more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended {
    /// Its token.
    pub token: Token,
    /// How it ended.
    pub how: EndedHow,
}

/// One grant to be renewed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Renewal {
    /// What is held.
    pub resource: ResourceName,
    /// By whom.
    pub holder: Holder,
    /// The token's value.
    pub token: crate::token::TokenValue,
    /// The TTL from now on; `None` keeps the grant's own.
    pub ttl: Option<Ttl>,
}

/// How the renewal of one grant came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RenewOutcome {
    /// It lives on.
    Renewed {
        /// How long the lease is from the renewal on.
        lease: Duration,
        /// Until when the holder may rely on it: the send of this renewal plus the lease.
        safe_until: BootInstant,
    },
    /// It had ended. It does not come back: stop, and acquire anew.
    Ended(Ended),
    /// The cluster knows no such grant of this holder.
    Unknown,
}

/// How a release came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// It is given back, now or by an earlier copy of this call.
    Released,
    /// It had ended in another way before.
    Ended(Ended),
    /// The cluster knows no such grant of this holder.
    Unknown,
}

/// How a revocation came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RevokeOutcome {
    /// It is taken away, now or by an earlier copy of this call.
    Revoked,
    /// It had ended in another way before.
    Ended(Ended),
    /// The cluster knows no such grant.
    Unknown,
}

/// How a resource stands: who has it, and who waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inspection {
    /// Who holds it; `None` when it is free.
    pub grant: Option<LiveGrant>,
    /// How many wait in line.
    pub queue: u32,
    /// Where the holder that was asked for stands in it: 1 is next. `None` when it does not wait.
    pub position: Option<u32>,
}

/// A live grant, as everybody sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveGrant {
    /// What is held.
    pub resource: ResourceName,
    /// By whom.
    pub holder: Holder,
    /// The token of this grant, and of no other.
    pub token: Token,
    /// The TTL that a renewal restores.
    pub ttl: Ttl,
    /// About how long the lease still lasts if it is not renewed. Zero: run out, its end not yet
    /// committed.
    pub remaining: Duration,
    /// How often it was renewed.
    pub renewals: u64,
    /// For people, by the leader's wall clock, milliseconds since 1970.
    pub granted_at_unix_ms: u64,
    /// Likewise: when it runs out if it is not renewed.
    pub expires_at_unix_ms: u64,
}
