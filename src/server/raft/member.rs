//! Who belongs to the cluster.

use std::collections::{BTreeMap, BTreeSet};

use super::types::StoredMembership;
use crate::server::store::InstanceId;

/// What the membership knows about a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeRecord {
    /// The data directory that belongs to the id. A node with another one is not this member.
    pub instance: InstanceId,
    /// Where the other nodes reach it, `host:port`.
    pub peer_address: String,
    /// Where clients reach it, `host:port`. Empty if it never said.
    pub client_address: String,
}

impl Default for NodeRecord {
    /// Nobody: openraft's own test suite makes memberships of these.
    fn default() -> Self {
        let instance = InstanceId::from_bytes([0; 16]);
        Self {
            instance,
            peer_address: String::new(),
            client_address: String::new(),
        }
    }
}

/// The members as this node has applied them, and every id that ever was one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Roster {
    /// The members, by node id.
    pub members: BTreeMap<u64, Member>,
    /// Ids of members, present and past. None of them can be given to another node.
    pub used_ids: BTreeSet<u64>,
}

/// One member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// What the membership says about it.
    pub record: NodeRecord,
    /// Whether it votes; a learner only receives the log.
    pub voter: bool,
}

impl Roster {
    pub(super) fn new(membership: &StoredMembership, used: impl Iterator<Item = u64>) -> Self {
        let voters: BTreeSet<u64> = membership.voter_ids().collect();
        let members = membership.membership().nodes().map(|(id, record)| {
            let member = Member {
                record: record.clone(),
                voter: voters.contains(id),
            };
            (*id, member)
        });
        let members: BTreeMap<_, _> = members.collect();
        let used_ids = members.keys().copied().chain(used).collect();
        Self { members, used_ids }
    }

    /// What it says about somebody who calls himself node `id` with this data directory.
    #[must_use]
    pub fn standing(&self, id: u64, instance: InstanceId) -> Standing {
        match self.members.get(&id) {
            Some(member) if member.record.instance == instance => Standing::Member,
            Some(member) => Standing::Replaced {
                known: member.record.instance,
            },
            None if self.used_ids.contains(&id) => Standing::Removed,
            None => Standing::Stranger,
        }
    }
}

/// What a membership says about a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// It belongs to the cluster.
    Member,
    /// Its id does, with another data directory: the node was wiped or exchanged.
    Replaced {
        /// The data directory that belongs to the id.
        known: InstanceId,
    },
    /// Its id did once, and is never given again.
    Removed,
    /// Its id was never used.
    Stranger,
}
