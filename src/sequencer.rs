//! The sequencer: what a holder sends along with a request to a resource (Chubby's word).

use std::fmt;

pub use crate::resource::IssuerName;
use crate::resource::ResourceName;
use crate::token::TokenValue;

/// Issuer, resource and token together: enough for a guard to know what to compare and within what.
///
/// Tokens may be compared only within one scope, which is issuer and resource. Two issuers number
/// independently, so a guard refuses a sequencer of an issuer that it was not set up for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Sequencer {
    /// Who issued the token; stable across restores.
    pub issuer: IssuerName,
    /// What the token is for.
    pub resource: ResourceName,
    /// The number to compare.
    pub token: TokenValue,
}

impl fmt::Display for Sequencer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "token {} for {:?} by issuer {:?}",
            self.token, self.resource, self.issuer
        )
    }
}
