//! Events: what an entry changed, in order; for the lease clock, for watches and for the audit log.

use crate::grant::{EndedHow, LeftHow, Ttl};
use crate::issuer::RequestKey;
use crate::resource::{Holder, Reason, ResourceName};
use crate::token::{Token, TokenValue};

/// One change of the state. Ends and places come first in an entry, and at most one grant, last. An
/// entry that only refuses or replays has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A resource was given to a holder. At most one in an entry, and always the last one there.
    Granted {
        /// What was granted.
        resource: ResourceName,
        /// To whom.
        holder: Holder,
        /// The new token.
        token: Token,
        /// The TTL that its renewals make it live for.
        ttl: Ttl,
        /// The lease it starts with: the TTL, or at most 2 s after waiting.
        lease: Ttl,
        /// Which request got it.
        request: RequestKey,
        /// Whether it came from the queue, in an entry later than the request's own.
        after_wait: bool,
    },
    /// A lease starts anew, with its full TTL.
    Renewed {
        /// What the grant is of.
        resource: ResourceName,
        /// Whose it is.
        holder: Holder,
        /// The grant's token, unchanged.
        token: Token,
        /// The lease's TTL from here on.
        ttl: Ttl,
        /// How often it was renewed, this time included.
        renewals: u64,
    },
    /// A grant ended.
    Ended {
        /// What it was of.
        resource: ResourceName,
        /// Whose it was.
        holder: Holder,
        /// Its token.
        token: Token,
        /// How it ended.
        how: EndedHow,
        /// How often it had been renewed when it ended.
        renewals: u64,
        /// Why an operator revoked it, if one said so.
        reason: Option<Reason>,
    },
    /// A request waits from here on, at the end of the queue or at the place that an older request of
    /// the same holder had. A later send under the same id has no event.
    Queued {
        /// What it waits for.
        resource: ResourceName,
        /// Who waits.
        holder: Holder,
        /// Which request.
        request: RequestKey,
        /// Which send of it was the first to be applied.
        attempt: u32,
        /// Where it stands, counted from 1; before the grant that the same entry may make.
        position: u32,
        /// The TTL that it asks for.
        ttl: Ttl,
        /// How long it waits at most, in milliseconds.
        wait_ms: u32,
    },
    /// A request's place in the queue ended without a grant.
    Left {
        /// What it waited for.
        resource: ResourceName,
        /// Who waited.
        holder: Holder,
        /// Which request.
        request: RequestKey,
        /// How the place ended.
        how: LeftHow,
    },
    /// All later tokens are lifted.
    FloorRaised {
        /// The new floor.
        floor: u64,
    },
    /// A mark of the cluster's own guard register rose. A token that is admitted at the mark changes
    /// nothing, and has no event.
    Admitted {
        /// Whose mark.
        resource: ResourceName,
        /// Where it is now.
        token: TokenValue,
    },
}

impl Event {
    /// The word for logs, metrics and the audit log; the end of a grant is named
    /// by how it came about.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Granted { .. } => "granted",
            Self::Renewed { .. } => "renewed",
            Self::Ended { how, .. } => how.as_str(),
            Self::Queued { .. } => "queued",
            Self::Left { .. } => "left",
            Self::FloorRaised { .. } => "floor_raised",
            Self::Admitted { .. } => "admitted",
        }
    }

    /// The resource that it is about; `None` if it is about all.
    #[must_use]
    pub const fn resource(&self) -> Option<&ResourceName> {
        match self {
            Self::Granted { resource, .. }
            | Self::Renewed { resource, .. }
            | Self::Ended { resource, .. }
            | Self::Queued { resource, .. }
            | Self::Left { resource, .. }
            | Self::Admitted { resource, .. } => Some(resource),
            Self::FloorRaised { .. } => None,
        }
    }

    /// Whose grant or place it is about; `None` if it is about neither.
    #[must_use]
    pub const fn holder(&self) -> Option<&Holder> {
        match self {
            Self::Granted { holder, .. }
            | Self::Renewed { holder, .. }
            | Self::Ended { holder, .. }
            | Self::Queued { holder, .. }
            | Self::Left { holder, .. } => Some(holder),
            Self::FloorRaised { .. } | Self::Admitted { .. } => None,
        }
    }
}
