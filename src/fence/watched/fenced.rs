//! A fenced resource under watch.

use crate::{resource::ResourceName, sequencer::Sequencer, token::TokenValue};

use super::{Mode, Watched};
use crate::fence::{
    EqualTokens, Mark,
    fenced::{Applied, ApplyError, ConditionalStore, FencedResource, FoundMark, Update},
};

/// Tries to write under a mark that others keep raising meanwhile.
const ATTEMPTS_MAX: u32 = 32;

impl<S: ConditionalStore + Sync> Watched<FencedResource<S>> {
    /// As [`FencedResource::apply`], while it enforces. While it observes, a mutation that the rules
    /// refuse is carried out all the same, under the mark that is there, which stays where it is.
    ///
    /// # Errors
    ///
    /// As [`FencedResource::apply`], in both modes: a store that failed has written nothing that could
    /// be overlooked.
    pub async fn apply(
        &self,
        resource: &ResourceName,
        mutation: &S::Mutation,
        sequencer: &Sequencer,
    ) -> Result<Applied, ApplyError<S::Error>> {
        let applied = self.inner.apply(resource, mutation, sequencer).await;
        let mode = match &applied {
            Ok(Applied::Accepted) => {
                self.watch.admitted(sequencer);
                return applied;
            }
            Ok(Applied::Stale { required, .. }) => self.watch.stale(sequencer, *required),
            Ok(Applied::Foreign(foreign)) => self.watch.foreign(sequencer, foreign),
            Err(_) => {
                self.watch.failed();
                return applied;
            }
        };
        if mode == Mode::Enforce {
            return applied;
        }
        let written = self.under_the_mark(resource, mutation, sequencer).await;
        written.inspect_err(|_| self.watch.failed())
    }

    /// Writes as whoever set the mark might write again, so that the mark neither rises nor falls.
    async fn under_the_mark(
        &self,
        resource: &ResourceName,
        mutation: &S::Mutation,
        refused: &Sequencer,
    ) -> Result<Applied, ApplyError<S::Error>> {
        let mut found = None;
        for _ in 0..ATTEMPTS_MAX {
            found = self.inner.token(resource).await?;
            let mark = found.clone().unwrap_or_else(|| self.lowest(refused));
            let update = Update {
                resource,
                sequencer: &Sequencer {
                    issuer: mark.issuer,
                    resource: resource.clone(),
                    token: mark.token,
                },
                mutation,
                equal: EqualTokens::MayWriteAgain,
            };
            if self.inner.store().conditional_update(&update).await? {
                return Ok(Applied::Accepted);
            }
            // A newer holder came in between.
        }
        Err(ApplyError::Unexplained {
            sequencer: Box::new(refused.clone()),
            mark: FoundMark(found),
        })
    }

    /// The lowest mark that there is, for a foreign mutation of a resource that has none: it stands in
    /// nobody's way, and holds the resource to the rightful issuer.
    fn lowest(&self, refused: &Sequencer) -> Mark {
        let rightful = self.inner.rules().issuer();
        Mark {
            issuer: rightful.unwrap_or(&refused.issuer).clone(),
            token: TokenValue::MIN,
        }
    }
}
