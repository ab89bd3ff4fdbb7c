//! Events: what an entry changed, in order; for the lease clock, for watches and for the audit log.

use crate::grant::{EndedHow, Ttl};
use crate::issuer::RequestKey;
use crate::resource::{Holder, Reason, ResourceName};
use crate::token::Token;

/// One change of the state. An entry that refuses or replays has none.
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
        /// The lease it starts with.
        ttl: Ttl,
        /// Which request got it.
        request: RequestKey,
    },
    /// A lease starts anew, with its full TTL.
    Renewed {
        /// What the grant is of.
        resource: ResourceName,
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
    /// All later tokens are lifted.
    FloorRaised {
        /// The new floor.
        floor: u64,
    },
}

impl Event {
    /// The word for logs, metrics and the audit log; an end is named by how it came about.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Granted { .. } => "granted",
            Self::Renewed { .. } => "renewed",
            Self::Ended { how, .. } => how.as_str(),
            Self::FloorRaised { .. } => "floor_raised",
        }
    }

    /// The resource that it is about; `None` if it is about all.
    #[must_use]
    pub const fn resource(&self) -> Option<&ResourceName> {
        match self {
            Self::Granted { resource, .. }
            | Self::Renewed { resource, .. }
            | Self::Ended { resource, .. } => Some(resource),
            Self::FloorRaised { .. } => None,
        }
    }
}
