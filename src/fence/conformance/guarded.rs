//! Any [`Guard`] as a subject: it keeps marks, and no values.

use std::future::Future;

use crate::{fence::Guard, resource::ResourceName};

use super::{Answer, Contents, Fault, Handle, Place, Profile, Steps, Subject, Write};

/// A [`Guard`] by itself, before a resource that the kit does not see.
///
/// Only its verdicts and marks are judged. Where the write should be in the same atomic step, hold
/// guard and resource to the promise together, as a [`Subject`] of one's own.
#[derive(Debug)]
pub struct Guards<M, O> {
    profile: Profile,
    make: M,
    open: O,
}

/// Where the marks of a [`Guards`] are.
#[derive(Debug)]
pub struct GuardPlace<P, O> {
    place: P,
    open: O,
}

/// One process's guard.
#[derive(Debug)]
pub struct GuardHandle<G>(G);

impl<M, O> Guards<M, O> {
    /// `make` makes a fresh place for marks, such as an empty database, and `open` a guard over it,
    /// as each process has one. A guard in memory is its own place: make an `Arc` of it, and hand
    /// the same one out.
    pub fn new(profile: Profile, make: M, open: O) -> Self {
        Self {
            profile: profile.without_values(),
            make,
            open,
        }
    }
}

impl<P, G, M, MF, O, OF> Subject for Guards<M, O>
where
    P: Clone + Send + Sync,
    G: Guard + Send + Sync + 'static,
    M: Fn() -> MF,
    MF: Future<Output = Result<P, Fault>> + Send,
    O: Fn(P) -> OF + Clone + Send + Sync,
    OF: Future<Output = Result<G, Fault>> + Send,
{
    type Place = GuardPlace<P, O>;

    fn profile(&self) -> Profile {
        self.profile.clone()
    }

    fn place(&self) -> impl Future<Output = Result<Self::Place, Fault>> + Send {
        let (made, open) = ((self.make)(), self.open.clone());
        async move {
            Ok(GuardPlace {
                place: made.await?,
                open,
            })
        }
    }
}

impl<P, G, O, OF> Place for GuardPlace<P, O>
where
    P: Clone + Send + Sync,
    G: Guard + Send + Sync + 'static,
    O: Fn(P) -> OF + Send + Sync,
    OF: Future<Output = Result<G, Fault>> + Send,
{
    type Handle = GuardHandle<G>;

    async fn open(&self) -> Result<GuardHandle<G>, Fault> {
        (self.open)(self.place.clone()).await.map(GuardHandle)
    }
}

impl<G: Guard + Send + Sync + 'static> Handle for GuardHandle<G> {
    async fn write(&mut self, write: &Write, _: &mut Steps) -> Result<Answer, Fault> {
        let Some(sequencer) = write.sequencer() else {
            return Ok(Answer::Invalid);
        };
        Ok(self.0.admit(&sequencer).await?.into())
    }

    async fn read(&mut self, resource: &ResourceName) -> Result<Contents, Fault> {
        let mark = self.0.high_water(resource).await?;
        Ok(Contents {
            value: None,
            mark: mark.map(|mark| mark.token),
        })
    }
}
