//! Values in an object store (S3, GCS, Azure, and what speaks like them), by conditional put.
//!
//! Each resource has one object, which holds the value behind a line of text with the mark
//! (`fence::frame`; the file guard's files look the same). A write reads the line and the object's
//! version, judges, and puts value and mark together on the condition that the version is unchanged
//! (`If-Match`, or a generation), or that there is still nothing (`If-None-Match: *`). So they change in
//! one step or not at all.
//!
//! Why the mark is inside the object and not beside it in metadata, where it would be out of the way:
//! an S3 `ETag` is a hash of the *bytes*. Had a newer holder written the same bytes with a higher mark in
//! the metadata, the `ETag` would be unchanged, and a stale writer's `If-Match` would succeed.
//!
//! Readers skip the first line: [`GuardedObjects::read`], or `tail -n +2`. An object that does not begin
//! with such a line is damage and not "no mark": start with an empty prefix, and write what is there
//! already under a token of its own.
//!
//! What the stores of the crate `object_store` can do:
//!
//! | store | condition | use |
//! |---|---|---|
//! | `AmazonS3`, also R2, MinIO and Ceph | `ETag`; unless built with `S3ConditionalPut::Disabled` | [`GuardedObjects::open`] |
//! | `GoogleCloudStorage` | generation | [`GuardedObjects::open`] |
//! | `MicrosoftAzure` | `ETag` | [`GuardedObjects::open`] |
//! | `InMemory` | `ETag` | [`GuardedObjects::open`], for tests |
//! | `LocalFileSystem` | none: it answers `NotImplemented` | [`GuardedObjects::local`], for development and one machine: under a lock |
//! | `HttpStore` (WebDAV) | none for an update | refused by [`GuardedObjects::open`] |
//!
//! A store that accepts the condition's header and *ignores* it would let everybody through. Some older
//! S3-compatible servers do. So [`GuardedObjects::open`] tries the store out, and refuses one that writes
//! where it must not. What it cannot see: a cache or proxy that answers reads with old objects makes a
//! write fail and be tried again, and never lets a stale one through.
//!
//! Lifecycle rules that delete or expire objects delete marks with them; so does a rollback of a bucket.

mod error;
mod location;
mod probe;
mod unchanged;
mod under_lock;

use std::sync::Arc;

use bytes::Bytes;
use object_store::{ObjectStore, path::Path};

use crate::resource::ResourceName;

use super::{
    Mark,
    fenced::{CompareAndSwap, ConditionalStore, MarkStore, SwapError, Update},
    frame::Line,
};
use unchanged::{IfUnchanged, New};

pub use super::frame::Damage;
pub use error::ObjectError;

/// The most bytes of one value, 64 MiB: each is put as a whole, from memory, in one request.
pub const VALUE_BYTES_MAX: usize = 64 << 20;

/// Fenced values in an object store: a [`ConditionalStore`] whose mutation is the new value.
///
/// Cloning shares it. Any number of processes may use one prefix.
#[derive(Debug, Clone)]
pub struct GuardedObjects {
    objects: Objects,
    swap: Swap,
}

/// How an object is replaced only if nothing came in between.
#[derive(Debug, Clone)]
enum Swap {
    /// The store takes the condition.
    Conditional(CompareAndSwap<IfUnchanged>),
    /// A lock on this machine keeps everybody else out meanwhile.
    Locked(under_lock::UnderLock),
}

impl GuardedObjects {
    /// Uses the objects below `prefix`, which may be empty, and tries out whether the store keeps to the
    /// conditions of a put. For that it keeps one small object of its own, `.fencepost/probe`, there.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Unfit`] for a store that lacks conditional puts or ignores them,
    /// [`ObjectError::Store`] when it failed, [`ObjectError::Location`] for an odd prefix.
    pub async fn open(store: Arc<dyn ObjectStore>, prefix: &str) -> Result<Self, ObjectError> {
        let objects = Objects::below(store, prefix)?;
        probe::conditional_puts(&objects).await?;
        let swap = CompareAndSwap::new(IfUnchanged::new(objects.clone()));
        Ok(Self {
            objects,
            swap: Swap::Conditional(swap),
        })
    }

    /// Uses a directory through `LocalFileSystem`, which cannot put conditionally: a lock in
    /// `.fencepost` below it keeps the steps of a write together instead. So it is right for
    /// processes of one machine that all come this way, and wrong for a network file system.
    /// Writes are synced to disk.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Lock`] when the directory cannot be made or written.
    pub fn local(directory: impl AsRef<std::path::Path>) -> Result<Self, ObjectError> {
        let (store, lock) = under_lock::open(directory.as_ref())?;
        let objects = Objects::below(store, "")?;
        let swap = under_lock::UnderLock::new(objects.clone(), lock);
        Ok(Self {
            objects,
            swap: Swap::Locked(swap),
        })
    }

    /// The value of a resource and the mark under which it was written, as of one moment.
    ///
    /// # Errors
    ///
    /// [`ObjectError::Store`], and [`ObjectError::Damaged`] for an object that holds no such value.
    pub async fn read(
        &self,
        resource: &ResourceName,
    ) -> Result<Option<(Bytes, Mark)>, ObjectError> {
        let found = self.objects.value(resource).await?;
        Ok(found.map(|(value, mark, _)| (value, mark)))
    }
}

impl GuardedObjects {
    async fn replace<M: ?Sized + Sync>(
        &self,
        update: &Update<'_, M>,
        new: New,
    ) -> Result<bool, SwapError<ObjectError>> {
        let update = Update {
            resource: update.resource,
            sequencer: update.sequencer,
            mutation: &new,
            equal: update.equal,
        };
        match &self.swap {
            Swap::Conditional(swap) => swap.conditional_update(&update).await,
            Swap::Locked(locked) => Ok(locked.update(&update).await?),
        }
    }
}

impl ConditionalStore for GuardedObjects {
    type Mutation = [u8];
    type Error = SwapError<ObjectError>;

    async fn conditional_update(&self, update: &Update<'_, [u8]>) -> Result<bool, Self::Error> {
        if update.mutation.len() > VALUE_BYTES_MAX {
            let resource = update.resource.clone();
            let found = update.mutation.len();
            return Err(ObjectError::TooLong { resource, found }.into());
        }
        let value = Bytes::copy_from_slice(update.mutation);
        self.replace(update, New::Value(value)).await
    }

    async fn read_token(&self, resource: &ResourceName) -> Result<Option<Mark>, Self::Error> {
        let head = self.objects.head(resource).await?;
        Ok(head.map(|(line, _)| line.mark()))
    }
}

impl MarkStore for GuardedObjects {
    /// A resource that has no value yet gets an empty one.
    async fn raise(&self, update: &Update<'_, ()>) -> Result<bool, Self::Error> {
        self.replace(update, New::Same).await
    }
}

/// A store, and where in it the values are.
#[derive(Debug, Clone)]
struct Objects {
    store: Arc<dyn ObjectStore>,
    prefix: Path,
}

/// The line of an object, and the object's version.
type Head = (Line, object_store::UpdateVersion);
