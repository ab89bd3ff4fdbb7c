//! How a mutation came out.

use std::{error::Error, fmt};

use crate::{sequencer::Sequencer, token::TokenValue};

use super::super::{Foreign, Mark, Refusal, Verdict};

/// The answer of a fenced resource to one mutation.
#[must_use = "a mutation that was not accepted did not happen"]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Applied {
    /// It was carried out, and the mark is at its token.
    Accepted,
    /// A newer holder has been here. Nothing was changed, and no retry will help.
    Stale {
        /// The token that was presented.
        presented: TokenValue,
        /// The lowest token that would have been accepted.
        required: TokenValue,
    },
    /// The sequencer belongs elsewhere. Nothing was compared, and nothing changed.
    Foreign(Foreign),
}

impl Applied {
    /// Turns a refusal into an error, for `?`.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] for everything but [`Applied::Accepted`].
    pub fn accepted(self) -> Result<(), Refusal> {
        Verdict::from(self).admitted()
    }
}

impl From<Verdict> for Applied {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Admitted => Self::Accepted,
            Verdict::Stale {
                presented,
                required,
            } => Self::Stale {
                presented,
                required,
            },
            Verdict::Foreign(foreign) => Self::Foreign(foreign),
        }
    }
}

impl From<Applied> for Verdict {
    fn from(applied: Applied) -> Self {
        match applied {
            Applied::Accepted => Self::Admitted,
            Applied::Stale {
                presented,
                required,
            } => Self::Stale {
                presented,
                required,
            },
            Applied::Foreign(foreign) => Self::Foreign(foreign),
        }
    }
}

/// A mutation of which it is not known that it was carried out.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError<E: Error + 'static> {
    /// The store failed. The mutation may have been carried out, whole, or not at all; the same call
    /// may be made again.
    #[error(transparent)]
    Store(#[from] E),
    /// The store updated nothing, though the mark that it then showed lets the token pass. Something
    /// besides the token refused: a condition of the store's own (no such row, another version), a
    /// mark that was lowered or deleted meanwhile, or a client that sent the update twice by itself
    /// and reports the second. It is never taken for accepted.
    #[error(
        "nothing was updated for {sequencer}, although the mark ({mark}) lets it pass: something besides the token refused the update"
    )]
    Unexplained {
        /// What was presented.
        sequencer: Box<Sequencer>,
        /// The mark that was found afterwards.
        mark: FoundMark,
    },
}

/// A mark in a message: `none`, or the issuer and the token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundMark(pub Option<Mark>);

impl fmt::Display for FoundMark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            None => f.write_str("none"),
            Some(mark) => write!(f, "token {} of issuer \"{}\"", mark.token, mark.issuer),
        }
    }
}
