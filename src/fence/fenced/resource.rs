//! The same answers over every store.

use crate::{resource::ResourceName, sequencer::Sequencer};

use super::super::{Foreign, Guard, Mark, Rules, Verdict};
use super::{Applied, ApplyError, ConditionalStore, FoundMark, MarkStore, Update};

/// A store whose values are changed under fencing tokens, and in no other way.
///
/// The check is part of the store's own atomic step, so there is no moment between admission and
/// write at which a newer holder could come and go. What this cannot do is keep others away from
/// the store: whoever writes to it directly is not fenced.
#[derive(Debug, Clone)]
pub struct FencedResource<S> {
    store: S,
    rules: Rules,
}

impl<S: ConditionalStore + Sync> FencedResource<S> {
    /// Fences a store by these rules. Prefer [`Rules::issued_by`].
    #[must_use]
    pub fn new(store: S, rules: Rules) -> Self {
        Self { store, rules }
    }

    /// Carries out the mutation if the sequencer's token may pass the mark of `resource`, and raises
    /// the mark with it; otherwise changes nothing and says why.
    ///
    /// `resource` is what the mutation is about. A sequencer for anything else is foreign, so that a
    /// grant of one resource cannot write another.
    ///
    /// # Errors
    ///
    /// [`ApplyError::Store`] when the store failed: the mutation was carried out or was not, and the
    /// call may be repeated with the same sequencer. With
    /// [`EqualTokens::Once`](super::super::EqualTokens::Once) a repeated call is stale if the first
    /// one got through; read the value to know. [`ApplyError::Unexplained`] when the store updated
    /// nothing and the mark does not say why.
    pub async fn apply(
        &self,
        resource: &ResourceName,
        mutation: &S::Mutation,
        sequencer: &Sequencer,
    ) -> Result<Applied, ApplyError<S::Error>> {
        if let Some(foreign) = self.foreign(resource, sequencer) {
            return Ok(Applied::Foreign(foreign));
        }
        let update = self.update(resource, mutation, sequencer);
        if self.store.conditional_update(&update).await? {
            return Ok(Applied::Accepted);
        }
        self.refusal(resource, sequencer).await
    }

    fn update<'a, M: ?Sized>(
        &self,
        resource: &'a ResourceName,
        mutation: &'a M,
        sequencer: &'a Sequencer,
    ) -> Update<'a, M> {
        Update {
            resource,
            sequencer,
            mutation,
            equal: self.rules.equal(),
        }
    }

    /// What "nothing updated" meant.
    async fn refusal(
        &self,
        resource: &ResourceName,
        sequencer: &Sequencer,
    ) -> Result<Applied, ApplyError<S::Error>> {
        // Reading after the refusal finds its reason: a mark only rises, so one that refused still
        // does. What it says now may be higher than what refused, and is as true an answer.
        let mark = self.store.read_token(resource).await?;
        match self.rules.judge(sequencer, mark.as_ref()) {
            Verdict::Admitted => Err(ApplyError::Unexplained {
                sequencer: Box::new(sequencer.clone()),
                mark: FoundMark(mark),
            }),
            refused => Ok(refused.into()),
        }
    }

    /// Why a sequencer is foreign here whatever the mark is, if it is.
    fn foreign(&self, resource: &ResourceName, sequencer: &Sequencer) -> Option<Foreign> {
        if *resource != sequencer.resource {
            return Some(Foreign::Resource {
                presented: sequencer.resource.clone(),
                expected: resource.clone(),
            });
        }
        self.rules.foreign(sequencer)
    }

    /// The mark of a resource, for monitoring. Nothing may be decided by it.
    ///
    /// # Errors
    ///
    /// When the store failed.
    pub async fn token(&self, resource: &ResourceName) -> Result<Option<Mark>, S::Error> {
        self.store.read_token(resource).await
    }

    /// The store, for reading values.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.store
    }

    /// The rules.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }
}

impl<S: MarkStore + Sync> FencedResource<S> {
    /// Raises the mark and leaves the value as it is: the first step of whoever reads a value,
    /// computes the next one and writes that. From here on no older holder can write in between.
    ///
    /// # Errors
    ///
    /// As [`FencedResource::apply`].
    pub async fn raise(
        &self,
        resource: &ResourceName,
        sequencer: &Sequencer,
    ) -> Result<Applied, ApplyError<S::Error>> {
        if let Some(foreign) = self.foreign(resource, sequencer) {
            return Ok(Applied::Foreign(foreign));
        }
        let update = self.update(resource, &(), sequencer);
        if self.store.raise(&update).await? {
            return Ok(Applied::Accepted);
        }
        self.refusal(resource, sequencer).await
    }
}

/// The marks of a store are a guard, for what is kept elsewhere.
impl<S: MarkStore + Sync> Guard for FencedResource<S> {
    type Error = ApplyError<S::Error>;

    async fn admit(&self, sequencer: &Sequencer) -> Result<Verdict, Self::Error> {
        let raised = self.raise(&sequencer.resource, sequencer).await?;
        Ok(raised.into())
    }

    async fn high_water(&self, resource: &ResourceName) -> Result<Option<Mark>, Self::Error> {
        Ok(self.token(resource).await?)
    }
}
