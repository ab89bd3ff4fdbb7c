//! The narrow trait between Raft and the disk.
//!
//! Every write is handed over with a [`Completion`] and returns at once. Completions are called
//! from the storage thread, in the order in which the writes were handed over, each only after
//! everything it stands for is durable. They must be short: the next group commit waits for them.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{oneshot, watch};

use super::{Entry, Identity, LogId, LogState, Ready, ReadyError, StoreError, StoredVote};

/// Called once a write is durable, or with the error that ended the store.
pub type Completion = Box<dyn FnOnce(Result<(), StoreError>) + Send + 'static>;

/// Durable home of one node's Raft log, vote and snapshot.
///
/// A failure is final. After the first [`StoreError`] that the disk caused, no write is
/// acknowledged any more, every completion gets that error, and [`Store::failure`] shows it, so
/// that the node can exit. A restart recovers everything that was acknowledged.
pub trait Store: Send + Sync + 'static {
    /// Where the log begins and ends, writes that are not durable yet included.
    fn log_state(&self) -> LogState;

    /// Appends consecutive entries. They can be read when this returns, and are durable when
    /// `done` is called. The first must follow the last one; terms must not fall; each payload
    /// is at most [`ENTRY_BYTES_MAX`](super::ENTRY_BYTES_MAX). Otherwise `done` gets
    /// [`StoreError::invalid`] and nothing is appended.
    fn append(&self, entries: Vec<Entry>, done: Completion);

    /// Reads the entries of `range` that exist, in order and without a hole, stopping once the
    /// payloads together pass `bytes_max` (at least one entry is returned if there is one). The
    /// newest entries come from memory. Never waits for the storage thread or a flush.
    fn read(&self, range: Range<u64>, bytes_max: usize) -> Result<Vec<Entry>, StoreError>;

    /// The newest vote handed over.
    fn vote(&self) -> Option<StoredVote>;

    /// Makes a vote durable, on the disk and in the watermark.
    fn save_vote(&self, vote: StoredVote, done: Completion);

    /// Removes every entry after `last`; `None` removes all of them. Durable before any later
    /// append is.
    fn truncate_after(&self, last: Option<LogId>, done: Completion);

    /// Removes every entry up to and including `upto`, which may lie beyond the last entry: the
    /// log then is empty and goes on behind `upto`.
    fn purge(&self, upto: LogId, done: Completion);

    /// The newest committed id that was handed over.
    fn committed(&self) -> Option<LogId>;

    /// Notes how far the log is committed. A hint for the next start: it costs no flush of its
    /// own and becomes durable with the next write that does, at the latest after a second.
    fn save_committed(&self, committed: Option<LogId>);

    /// The snapshot that a reader gets now.
    fn snapshot(&self) -> Option<SnapshotManifest>;

    /// Writes a snapshot in small slices between appends, then makes it the current one and
    /// removes the one before. `done` is called when it is durable and current.
    ///
    /// A snapshot that ends before the current one is not written, and counts as done: a node that
    /// builds one while its leader sends a newer one hands both over, in either order, and the log
    /// may be purged up to the newer one by then.
    fn save_snapshot(&self, snapshot: NewSnapshot, done: Completion);

    /// Opens the current snapshot for reading, piece by piece.
    fn read_snapshot(&self) -> Result<Option<SnapshotReader>, StoreError>;

    /// Who this node is.
    fn identity(&self) -> Identity;

    /// Binds this node to a cluster for good; durable when it returns. Saying the same again
    /// changes nothing; another cluster is refused. Waits for the disk.
    fn make_ready(&self, ready: Ready) -> Result<(), ReadyError>;

    /// How many times this directory was opened, this time included. Rises by one a start.
    fn boots(&self) -> u64;

    /// The error that ended the store, once there is one.
    fn failure(&self) -> watch::Receiver<Option<StoreError>>;

    /// Whether free space is below the floor, so that no new grant should be accepted.
    fn space_low(&self) -> bool;
}

/// A snapshot to be saved. Its content is opaque to the store.
#[derive(Debug, Clone)]
pub struct NewSnapshot {
    /// The last log entry that the snapshot contains; `None` for one of an empty log.
    pub last: Option<LogId>,
    /// What the caller needs beside the content (membership, name), at most
    /// [`SNAPSHOT_META_BYTES_MAX`](super::SNAPSHOT_META_BYTES_MAX).
    pub meta: Bytes,
    /// The content, in as many pieces as the caller likes; piece borders are not kept.
    pub pieces: Vec<Bytes>,
}

