//! Raft: the only home of openraft. The rest of the server sees a [`RaftNode`] and the words below.
//!
//! # How a grant becomes durable
//!
//! [`RaftNode::propose`] encodes a command once. openraft appends it to the log, which is a [`Store`]
//! on this node, and the network carries the same bytes to the followers. When a quorum has them on
//! disk the entry is committed; every node applies it to its [`Replica`], and the leader answers.
//!
//! # What keeps a cluster one
//!
//! A node has an id, and its data directory a random instance id; the membership knows both. Each call
//! between nodes says who calls whom in which cluster, and is checked before openraft sees it: `network`
//! tells how. A cluster is founded once, by one node, after all nodes of its founding list answered that
//! they are blank: `forming` tells how. Node ids are never used again.
//!
//! # Elections
//!
//! Pre-votes keep a node that returns from deposing a healthy leader. A leader that lost its quorum
//! falls silent. A leader whose *process* is gone is noticed by its closed connections: `vigil` tells
//! how, and why that is safe. Reads ask a quorum each time (`reads`): no lease is ever trusted.
//!
//! # What is left out
//!
//! Encryption and authentication between nodes. Witnesses. Changing a member's address: remove the node
//! and add it under a new id. The memory against stale copies of a data directory lives in the peers'
//! processes only, so a copy that is started after all peers restarted is not noticed by it.
//!
//! [`Store`]: crate::server::store::Store
//! [`Replica`]: crate::issuer::Replica

mod admission;
mod change;
mod config;
mod encoding;
mod error;
mod fate;
mod forming;
mod forward;
mod introduction;
mod log;
mod machine;
mod member;
mod network;
mod node;
mod reach;
mod reads;
mod settings;
mod sink;
mod snapshot;
mod status;
mod touch;
mod types;
mod vigil;
mod vouch;
mod watch;

pub use config::{
    Bootstrap, Clock, FoundingList, FoundingListError, RaftConfig, SnapshotPolicy, Timing,
};
pub use error::{
    ChangeError, FatalError, FatalKind, ForwardError, ForwardStatus, ProposeError, ReadError,
};
pub use forward::{ForwardHandler, Forwarded};
pub use machine::StateView;
pub use member::{Member, NodeRecord, Roster, Standing};
pub use node::{Committed, Handlers, RaftNode};
pub use sink::{AppliedSink, Record, RecordKind};
pub use status::{LeaderHint, Leadership, MemberStatus, Role, Status};
pub use touch::Touch;
pub use vouch::{Attached, VouchError, VouchHandler};

/// The adapters between openraft and ours, for openraft's own conformance suite. Nothing else names
/// them.
#[doc(hidden)]
pub mod adapter {
    pub use super::{
        log::LogStore,
        machine::{StateMachine, StateMachineParts},
        types::{Proposal, Reply, Types},
    };
}

use machine::{StateMachine, StateMachineParts};
