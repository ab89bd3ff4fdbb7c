//! Which node ids were ever members: an id is never used again.
//!
//! A node that lost its disk could come back under its old id with a vote that it has forgotten, and
//! two leaders of one term could follow (Raft paper, section 5.1: the vote is durable). So a wiped
//! node is added under a new id, and the state remembers the old ones.

use super::Machine;
pub use crate::id::InstanceId;
use crate::issuer::{Broken, LogId, codec};
use crate::limits::NODE_IDS_MAX;

/// A node's configured id, from 1.
pub type NodeId = u64;

impl Machine {
    /// Applies a membership entry: its node ids count as used from here on, voters and learners alike.
    ///
    /// An id that is known keeps the instance that it was first seen with: the raft layer refuses to
    /// add another one *before* it proposes, by [`instance_of`](Self::instance_of).
    pub fn apply_members(
        &mut self,
        at: LogId,
        members: &[(NodeId, InstanceId)],
    ) -> Result<(), Broken> {
        self.check_next(at)?;
        for (id, instance) in members {
            let known = self.node_ids.contains_key(id);
            if !known && self.node_ids.len() < NODE_IDS_MAX {
                self.node_ids.insert(*id, *instance);
            }
        }
        self.scratch.clear();
        codec::put_members(&mut self.scratch, members);
        self.advance(at);
        Ok(())
    }

    /// The instance that a node id belongs to, if it was ever used.
    #[must_use]
    pub fn instance_of(&self, id: NodeId) -> Option<InstanceId> {
        self.node_ids.get(&id).copied()
    }

    /// Whether the state can remember another node id. When it cannot, none may be added.
    #[must_use]
    pub fn has_room_for_node_id(&self) -> bool {
        self.node_ids.len() < NODE_IDS_MAX
    }

    /// All node ids that were ever used, in rising order.
    pub fn used_node_ids(&self) -> impl Iterator<Item = (NodeId, InstanceId)> {
        self.node_ids.iter().map(|(id, instance)| (*id, *instance))
    }
}
