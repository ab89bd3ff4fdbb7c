//! A local directory, whose store knows no condition: a lock instead.
//!
//! The lock must outlast the write, whatever becomes of the caller. `LocalFileSystem` writes in a
//! blocking thread of the runtime it is called in, and such a thread goes on to its rename when the
//! future is dropped, and when the runtime is shut down. A lock that lived in the future, or in a task of
//! the caller's runtime, would be given back by then, and the value would land after a newer holder's. So
//! the lock belongs to a thread of the write's own, with a runtime of its own, which is waited for.

use std::{path::Path, sync::Arc, thread};

use bytes::Bytes;
use object_store::{Error, ObjectStore, ObjectStoreExt as _, local::LocalFileSystem};
use tokio::{runtime, sync::oneshot};

use super::{
    ObjectError, Objects,
    unchanged::{New, payload},
};
use crate::fence::{
    fenced::Update,
    file::{Turn, Turns},
};

/// Objects of which one is written at a time, by all processes that take the lock.
#[derive(Debug, Clone)]
pub(super) struct UnderLock {
    objects: Objects,
    turns: Turns,
}

/// The store of a directory, and its locks.
pub(super) fn open(directory: &Path) -> Result<(Arc<dyn ObjectStore>, Turns), ObjectError> {
    let turns = Turns::prepare(directory)?;
    let store = LocalFileSystem::new_with_prefix(directory)?.with_fsync(true);
    Ok((Arc::new(store), turns))
}

impl UnderLock {
    pub(super) fn new(objects: Objects, turns: Turns) -> Self {
        Self { objects, turns }
    }

    /// Reads, judges and puts while nobody else does.
    pub(super) async fn update(&self, update: &Update<'_, New>) -> Result<bool, ObjectError> {
        let turn = self.turns.take(update.resource).await?;
        let objects = self.objects.clone();
        let (sequencer, equal) = (update.sequencer.clone(), update.equal);
        let new = update.mutation.clone();
        let write = async move {
            let update = Update {
                resource: &sequencer.resource,
                sequencer: &sequencer,
                mutation: &new,
                equal,
            };
            under_the_turn(&objects, &update).await
        };
        let (answer, answered) = oneshot::channel();
        // Who has no turn starts no thread, so that there are never more of them than locks.
        let started = thread::Builder::new()
            .name("fencepost-put".to_owned())
            // Nobody may be left to take the answer. The write has ended all the same.
            .spawn(move || drop(answer.send(to_its_end(turn, write))));
        started.map_err(|error| broken(error.into()))?;
        match answered.await {
            Ok(done) => done,
            Err(_) => Err(broken("the thread that wrote has panicked".into())),
        }
    }
}

/// Runs a write and gives the turn back only when nothing of it is under way any more.
fn to_its_end(
    turn: Turn,
    write: impl Future<Output = Result<bool, ObjectError>>,
) -> Result<bool, ObjectError> {
    // Dropped last, also in a panic: after the runtime, whose drop waits for its blocking threads.
    let _turn = turn;
    let runtime = runtime::Builder::new_current_thread().build();
    let runtime = runtime.map_err(|error| broken(error.into()))?;
    runtime.block_on(write)
}

/// A failure around the store, which is none of its own.
fn broken(source: Box<dyn std::error::Error + Send + Sync>) -> ObjectError {
    let store = "LocalFileSystem";
    ObjectError::Store(Error::Generic { store, source })
}

/// One write, while nobody else writes.
async fn under_the_turn(objects: &Objects, update: &Update<'_, New>) -> Result<bool, ObjectError> {
    let head = objects.head(update.resource).await?;
    let mark = head.map(|(line, _)| line.mark());
    if !update.passes(mark.as_ref()) {
        return Ok(false);
    }
    let value = match update.mutation {
        New::Value(value) => value.clone(),
        New::Same => match objects.value(update.resource).await? {
            Some((value, ..)) => value,
            None => Bytes::new(),
        },
    };
    let location = objects.location(update.resource)?;
    let payload = payload(update.resource, &update.mark(), value);
    objects.store.put(&location, payload).await?;
    Ok(true)
}
