//! Storage of one node: its Raft log, vote and snapshot in sled, and who it is.

mod contract;
mod entry;
mod error;
mod identity;

pub use contract::{
    Completed, Completion, GroupCommit, NewSnapshot, SharedStore, SnapshotManifest, SnapshotReader,
    Space, Store, StoreObserver, Unobserved, completion,
};
pub use entry::{Entry, LogId, LogState, StoredVote};
pub use error::{Damage, Failure, OpenError, StoreError};
pub use identity::{ClusterId, Founder, Identity, InstanceId, Membership, Ready, ReadyError};

/// Payload of one entry, in bytes. Commands are held far below it before they are proposed; what
/// may come near are memberships.
pub const ENTRY_BYTES_MAX: usize = 64 * 1024;

/// Bytes that a caller may keep beside the content of a snapshot.
pub const SNAPSHOT_META_BYTES_MAX: usize = 64 * 1024;