impl NewSnapshot {
    pub(super) fn check(&self) -> Result<(), String> {
        let (bytes, allowed) = (self.meta.len(), super::SNAPSHOT_META_BYTES_MAX);
        if bytes <= allowed {
            return Ok(());
        }
        Err(format!(
            "{bytes} bytes beside a snapshot, {allowed} are allowed"
        ))
    }
}

/// What is known about a saved snapshot without reading its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotManifest {
    /// Rises with every snapshot saved on this node.
    pub number: u64,
    /// The last log entry that the snapshot contains.
    pub last: Option<LogId>,
    /// What the caller gave along.
    pub meta: Bytes,
    /// Content in bytes.
    pub bytes: u64,
}

/// Reads the content of one snapshot in order, in pieces of up to 64 KiB.
///
/// A snapshot saved meanwhile removes the one being read; the reader then ends with
/// [`Failure::Superseded`](super::Failure::Superseded), which is final for the reader only.
pub struct SnapshotReader {
    /// What is being read.
    pub manifest: SnapshotManifest,
    pub(super) pieces: Box<dyn Iterator<Item = Result<Bytes, StoreError>> + Send>,
}

impl SnapshotReader {
    /// Reads all of it into one buffer.
    pub fn read_all(self) -> Result<Vec<u8>, StoreError> {
        let mut content = Vec::new();
        for piece in self {
            content.extend_from_slice(&piece?);
        }
        Ok(content)
    }
}

impl Iterator for SnapshotReader {
    type Item = Result<Bytes, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.pieces.next()
    }
}

impl std::fmt::Debug for SnapshotReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SnapshotReader")
            .field("manifest", &self.manifest)
            .finish_non_exhaustive()
    }
}

/// A completion together with something to wait on.
#[must_use]
pub fn completion() -> (Completion, Completed) {
    let (sender, receiver) = oneshot::channel();
    // A waiter that went away does not want the answer.
    let done: Completion = Box::new(move |result| drop(sender.send(result)));
    (done, Completed(receiver))
}

/// The waiting end of [`completion`].
#[derive(Debug)]
pub struct Completed(oneshot::Receiver<Result<(), StoreError>>);

impl Completed {
    /// Waits in async code.
    pub async fn done(self) -> Result<(), StoreError> {
        self.0.await.unwrap_or_else(|_| Err(StoreError::closed()))
    }

    /// Waits in a plain thread. Panics inside an async runtime's own threads, as any blocking
    /// receive of tokio does.
    pub fn wait(self) -> Result<(), StoreError> {
        self.0
            .blocking_recv()
            .unwrap_or_else(|_| Err(StoreError::closed()))
    }
}

/// Told by the storage thread what it did, so that the node can make metrics of it. Calls must
/// be cheap and must not block.
pub trait StoreObserver: Send + Sync {
    /// One group commit became durable.
    fn committed(&self, _group: &GroupCommit) {}

    /// The watermark was made durable on its own, which took so long.
    fn watermark_synced(&self, _took: std::time::Duration) {}

    /// Space as it is now, looked at about once a second.
    fn space(&self, _space: &Space) {}
}

/// One group commit, as told to a [`StoreObserver`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupCommit {
    /// From the start of the flush to its end: the fdatasync and sled's own work.
    pub flush: std::time::Duration,
    /// Writes of any kind in the group.
    pub writes: usize,
    /// Log entries in the group.
    pub entries: usize,
    /// Payload bytes of those entries.
    pub bytes: usize,
}

/// Space, as told to a [`StoreObserver`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Space {
    /// Bytes of the database file.
    pub used_bytes: u64,
    /// Bytes that an unprivileged process may still write on this file system.
    pub free_bytes: u64,
    /// Whether `free_bytes` is below the floor.
    pub low: bool,
}

/// Watches nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unobserved;

impl StoreObserver for Unobserved {}

/// A store behind a pointer, as the layers above hold it.
pub type SharedStore = Arc<dyn Store>;
