//! A guard under watch.

use std::sync::Arc;

use crate::{resource::ResourceName, sequencer::Sequencer};

use super::{Mode, Watch};
use crate::fence::{Guard, Mark, Unjudged, Verdict};

/// A [`Guard`] or a [`FencedResource`](crate::fence::fenced::FencedResource), and the watch that sees
/// what it answers.
#[derive(Debug, Clone)]
pub struct Watched<G> {
    pub(super) inner: G,
    pub(super) watch: Arc<Watch>,
}

impl<G> Watched<G> {
    /// Puts a guard under watch.
    #[must_use]
    pub fn new(inner: G, watch: Arc<Watch>) -> Self {
        Self { inner, watch }
    }

    /// The watch.
    #[must_use]
    pub fn watch(&self) -> &Arc<Watch> {
        &self.watch
    }

    /// The guard, past the watch.
    #[must_use]
    pub fn inner(&self) -> &G {
        &self.inner
    }
}

impl<G: Guard + Sync> Guard for Watched<G> {
    type Error = G::Error;

    /// As the guard says, while it enforces. While it observes, everything is admitted, also when the
    /// guard failed; the mark is raised by what the rules admit, and by nothing else.
    async fn admit(&self, sequencer: &Sequencer) -> Result<Verdict, G::Error> {
        let verdict = match self.inner.admit(sequencer).await {
            Ok(verdict) => verdict,
            Err(error) if self.watch.mode() == Mode::Observe => {
                self.watch.failed_unheard(sequencer, &error);
                return Ok(Verdict::Admitted);
            }
            Err(error) => {
                self.watch.failed();
                return Err(error);
            }
        };
        let mode = match &verdict {
            Verdict::Admitted => {
                self.watch.admitted(sequencer);
                return Ok(verdict);
            }
            Verdict::Stale { required, .. } => self.watch.stale(sequencer, *required),
            Verdict::Foreign(foreign) => self.watch.foreign(sequencer, foreign),
        };
        Ok(match mode {
            Mode::Observe => Verdict::Admitted,
            Mode::Enforce => verdict,
        })
    }

    async fn high_water(&self, resource: &ResourceName) -> Result<Option<Mark>, G::Error> {
        self.inner.high_water(resource).await
    }

    fn overlooks(&self, why: &Unjudged) -> bool {
        // Both are asked: each may count.
        let inner = self.inner.overlooks(why);
        self.watch.overlooks(why) || inner
    }
}
