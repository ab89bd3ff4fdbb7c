//! The sequencer of the work at hand, carried along without the code in between knowing.
//!
//! A holder does its work inside [`scope`]. Whatever sends requests on its behalf, however deep
//! below, asks [`current`] and sends the sequencer along; the layers of the `http` module beside this
//! one do so at both ends of a hop, so that a token goes from service to service until it reaches the
//! resource.
//!
//! ```
//! use fencepost::fence::context;
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! let sequencer: fencepost::sequencer::Sequencer = "prod:accounts/1:65537".parse()?;
//! context::scope(sequencer.clone(), async {
//!     assert_eq!(context::current().as_ref(), Some(&sequencer));
//!     // A task of its own has a context of its own: take this one along.
//!     let spawned = tokio::spawn(context::carried(async { context::current() }));
//!     assert_eq!(spawned.await?.as_ref(), Some(&sequencer));
//!     Ok(())
//! })
//! .await
//! # })
//! # .map_err(|error: Box<dyn std::error::Error>| error)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The context belongs to a *task*: tasks and threads that are started from it begin without one.
//! [`carried`] takes it into a spawned task, [`sync_scope`] into a blocking closure. Where it is lost,
//! nothing is sent, and a guard refuses for want of a token: a loss shows, and does no harm.
//!
//! The context is no permission. It says under which grant the work is done, and the grant may be
//! over; only the guard at the resource knows.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::task::futures::TaskLocalFuture;

use crate::sequencer::Sequencer;

tokio::task_local! {
    /// `None` inside [`apart`], which hides what is around it.
    static CURRENT: Option<Sequencer>;
}

/// The sequencer of the innermost scope around the caller, if there is one.
#[must_use]
pub fn current() -> Option<Sequencer> {
    CURRENT.try_with(Clone::clone).unwrap_or_default()
}

/// Runs a future under a grant: inside, [`current`] is this sequencer. Scopes nest, and the
/// innermost counts.
pub fn scope<F: Future>(sequencer: Sequencer, work: F) -> Scoped<F> {
    Scoped::new(Some(sequencer), work)
}

/// Runs a future under the grant of the caller, if any, wherever the future is polled later: to hand
/// it to `tokio::spawn`, a `JoinSet`, or a queue of work.
pub fn carried<F: Future>(work: F) -> Scoped<F> {
    Scoped::new(current(), work)
}

/// Runs a future under no grant, for calls that are nobody's business but the program's own: metrics,
/// a health check, a service of somebody else that should learn no resource names.
pub fn apart<F: Future>(work: F) -> Scoped<F> {
    Scoped::new(None, work)
}

/// Runs a closure under a grant: for `spawn_blocking`, threads, and code that is not async.
///
/// ```
/// # use fencepost::fence::context;
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let sequencer = context::current();
/// let found = tokio::task::spawn_blocking(move || context::sync_scope(sequencer, context::current)).await?;
/// # let _ = found;
/// # Ok(())
/// # }
/// ```
pub fn sync_scope<T>(sequencer: Option<Sequencer>, work: impl FnOnce() -> T) -> T {
    CURRENT.sync_scope(sequencer, work)
}

/// A future that runs in a context of its own; made by [`scope`], [`carried`] and [`apart`].
#[must_use = "futures do nothing unless they are awaited"]
pub struct Scoped<F> {
    // Boxed, so that this type is `Unpin` and needs no projection.
    inner: Pin<Box<TaskLocalFuture<Option<Sequencer>, F>>>,
}

impl<F: Future> Scoped<F> {
    fn new(sequencer: Option<Sequencer>, work: F) -> Self {
        Self {
            inner: Box::pin(CURRENT.scope(sequencer, work)),
        }
    }
}

impl<F: Future> Future for Scoped<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        self.inner.as_mut().poll(cx)
    }
}

impl<F> std::fmt::Debug for Scoped<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scoped").finish_non_exhaustive()
    }
}
