//! Why a node does not start, or ends by itself. Each says what to do.

use std::{io, net::SocketAddr, path::PathBuf};

use crate::server::{
    config::ConfigErrors,
    raft::{FatalError, FatalKind},
    store::{Failure, OpenError, StoreError},
};

/// Why a node does not start, or ends by itself.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// A setting is wrong; nothing was written.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// A port is busy, or an address is not this machine's.
    #[error("cannot listen on {address} (--{setting}): {source}; {}", remedy(.source, .setting))]
    Bind {
        /// Which setting.
        setting: &'static str,
        /// What it says.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The data directory was not opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The disk failed, or was full.
    #[error("{0}; a restart recovers all that was acknowledged")]
    Storage(StoreError),
    /// Raft ended, or refused to begin.
    #[error(transparent)]
    Raft(#[from] FatalError),
    /// The audit log was not opened.
    #[error("the audit log {path} cannot be opened for appending: {source}")]
    Audit {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A port that was bound failed.
    #[error("serving the {port} port failed: {why}")]
    Serve {
        /// Which one.
        port: &'static str,
        /// What happened.
        why: String,
    },
}

fn remedy(source: &io::Error, setting: &str) -> String {
    match source.kind() {
        io::ErrorKind::AddrInUse => format!(
            "another process has that port, perhaps this node already runs: stop it, or give \
             --{setting} another port"
        ),
        io::ErrorKind::AddrNotAvailable => {
            format!(
                "no network interface of this machine has that address: give --{setting} one that does"
            )
        }
        io::ErrorKind::PermissionDenied => {
            format!("this user may not use that port: give --{setting} one above 1023")
        }
        _ => format!("give --{setting} another address"),
    }
}

/// What kind of end it is: decides the exit code of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndKind {
    /// A setting is wrong.
    Configuration,
    /// Wrong cluster, node or directory.
    Identity,
    /// The data directory lost something, or the disk failed.
    StorageDamaged,
    /// No space.
    DiskFull,
    /// Raft or the state machine stopped itself.
    RaftFatal,
    /// A port is busy.
    AddressInUse,
    /// Anything else.
    Unexpected,
}

impl NodeError {
    /// What kind of end it is.
    #[must_use]
    pub fn kind(&self) -> EndKind {
        match self {
            NodeError::Config(_) | NodeError::Audit { .. } => EndKind::Configuration,
            NodeError::Bind { .. } => EndKind::AddressInUse,
            NodeError::Open(error) => match error {
                OpenError::Busy { .. }
                | OpenError::OtherNode { .. }
                | OpenError::OtherCluster { .. } => EndKind::Identity,
                OpenError::Damaged(_) | OpenError::FlushNotDurable { .. } => {
                    EndKind::StorageDamaged
                }
                OpenError::DiskFull { .. } => EndKind::DiskFull,
                // Mostly a path that this user may not write: nothing was lost.
                OpenError::Io { .. } => EndKind::Configuration,
            },
            NodeError::Storage(error) if error.kind == Failure::DiskFull => EndKind::DiskFull,
            NodeError::Storage(_) => EndKind::StorageDamaged,
            NodeError::Raft(fatal) => match fatal.kind {
                FatalKind::Identity => EndKind::Identity,
                FatalKind::StorageDamaged => EndKind::StorageDamaged,
                FatalKind::DiskFull => EndKind::DiskFull,
                FatalKind::Raft => EndKind::RaftFatal,
            },
            NodeError::Serve { .. } => EndKind::Unexpected,
        }
    }
}
