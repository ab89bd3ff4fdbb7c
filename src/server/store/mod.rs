//! Storage of one node: its Raft log, vote and snapshot in sled, and who it is.
//!
//! Raft's safety rests on three sentences about a disk: a vote is never forgotten, an acknowledged
//! entry is never forgotten, and a node that did forget never takes part again. sled 0.34.7 keeps
//! none of them by itself, so this module is mostly about what stands around it.
//!
//! - A flush reaches the disk because `sync_interpose` turns sled's `sync_file_range` into
//!   `fdatasync`, and a self-test at each start refuses to run if it did not.
//! - Values stay small (`run`, `trees`), because large ones become files that sled never syncs.
//! - Every record carries a checksum over its key and content; a start reads them all (`scan`).
//! - A second witness, `WATERMARK`, knows how far it all went, so that a database that opens short
//!   or empty is noticed (`watermark`). `IDENTITY` knows whose it is and that it is not new
//!   (`identity`).
//! - A panic of the engine becomes an error (`quiet`), and the first error is the last: nothing is
//!   acknowledged any more, the node exits, and a restart recovers all that was acknowledged.
//!
//! Writing goes through one thread (`writer`), which turns everything that waits into one flush
//! and packs consecutive entries into records of 4 KiB (`run`): one record an entry costs 12-14 us
//! of CPU on each node, ten times the packed price. Reading goes through a window of the newest
//! entries in memory (`window`), so that neither appends nor replication wait for it.
//!
//! What it does not do: it does not protect against a disk that lies about fdatasync on a majority
//! of the nodes. A copy of a whole older directory carries its old watermark along and looks
//! healthy here; the peers are the ones who may notice. After a power cut, damage that takes away
//! no more than the last second may go unnoticed (see `watermark`). It runs on Linux only.

mod contract;
mod disk;
mod entry;
mod error;
mod files;
mod identity;
mod memory;
mod open;
mod queue;
mod quiet;
mod reader;
mod run;
mod saver;
mod scan;
mod shared;
mod sync_interpose;
mod trees;
mod watermark;
mod window;
mod writer;

pub use contract::{
    Completed, Completion, GroupCommit, NewSnapshot, SharedStore, SnapshotManifest, SnapshotReader,
    Space, Store, StoreObserver, Unobserved, completion,
};
pub use disk::DiskStore;
pub use entry::{Entry, LogId, LogState, StoredVote};
pub use error::{Addition, Damage, Failure, OpenError, Replacement, StoreError};
pub use identity::{ClusterId, Founder, Identity, InstanceId, Membership, Ready, ReadyError};
pub use memory::{MemoryDisk, MemoryStore};
pub use open::{Options, Recovered};

/// Payload of one entry, in bytes. Commands are held far below it before they are proposed; what
/// may come near are memberships.
pub const ENTRY_BYTES_MAX: usize = 64 * 1024;

/// Bytes that a caller may keep beside the content of a snapshot.
pub const SNAPSHOT_META_BYTES_MAX: usize = 64 * 1024;
