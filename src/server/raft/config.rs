//! What a Raft node is told when it starts.

use std::{
    collections::BTreeMap,
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use thiserror::Error;

use crate::{grant::ClusterId, resource::IssuerName};

/// Reads this node's monotonic clock. An argument, so that nothing here reads a clock by itself.
pub type Clock = Arc<dyn Fn() -> Instant + Send + Sync>;

/// What a Raft node is told when it starts. Its id and its data directory's identity come with the
/// store.
#[derive(Clone)]
pub struct RaftConfig {
    /// The configured name of who issues; the same on every node of a cluster.
    pub issuer: IssuerName,
    /// Where the other nodes reach this one, `host:port`.
    pub peer_address: String,
    /// Where clients reach this one, `host:port`.
    pub client_address: String,
    /// The id of the cluster that this node founds, if it does: 128 random bits, drawn anew at each
    /// start.
    pub new_cluster: ClusterId,
    /// A number drawn at random for this process. It tells a data directory that was started once more
    /// from a stale copy of it that was.
    pub life: u64,
    /// How it comes to its cluster, if its data directory does not say.
    pub bootstrap: Bootstrap,
    /// Heartbeats and elections.
    pub timing: Timing,
    /// When the log is folded into a snapshot.
    pub snapshots: SnapshotPolicy,
    /// How many proposals may be under way before further ones are refused. Those that end or keep
    /// grants are never refused.
    pub in_flight_max: usize,
    /// This node's monotonic clock, for the lease clock.
    pub clock: Clock,
}

/// How a node that belongs to no cluster yet comes to one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Bootstrap {
    /// It founds one together with the others of this list.
    Found(FoundingList),
    /// It waits until a running cluster adds it, and never founds.
    Join,
}

/// The nodes that found a cluster, by id, with their peer addresses: one, three or five.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundingList(BTreeMap<u64, String>);

impl FoundingList {
    /// Checks the number of nodes and their ids.
    pub fn new(nodes: BTreeMap<u64, String>) -> Result<Self, FoundingListError> {
        if nodes.contains_key(&0) {
            return Err(FoundingListError::NodeZero);
        }
        match nodes.len() {
            1 | 3 | 5 => Ok(Self(nodes)),
            0 => Err(FoundingListError::Empty),
            2 => Err(FoundingListError::Two),
            4 => Err(FoundingListError::Four),
            count => Err(FoundingListError::TooMany { count }),
        }
    }

    /// The nodes, by id.
    #[must_use]
    pub fn nodes(&self) -> &BTreeMap<u64, String> {
        &self.0
    }

    /// The one that makes the cluster's id, once all others have answered.
    #[must_use]
    pub fn founder(&self) -> u64 {
        *self
            .0
            .keys()
            .next()
            .expect("a founding list is never empty")
    }
}

impl fmt::Display for FoundingList {
    /// As it is written in the configuration: `1=host:port,2=host:port,3=host:port`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (id, address)) in self.0.iter().enumerate() {
            let comma = if n == 0 { "" } else { "," };
            write!(f, "{comma}{id}={address}")?;
        }
        Ok(())
    }
}

/// Why a list of nodes cannot found a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum FoundingListError {
    /// Nobody.
    #[error("the founding list is empty: name three or five nodes, or one for an experiment")]
    Empty,
    /// Node id 0 stands for `none` on the wire.
    #[error("0 is not a node id: ids begin with 1")]
    NodeZero,
    /// A quorum of two is both of them.
    #[error(
        "two nodes cannot found a cluster: both would have to be up for anything to happen, so two \
         fail more often than one; name three nodes, or one for an experiment"
    )]
    Two,
    /// A quorum of four is three, as it is with one node fewer failing.
    #[error(
        "four nodes cannot found a cluster: they survive the loss of one node, just as three do, and \
         there is one more that can fail; name three or five"
    )]
    Four,
    /// Each write goes to all of them.
    #[error(
        "{count} nodes cannot found a cluster: five survive the loss of two, and every further node \
         only makes each grant wait for more disks; name three or five"
    )]
    TooMany {
        /// How many were named.
        count: usize,
    },
}

/// Heartbeats and elections. A follower stands for election `election_max` plus between
/// `election_min` and `election_max` after the leader's last sign of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// How often the leader shows that it is alive.
    pub heartbeat: Duration,
    /// The shortest wait of a follower beyond the leader's lease.
    pub election_min: Duration,
    /// The longest, and how long the leader's lease is.
    pub election_max: Duration,
}

impl Default for Timing {
    /// What a local network and a disk that syncs in milliseconds stand without false elections.
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(50),
            election_min: Duration::from_millis(150),
            election_max: Duration::from_millis(350),
        }
    }
}

/// When the log is folded into a snapshot: whichever comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotPolicy {
    /// So many entries since the last one.
    pub entries: u64,
    /// So many bytes of payload since the last one. A state larger than this waits until the log has
    /// grown by as much as the state, so that a snapshot never costs more than the log it replaces.
    pub bytes: u64,
}

impl Default for SnapshotPolicy {
    fn default() -> Self {
        Self {
            entries: 50_000,
            bytes: 16 << 20,
        }
    }
}
