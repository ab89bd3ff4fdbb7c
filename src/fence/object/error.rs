//! What can break between a guard and its object store.

use crate::resource::ResourceName;

use super::{
    super::{file::FileError, frame::Damage},
    VALUE_BYTES_MAX,
};

/// A failure of guarded objects. Refusals are not among them.
///
/// After [`ObjectError::Store`] from a write, the value may have been put, whole and with its mark.
/// Repeating the call with the same sequencer is safe in each case.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// The store failed, or could not be reached.
    #[error("the object store failed: {0}")]
    Store(#[from] object_store::Error),
    /// The store cannot be fenced by conditional puts.
    #[error("{store} cannot fence: {reason}")]
    Unfit {
        /// The store, as it calls itself.
        store: String,
        /// What it lacks, and what to do.
        reason: &'static str,
    },
    /// The object is not what this guard wrote. It stays as it is, and nothing is admitted for its
    /// resource: its mark is unknown, which is not the same as none.
    #[error("object {location} is damaged: {damage}")]
    Damaged {
        /// Where it is.
        location: String,
        /// What is wrong with it.
        damage: Damage,
    },
    /// A prefix or a resource's name makes no location in a store.
    #[error("\"{location}\" cannot be the location of an object: {reason}")]
    Location {
        /// The location, cut to 80 characters.
        location: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The value is longer than an object may hold here.
    #[error("the value for \"{resource}\" has {found} bytes, and the limit is {VALUE_BYTES_MAX}")]
    TooLong {
        /// What it was for.
        resource: ResourceName,
        /// Its length in bytes.
        found: usize,
    },
    /// The lock beside a local directory could not be had; see [`FileError::may_retry`].
    #[error(transparent)]
    Lock(#[from] FileError),
}
