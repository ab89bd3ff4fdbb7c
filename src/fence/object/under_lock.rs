//! A local directory, whose store knows no condition: a lock instead.

use std::{path::Path, sync::Arc};

use bytes::Bytes;
use object_store::{ObjectStore, ObjectStoreExt as _, local::LocalFileSystem};

use super::{
    ObjectError, Objects,
    unchanged::{New, payload},
};
use crate::fence::{fenced::Update, file::Turns};

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
        // A task of its own, which keeps the turn to its end: were this future dropped halfway, the
        // put would go on in the store's thread, after somebody else's turn has begun.
        let work = tokio::spawn(async move {
            let _turn = turn;
            let update = Update {
                resource: &sequencer.resource,
                sequencer: &sequencer,
                mutation: &new,
                equal,
            };
            under_the_turn(&objects, &update).await
        });
        match work.await {
            Ok(done) => done,
            Err(error) => Err(ObjectError::Store(object_store::Error::JoinError {
                source: error,
            })),
        }
    }
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
