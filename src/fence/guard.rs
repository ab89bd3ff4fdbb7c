//! The guard: the check at the resource, and the words in which it answers.
//!
//! A fencing token protects nothing until the resource itself refuses old ones. A guard keeps, for
//! each resource, the *high-water mark*: the highest token that it has admitted. [`Guard::admit`]
//! compares and raises that mark in one atomic step, so that once token `t` was admitted for a
//! resource, nothing with a lower token is admitted there again, whatever its holder believes about
//! the time (Kleppmann, "How to do distributed locking", 2016; Burrows, "The Chubby lock service",
//! OSDI 2006, section 2.4).
//!
//! What a guard cannot do by itself: an `admit` at the door, with the write some time later, leaves
//! a gap in which a newer holder can come and go. The write must be part of the same atomic step as
//! the check. For SQL that is what the `sql` module beside this one gives: the row carries its own
//! mark, or the mark is locked in the caller's transaction until it commits.
//!
//! The rules that all guards share (which issuer, which resource, what an equal token may do) are
//! plain data and plain functions in [`Rules`](super::Rules); a guard adds only where the mark lives
//! and how it is raised atomically.

use std::{error::Error, future::Future, sync::Arc};

use crate::{
    resource::{IssuerName, ResourceName},
    sequencer::{OtherScope, Sequencer},
    token::TokenValue,
};

/// The check at the resource.
///
/// Implementations promise: `admit` is atomic with respect to every other `admit` on the same
/// marks, also from other processes where the marks are shared; an [`Admitted`](Verdict::Admitted)
/// has raised the mark, durably where the store is durable; any other verdict, and any error, has
/// changed nothing, save that an error whose `admit` may have been carried out leaves the mark
/// where it was or at the presented token. Both are safe: marks only rise.
pub trait Guard {
    /// What can break. Refusals are not errors, they are [`Verdict`]s.
    type Error: Error + Send + Sync + 'static;

    /// Admits the sequencer and raises the mark of its resource, or says why not.
    ///
    /// # Errors
    ///
    /// When the store of the marks failed. The caller must not write then: an unknown mark is no
    /// permission. Calling again with the same sequencer is always safe.
    fn admit(
        &self,
        sequencer: &Sequencer,
    ) -> impl Future<Output = Result<Verdict, Self::Error>> + Send;

    /// The highest token admitted for `resource` so far, for monitoring and for tests.
    ///
    /// Nothing may be decided by it: between reading a mark and writing, it can rise.
    ///
    /// # Errors
    ///
    /// When the store of the marks failed.
    fn high_water(
        &self,
        resource: &ResourceName,
    ) -> impl Future<Output = Result<Option<Mark>, Self::Error>> + Send;

    /// Told of a request that was turned away before there was anything to admit; true lets it go on
    /// all the same. Whoever takes requests in asks this, once for each of them.
    ///
    /// A guard that protects says no, as this default does. One that merely observes counts the
    /// request and lets it pass.
    fn overlooks(&self, why: &Unjudged) -> bool {
        let _ = why;
        false
    }
}

/// A shared guard is the guard.
impl<G: Guard + Send + Sync> Guard for Arc<G> {
    type Error = G::Error;

    async fn admit(&self, sequencer: &Sequencer) -> Result<Verdict, G::Error> {
        G::admit(self, sequencer).await
    }

    async fn high_water(&self, resource: &ResourceName) -> Result<Option<Mark>, G::Error> {
        G::high_water(self, resource).await
    }

    fn overlooks(&self, why: &Unjudged) -> bool {
        G::overlooks(self, why)
    }
}

/// Why a request never came to be judged by its token.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unjudged {
    /// It needs a token, and carries none.
    Missing,
    /// What it carries cannot be read, or lacks an issuer that is insisted on.
    Invalid,
    /// The token is for something else than what the request is about.
    Foreign(Foreign),
}

/// The answer of a guard to one sequencer.
#[must_use = "a write must not go on unless the guard admitted it"]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Go on: the mark is now at the presented token.
    Admitted,
    /// A newer holder has been here. Nothing was changed, and no retry will help; the holder has
    /// lost its lease and needs a new grant.
    Stale {
        /// The token that was presented.
        presented: TokenValue,
        /// The lowest token that would have been admitted.
        required: TokenValue,
    },
    /// The sequencer belongs elsewhere. Its token was not compared, since tokens of different
    /// issuers or resources say nothing about each other.
    Foreign(Foreign),
}

impl Verdict {
    /// Turns a refusal into an error, for `?`.
    ///
    /// # Errors
    ///
    /// A [`Refusal`] for everything but [`Verdict::Admitted`].
    pub fn admitted(self) -> Result<(), Refusal> {
        match self {
            Self::Admitted => Ok(()),
            Self::Stale {
                presented,
                required,
            } => Err(Refusal::Stale {
                presented,
                required,
            }),
            Self::Foreign(foreign) => Err(Refusal::Foreign(foreign)),
        }
    }
}

/// A verdict that was not `Admitted`, as an error value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// See [`Verdict::Stale`].
    #[error("stale fencing token: presented {presented}, required at least {required}")]
    Stale {
        /// The token that was presented.
        presented: TokenValue,
        /// The lowest token that would have been admitted.
        required: TokenValue,
    },
    /// See [`Verdict::Foreign`].
    #[error("foreign fencing token: {0}")]
    Foreign(#[from] Foreign),
}

/// Why a sequencer does not belong to this guard.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Foreign {
    /// It names another issuer than the one whose tokens are compared here.
    #[error("issued by \"{presented}\", but this resource is fenced by \"{expected}\"")]
    Issuer {
        /// The issuer that the sequencer names.
        presented: IssuerName,
        /// The issuer that the guard was told, or whose token it admitted first.
        expected: IssuerName,
    },
    /// It is for another resource than the one that this guard, or this row, stands before.
    #[error("for resource \"{presented}\", but \"{expected}\" is what is protected here")]
    Resource {
        /// The resource that the sequencer names.
        presented: ResourceName,
        /// The resource that is protected.
        expected: ResourceName,
    },
    /// The message that carries it says itself that the token is for something else.
    #[error(transparent)]
    Scope(#[from] OtherScope),
}

/// A high-water mark: the highest token that was admitted, and whose it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// Who issued it.
    pub issuer: IssuerName,
    /// The highest token admitted.
    pub token: TokenValue,
}
