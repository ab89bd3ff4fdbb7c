//! What a node knows about itself and its cluster.

use std::time::Duration;

use super::NodeRecord;
use crate::{grant::ClusterId, issuer::LogId, server::store::InstanceId};

/// What a node does in its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Belongs to no cluster yet, or has not heard of its members.
    Forming,
    /// Receives the log and has no vote.
    Learner,
    /// Follows a leader, or waits for one.
    Follower,
    /// Stands for election.
    Candidate,
    /// Leads.
    Leader,
}

impl Role {
    /// The word for logs, metrics and people.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Forming => "forming",
            Self::Learner => "learner",
            Self::Follower => "follower",
            Self::Candidate => "candidate",
            Self::Leader => "leader",
        }
    }
}

/// Where the leader is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderHint {
    /// Its node id.
    pub node_id: u64,
    /// Where nodes reach it; empty if the membership does not say.
    pub peer_address: String,
    /// Where clients reach it; empty if the membership does not say.
    pub client_address: String,
}

impl LeaderHint {
    pub(super) fn new(node_id: u64, record: &NodeRecord) -> Self {
        let peer_address = record.peer_address.clone();
        Self {
            node_id,
            peer_address,
            client_address: record.client_address.clone(),
        }
    }

    /// For a leader that the membership here does not know yet.
    pub(super) fn unknown(node_id: u64) -> Self {
        Self {
            node_id,
            peer_address: String::new(),
            client_address: String::new(),
        }
    }
}

/// Who leads, and what this node is to it. Changes rarely, so it can be watched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leadership {
    /// The term that this node has reached.
    pub term: u64,
    /// What this node does.
    pub role: Role,
    /// Who leads this term, as far as this node knows.
    pub leader: Option<LeaderHint>,
}

/// Everything that a node tells about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The cluster, once it belongs to one.
    pub cluster: Option<ClusterId>,
    /// This node.
    pub node_id: u64,
    /// Its data directory.
    pub instance: InstanceId,
    /// How often that directory has been started.
    pub boots: u64,
    /// Who leads.
    pub leadership: Leadership,
    /// The last entry of the log here.
    pub last_log_index: Option<u64>,
    /// The last entry known to be committed.
    pub committed: Option<LogId>,
    /// The last entry applied here.
    pub applied: Option<LogId>,
    /// The last entry in the snapshot here.
    pub snapshot: Option<LogId>,
    /// The last entry removed from the log here.
    pub purged: Option<LogId>,
    /// The members, in order of their ids.
    pub members: Vec<MemberStatus>,
    /// How often this node saw a new term begin since it started.
    pub elections: u64,
    /// Proposals of this node that have not come back.
    pub proposals_in_flight: usize,
}

/// One member, as this node sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberStatus {
    /// Its node id.
    pub node_id: u64,
    /// What the membership says about it.
    pub record: NodeRecord,
    /// Whether it votes.
    pub voter: bool,
    /// On the leader: the entry up to which it is known to hold the leader's log.
    pub matched: Option<LogId>,
    /// On the leader: how long ago the last message was sent that it answered. `None` if it never
    /// did, and on other nodes.
    pub last_contact: Option<Duration>,
}
