//! What an issuer's table answers.

use std::time::Duration;

use crate::{resource::Holder, sequencer::Sequencer, token::TokenValue};

/// The answer to an acquire.
#[must_use = "only `Granted` gives the resource"]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acquired {
    /// The resource is the holder's, until the TTL from before the call has passed.
    Granted(Sequencer),
    /// Another holder has it. Nothing was changed.
    Held {
        /// Who.
        holder: Holder,
        /// Under which token.
        token: TokenValue,
        /// For how long, by the database's clock, unless it is renewed or released before.
        remaining: Duration,
    },
}

/// The answer to a renewal and to a release.
#[must_use = "a grant that has ended must not be used any more"]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// The grant was live, and is renewed, or given back.
    Kept,
    /// The grant had ended: released, expired, superseded, or granted to another. Nothing was changed.
    Ended,
}

/// The last grant of a resource, as the table has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableGrant {
    /// Who was granted the resource.
    pub holder: Holder,
    /// The token of that grant.
    pub token: TokenValue,
    /// What is left of its lease by the database's clock; zero if it has ended.
    pub remaining: Duration,
}
