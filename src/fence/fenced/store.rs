//! The one thing that a store must be able to do.

use std::{error::Error, future::Future};

use crate::{resource::ResourceName, sequencer::Sequencer};

use super::super::{EqualTokens, Mark, Rules, Verdict};

/// A store that changes a value and its mark together, on a condition on the mark.
///
/// Implementations promise that [`conditional_update`](Self::conditional_update) is one atomic step
/// with respect to every other one on that resource, whichever process it comes from, and durable
/// once it returned true, where the store is durable. A mark is never lowered, never expires, and
/// is deleted with no value: a value that is gone for a while keeps its mark.
pub trait ConditionalStore {
    /// What can be done to a value: a new value, a change of a field, a statement.
    type Mutation: ?Sized + Sync;
    /// What can break. Refusals are not errors.
    type Error: Error + Send + Sync + 'static;

    /// Carries out the mutation and sets the mark to [`Update::mark`], both or neither, if the mark
    /// lets the sequencer pass at that moment. True: it did. False: nothing was changed.
    ///
    /// # Errors
    ///
    /// When the store failed. The update may then have been carried out or not, but never halfway.
    fn conditional_update(
        &self,
        update: &Update<'_, Self::Mutation>,
    ) -> impl Future<Output = Result<bool, Self::Error>> + Send;

    /// The mark of a resource, `None` if nothing was ever admitted there. It must see every update
    /// that was answered before it was asked: no replica that lags, no cache.
    ///
    /// # Errors
    ///
    /// When the store failed, and when what it keeps there is no mark: damage is not "no mark".
    fn read_token(
        &self,
        resource: &ResourceName,
    ) -> impl Future<Output = Result<Option<Mark>, Self::Error>> + Send;
}

/// A store that can raise a mark and leave the value as it is.
///
/// Behind a [`FencedResource`](super::FencedResource) it is a [`Guard`](super::super::Guard), and whoever
/// computes the new value from the old one can do it safely: raise the mark, then read, then write.
pub trait MarkStore: ConditionalStore {
    /// [`ConditionalStore::conditional_update`] of the mark alone.
    ///
    /// # Errors
    ///
    /// As there.
    fn raise(
        &self,
        update: &Update<'_, ()>,
    ) -> impl Future<Output = Result<bool, Self::Error>> + Send;
}

/// One conditional update: what to do, where, and under which token.
#[derive(Debug)]
pub struct Update<'a, M: ?Sized> {
    /// What is to be changed. Equal to the sequencer's resource.
    pub resource: &'a ResourceName,
    /// Under which grant.
    pub sequencer: &'a Sequencer,
    /// The change.
    pub mutation: &'a M,
    /// What a token equal to the mark may do.
    pub equal: EqualTokens,
}

impl<M: ?Sized> Update<'_, M> {
    /// The condition, for stores that have the mark in hand within their atomic step: no mark, or one
    /// of the same issuer that the token may pass.
    #[must_use]
    pub fn passes(&self, mark: Option<&Mark>) -> bool {
        let rules = Rules::default().equal_tokens(self.equal);
        rules.judge(self.sequencer, mark) == Verdict::Admitted
    }

    /// The mark as it is to be stored along with the change.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark {
            issuer: self.sequencer.issuer.clone(),
            token: self.sequencer.token,
        }
    }
}

/// A store may be shared.
impl<S: ConditionalStore + Sync + ?Sized> ConditionalStore for &S {
    type Mutation = S::Mutation;
    type Error = S::Error;

    async fn conditional_update(
        &self,
        update: &Update<'_, Self::Mutation>,
    ) -> Result<bool, Self::Error> {
        (**self).conditional_update(update).await
    }

    async fn read_token(&self, resource: &ResourceName) -> Result<Option<Mark>, Self::Error> {
        (**self).read_token(resource).await
    }
}

/// A store may be shared.
impl<S: MarkStore + Sync + ?Sized> MarkStore for &S {
    async fn raise(&self, update: &Update<'_, ()>) -> Result<bool, Self::Error> {
        (**self).raise(update).await
    }
}

/// A store may be shared between tasks.
impl<S: MarkStore + Send + Sync + ?Sized> MarkStore for std::sync::Arc<S> {
    async fn raise(&self, update: &Update<'_, ()>) -> Result<bool, Self::Error> {
        (**self).raise(update).await
    }
}

/// A store may be shared between tasks.
impl<S: ConditionalStore + Send + Sync + ?Sized> ConditionalStore for std::sync::Arc<S> {
    type Mutation = S::Mutation;
    type Error = S::Error;

    async fn conditional_update(
        &self,
        update: &Update<'_, Self::Mutation>,
    ) -> Result<bool, Self::Error> {
        (**self).conditional_update(update).await
    }

    async fn read_token(&self, resource: &ResourceName) -> Result<Option<Mark>, Self::Error> {
        (**self).read_token(resource).await
    }
}
