//! `IDENTITY`: who this node is, and whether it belongs to a cluster yet.
//!
//! A small text file, so that an operator can read it: one `key value` pair a line, closed by a
//! checksum over all lines before. It is replaced as a whole: written beside, fsynced, renamed,
//! directory fsynced. It knows two states. A *forming* node has an instance id and nothing else;
//! it has never voted and may start over. A *ready* node belongs to one cluster for ever.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A random 128-bit id, written as 32 hexadecimal digits.
macro_rules! hex_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; 16]);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl FromStr for $name {
            type Err = NotAnId;

            fn from_str(text: &str) -> Result<Self, NotAnId> {
                parse_hex(text).map(Self)
            }
        }
    };
}

hex_id! {
    /// Names one cluster. Made once, by the founding node; a restore makes a new one.
    ClusterId
}

hex_id! {
    /// Names one data directory. Made when it is created, so that a wiped node cannot pass for
    /// the one that it was.
    InstanceId
}

/// The text is not 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("not an id of 32 hexadecimal digits")]
pub struct NotAnId;

fn parse_hex(text: &str) -> Result<[u8; 16], NotAnId> {
    let digits = text.as_bytes();
    if digits.len() != 32 {
        return Err(NotAnId);
    }
    let mut id = [0; 16];
    for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16).ok_or(NotAnId)?;
        let low = char::from(pair[1]).to_digit(16).ok_or(NotAnId)?;
        *byte = u8::try_from(high * 16 + low).map_err(|_| NotAnId)?;
    }
    Ok(id)
}

/// Who this node is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Raft node id, at least 1, never used again once removed.
    pub node_id: u64,
    /// This data directory.
    pub instance: InstanceId,
    /// Whether it belongs to a cluster.
    pub membership: Membership,
}

/// Whether a node belongs to a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Membership {
    /// Not yet: it has never voted nor stored an entry, and may start over.
    Forming,
    /// For good.
    Ready(Ready),
}

impl Identity {
    /// What binds this node to its cluster, once it is bound.
    #[must_use]
    pub fn ready(&self) -> Option<&Ready> {
        match &self.membership {
            Membership::Forming => None,
            Membership::Ready(ready) => Some(ready),
        }
    }
}

/// The cluster that a node belongs to, and how it came to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// The cluster.
    pub cluster: ClusterId,
    /// On the node that founded the cluster: the nodes it founded it with, itself included. It
    /// is durable before the log is initialized, so that a founder that crashed in between does
    /// the same again. Empty on every other node.
    pub founders: Vec<Founder>,
}

/// One node of the founding list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Founder {
    /// Raft node id.
    pub node_id: u64,
    /// Data directory it answered with when it was asked.
    pub instance: InstanceId,
    /// Where its peers reach it.
    pub address: String,
}

/// Why a node could not be bound to a cluster.
#[derive(Debug, Error)]
pub enum ReadyError {
    /// It belongs to another one.
    #[error(
        "this node belongs to cluster {ours} and cannot become part of cluster {theirs}; join \
         that cluster with an empty data directory and a new node id"
    )]
    OtherCluster {
        /// The cluster it belongs to.
        ours: ClusterId,
        /// The cluster that was asked for.
        theirs: ClusterId,
    },
    /// It was bound to this cluster with another founding list.
    #[error("this node was bound to cluster {cluster} before, with another founding list")]
    OtherFounders {
        /// The cluster.
        cluster: ClusterId,
    },
    /// An address holds a line break.
    #[error("the address of node {node_id} in the founding list holds a control character")]
    BadAddress {
        /// Whose address.
        node_id: u64,
    },
    /// The disk failed.
    #[error(transparent)]
    Store(#[from] super::StoreError),
}
