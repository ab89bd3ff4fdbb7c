//! What can go wrong: errors of a running store, and refusals to open one.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use thiserror::Error;

/// An error of a running store. Where [`StoreError::is_final`] says so, the store never works again
/// in this process.
#[derive(Debug, Clone, Error)]
#[error("{kind}: {what}")]
pub struct StoreError {
    /// What kind of failure, which decides the exit code of the node.
    pub kind: Failure,
    what: Arc<str>,
}

/// Kinds of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Failure {
    /// No space or quota left. A restart with space recovers all that was acknowledged.
    #[error("the disk is full")]
    DiskFull,
    /// Something that was written is not there any more, or is not what was written.
    #[error("the storage is damaged")]
    Damaged,
    /// The disk or the database failed in some other way.
    #[error("the storage failed")]
    Io,
    /// The store was closed.
    #[error("the storage is closed")]
    Closed,
    /// The caller broke the contract: a hole, a falling term, an entry over its limit. Nothing
    /// was written, and the store works on.
    #[error("refused to write")]
    Invalid,
    /// The snapshot being read was replaced by a newer one. Only the reader ends.
    #[error("the snapshot was superseded")]
    Superseded,
}

impl StoreError {
    /// The caller broke the contract.
    #[must_use]
    pub fn invalid(what: impl Into<Arc<str>>) -> Self {
        Self {
            kind: Failure::Invalid,
            what: what.into(),
        }
    }

    /// Whether it ends the store, and not only the call that got it.
    #[must_use]
    pub fn is_final(&self) -> bool {
        !matches!(
            self.kind,
            Failure::Invalid | Failure::Superseded | Failure::Closed
        )
    }

    /// Stored bytes are not what was written.
    #[must_use]
    pub fn damaged(what: impl Into<Arc<str>>) -> Self {
        Self {
            kind: Failure::Damaged,
            what: what.into(),
        }
    }

    pub(super) fn closed() -> Self {
        Self {
            kind: Failure::Closed,
            what: "no more writes are taken".into(),
        }
    }

    pub(super) fn superseded(number: u64) -> Self {
        let what = format!("snapshot {number} was replaced while it was being read");
        Self {
            kind: Failure::Superseded,
            what: what.into(),
        }
    }

    pub(super) fn io(doing: &str, error: &io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Failure::DiskFull,
            _ => Failure::Io,
        };
        Self {
            kind,
            what: format!("{doing}: {error}").into(),
        }
    }

    pub(super) fn sled(doing: &str, error: &sled::Error) -> Self {
        match error {
            sled::Error::Io(error) => Self::io(doing, error),
            sled::Error::Corruption { .. } => {
                // Its own words are for those who know its code.
                tracing::warn!(doing, %error, "the database engine found damage");
                Self::damaged(format!(
                    "{doing}: bytes in the database are not what was written"
                ))
            }
            other => Self {
                kind: Failure::Io,
                what: format!("{doing}: {other}").into(),
            },
        }
    }

    pub(super) fn panicked(doing: &str, message: &str) -> Self {
        let what = format!("{doing}: the database engine gave up: {message}");
        Self {
            kind: Failure::Io,
            what: what.into(),
        }
    }
}

/// Why a data directory was not opened. Each says what to do about it.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another process has the directory open.
    #[error(
        "the data directory {dir} is in use by another process{}; stop that one first, or give \
         this node a directory of its own",
        pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default()
    )]
    Busy {
        /// The directory.
        dir: PathBuf,
        /// Who said to have it, if the lock file told.
        pid: Option<u32>,
    },
    /// The directory belongs to another node.
    #[error(
        "the data directory {dir} belongs to node {found}, but this node was started as node \
         {expected}; give node {expected} its own directory, or start this one with node id {found}"
    )]
    OtherNode {
        /// The directory.
        dir: PathBuf,
        /// Node id in the directory.
        found: u64,
        /// Node id asked for.
        expected: u64,
    },
    /// The directory belongs to another cluster.
    #[error(
        "the data directory {dir} belongs to cluster {found}, but cluster {expected} was asked \
         for; use the data directory of that cluster, or an empty one to join it as a new node"
    )]
    OtherCluster {
        /// The directory.
        dir: PathBuf,
        /// Cluster in the directory.
        found: super::ClusterId,
        /// Cluster asked for.
        expected: super::ClusterId,
    },
    /// The directory lost or changed something that this node had promised to keep.
    #[error(transparent)]
    Damaged(#[from] Damage),
    /// A flush of the database does not reach the disk in this build or on this system.
    #[error(
        "a flush of the database did not go through fdatasync ({detail}); this build cannot keep \
         what it acknowledges over a power cut and refuses to run. Use a binary in which \
         fencepost's own `sync_file_range` is linked (the released ones are tested for it)"
    )]
    FlushNotDurable {
        /// What the self-test saw.
        detail: String,
    },
    /// No space left. What was acknowledged is still there.
    #[error(
        "no space left for the data directory {dir}: {source}; free some space and start the \
         node again, nothing that was acknowledged is lost"
    )]
    DiskFull {
        /// The directory.
        dir: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The system refused access to a file.
    #[error("cannot {doing} {path}: {source}")]
    Io {
        /// What was tried.
        doing: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl OpenError {
    pub(super) fn io(doing: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        let path = path.into();
        match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::DiskFull { dir: path, source }
            }
            _ => Self::Io {
                doing,
                path,
                source,
            },
        }
    }
}

/// How a node is replaced whose directory cannot be trusted any more: one sentence with the whole
/// commands, the same for every reason. What is in capitals is the reader's to fill in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Replacement(pub u64);

impl fmt::Display for Replacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Replace it: on a machine that reaches the cluster run `fencepost cluster remove-node \
             {}`; {Addition}",
            self.0
        )
    }
}

/// The second half of a [`Replacement`]: how a node comes in under a new id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addition;

impl fmt::Display for Addition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "start a node with an id that was never used, with addresses and an empty directory of \
             its own, and otherwise the settings that this one had, without `peers`: `fencepost serve --node-id NEW-ID --data-dir NEW-DIR --join`; \
             then run `fencepost cluster add-node NEW-ID HOST:PORT`, with its peer address, and \
             `fencepost cluster promote NEW-ID`.",
        )
    }
}

/// Damage found in a data directory: what it is, and what to do.
///
/// A node that forgot something must not come back under its old id: it may have voted, or have
/// been the one whose disk made a write durable. So the remedy is always a new id and an empty
/// directory; the other nodes have the data.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("the data directory {dir} is damaged: {what}. {remedy}")]
pub struct Damage {
    /// The directory.
    pub dir: PathBuf,
    /// What is missing or wrong.
    pub what: String,
    /// What the operator should do, with the node id filled in.
    pub remedy: String,
}

impl Damage {
    pub(super) fn new(dir: impl Into<PathBuf>, node_id: u64, what: impl Into<String>) -> Self {
        let remedy = format!(
            "Do not delete it and start again under the same id: this node may have promised \
             something that it now forgot. {} Keep the damaged directory until that is done",
            Replacement(node_id)
        );
        Self {
            dir: dir.into(),
            what: what.into(),
            remedy,
        }
    }
}
