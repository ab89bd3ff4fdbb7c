//! Stores that know one condition only: nothing changed since it was read.

use std::{error::Error, future::Future, time::Duration};

use crate::resource::ResourceName;

use super::super::Mark;
use super::{ConditionalStore, Update};

/// How often [`CompareAndSwap`] reads and tries to write before it gives up, unless told otherwise.
/// Each failed attempt means that somebody else's write got through. Holders take turns, so that
/// more than a few in a row is a resource that many write to without a grant of their own.
pub const SWAP_ATTEMPTS_MAX: u32 = 32;

/// The longest pause between two attempts.
const PAUSE_MS_MAX: u64 = 100;

/// A store with compare-and-swap: put this, if the version is still the one that I read.
///
/// An `ETag` with `If-Match`, a revision, a document's version field, a file's generation. Versions
/// must be unique for each write: one that can come back after other writes (a timestamp of coarse
/// grain, a hash of the value without its mark) lets a stale writer through.
pub trait VersionedStore {
    /// What can be done to a value. It may be carried out more than once on the way to one accepted
    /// write, each time on what was read anew.
    type Mutation: ?Sized + Sync;
    /// What a read learns for the write that follows: the version, and with it the value, where a
    /// mutation starts from the value.
    type Version: Send + Sync;
    /// What can break. A version that moved is not an error.
    type Error: Error + Send + Sync + 'static;

    /// Reads mark and version together, as of one moment. `None` if there is nothing at all.
    ///
    /// # Errors
    ///
    /// When the store failed, and when what it keeps there is no mark.
    fn read(
        &self,
        resource: &ResourceName,
    ) -> impl Future<Output = Result<Option<Versioned<Self::Version>>, Self::Error>> + Send;

    /// Writes the mutated value and the mark, both or neither, if the version is still the expected
    /// one, or, expecting none, if there is still nothing. False: it was not, and nothing was changed.
    ///
    /// A client below that repeats requests by itself may carry out a write and report the repeated
    /// one, which finds a moved version. The loop then sees its own token as the mark, and where
    /// equal tokens may write again it writes once more: let mutations say what the value becomes
    /// and not by how much it changes, or turn such repeating off.
    ///
    /// # Errors
    ///
    /// When the store failed; it was written or was not, never halfway.
    fn put_if_version(
        &self,
        put: &Put<'_, Self::Mutation, Self::Version>,
    ) -> impl Future<Output = Result<bool, Self::Error>> + Send;
}

/// What is there now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versioned<V> {
    /// The mark; `None` for a value that has never been written under a token.
    pub mark: Option<Mark>,
    /// What [`Put::expected`] gives back.
    pub version: V,
}

/// One attempt to write.
#[derive(Debug)]
pub struct Put<'a, M: ?Sized, V> {
    /// What is to be changed.
    pub resource: &'a ResourceName,
    /// The change.
    pub mutation: &'a M,
    /// The mark to be stored with it.
    pub mark: &'a Mark,
    /// What was read, or `None` if nothing was there.
    pub expected: Option<&'a V>,
}

/// Makes a [`ConditionalStore`] out of a [`VersionedStore`]: read, judge, write if unchanged, and all
/// over again if not, a bounded number of times.
#[derive(Debug, Clone)]
pub struct CompareAndSwap<S> {
    store: S,
    attempts_max: u32,
}

/// What [`CompareAndSwap`] can fail with.
#[derive(Debug, thiserror::Error)]
pub enum SwapError<E: Error + 'static> {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] E),
    /// Each attempt found that another write had got in between. Nothing of this call was written;
    /// it may be made again.
    #[error(
        "resource \"{resource}\" was changed by others during each of {attempts} attempts to write it; try again"
    )]
    Contended {
        /// The resource.
        resource: ResourceName,
        /// How often it was tried.
        attempts: u32,
    },
}

impl<S> CompareAndSwap<S> {
    /// Wraps a store.
    #[must_use]
    pub fn new(store: S) -> Self {
        Self {
            store,
            attempts_max: SWAP_ATTEMPTS_MAX,
        }
    }

    /// Sets how often one update is tried, at least once; [`SWAP_ATTEMPTS_MAX`] unless set.
    #[must_use]
    pub fn attempts_max(mut self, attempts_max: u32) -> Self {
        self.attempts_max = attempts_max.max(1);
        self
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &S {
        &self.store
    }
}

impl<S: VersionedStore + Sync> ConditionalStore for CompareAndSwap<S> {
    type Mutation = S::Mutation;
    type Error = SwapError<S::Error>;

    async fn conditional_update(
        &self,
        update: &Update<'_, S::Mutation>,
    ) -> Result<bool, Self::Error> {
        let mark = update.mark();
        for attempt in 0..self.attempts_max {
            // Even a sleep of nothing waits for the timer's next millisecond.
            if let Some(pause) = pause(attempt) {
                tokio::time::sleep(pause).await;
            }
            let read = self.store.read(update.resource).await?;
            if !update.passes(read.as_ref().and_then(|read| read.mark.as_ref())) {
                return Ok(false);
            }
            let put = Put {
                resource: update.resource,
                mutation: update.mutation,
                mark: &mark,
                expected: read.as_ref().map(|read| &read.version),
            };
            if self.store.put_if_version(&put).await? {
                return Ok(true);
            }
        }
        Err(SwapError::Contended {
            resource: update.resource.clone(),
            attempts: self.attempts_max,
        })
    }

    async fn read_token(&self, resource: &ResourceName) -> Result<Option<Mark>, Self::Error> {
        let read = self.store.read(resource).await?;
        Ok(read.and_then(|read| read.mark))
    }
}

/// None before the first two attempts, then twice as long each time. Those that collide drift apart
/// by themselves, since each round lets one of them through.
fn pause(attempt: u32) -> Option<Duration> {
    match attempt {
        0 | 1 => None,
        _ => Some(Duration::from_millis(
            (1 << attempt.min(7)).min(PAUSE_MS_MAX),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit() {
        let pauses = [0, 1, 2, 3, 6, 7, 40].map(|attempt| pause(attempt).map(|p| p.as_millis()));
        let grown = [4, 8, 64, 100, 100].map(Some);
        assert_eq!(pauses[..2], [None, None]);
        assert_eq!(pauses[2..], grown);
    }
}
