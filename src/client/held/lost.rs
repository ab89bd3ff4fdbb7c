//! Why a holder has its lease no more.

use crate::client::Error;
use crate::grant::EndedHow;
use crate::resource::ResourceName;
use crate::token::Token;
use std::fmt;
use std::sync::Arc;

/// The end of a holder's right to a resource. It is final: a handle that was lost never comes back.
#[derive(Debug, Clone)]
pub struct Lost {
    pub(super) resource: ResourceName,
    pub(super) token: Token,
    pub(super) how: LostHow,
    /// The last failed renewal before it.
    pub(super) cause: Option<Arc<Error>>,
}

/// How a lease was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum LostHow {
    /// No renewal was acknowledged in time. The lease may still live on in the cluster for a moment, and
    /// is released in the background.
    RanOut,
    /// The cluster says how it ended: taken away, superseded, released, expired.
    Ended(EndedHow),
    /// The cluster knows no such grant.
    Unknown,
    /// This process gave it back, or dropped the handle.
    Released,
    /// The runtime that kept it alive has shut down.
    Stopped,
}

impl Lost {
    /// How it was lost.
    #[must_use]
    pub fn how(&self) -> LostHow {
        self.how
    }

    /// What was held.
    #[must_use]
    pub fn resource(&self) -> &ResourceName {
        &self.resource
    }

    /// The token of the grant.
    #[must_use]
    pub fn token(&self) -> Token {
        self.token
    }

    /// Why the last renewal failed, if one did.
    #[must_use]
    pub fn cause(&self) -> Option<&Error> {
        self.cause.as_deref()
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (resource, token) = (&self.resource, self.token);
        write!(f, "{resource} is not held any more (token {token}): ")?;
        match self.how {
            LostHow::RanOut => f.write_str("no renewal was acknowledged in time")?,
            LostHow::Ended(how) => write!(f, "the grant is {how}")?,
            LostHow::Unknown => f.write_str("the cluster knows no such grant")?,
            LostHow::Released => f.write_str("it was given back")?,
            LostHow::Stopped => f.write_str("the runtime that renewed it has shut down")?,
        }
        match &self.cause {
            Some(cause) => write!(f, "; {cause}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Lost {}
