//! The sequencer: what a holder sends along with a request to a resource (Chubby's word).
//!
//! It travels in four forms, each with one exact way to be written and a strict way to be read:
//! [HTTP headers and gRPC metadata](headers), one line of text ([`Sequencer`]'s `Display`), and a
//! [JSON envelope](Envelope) around a message. What arrives may lack the issuer, and is a
//! [`Presented`] until somebody has decided what that means.

mod envelope;
pub mod headers;
mod line;
mod presented;

pub use crate::resource::IssuerName;
pub use envelope::{Envelope, EnvelopeError, Fencing, IssuedAt, OtherScope, Scope};
pub use line::LineError;
pub use presented::{MissingIssuer, NoIssuer, Presented};

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
