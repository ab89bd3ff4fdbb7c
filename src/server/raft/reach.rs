//! Telling people once when a member stops answering, and once when it is back: the changes, never the
//! state, so that a peer that stays dead fills no log.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use openraft::async_runtime::watch::WatchReceiver;

use super::{
    node::RaftNode,
    touch::Touch,
    watch::{collect, last_contact},
};

/// How often it is looked.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// What was said last.
#[derive(Debug, Default)]
struct Said {
    /// The members that do not answer this leader.
    silent: BTreeSet<u64>,
    touch: Option<Touch>,
    /// What the last look showed.
    looked: Option<Touch>,
}

/// What is worth a line.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Silent(u64),
    Back(u64),
    LostLeader,
    LostQuorum,
    InTouch,
}

impl Said {
    /// What is new about the members. `silent` says of each whether it does not answer; it is empty on a
    /// node that does not lead, which sees none of them.
    fn members(&mut self, silent: &BTreeMap<u64, bool>) -> Vec<Change> {
        // Whoever was removed is neither silent nor back.
        self.silent.retain(|id| silent.contains_key(id));
        let mut changes = Vec::new();
        for (id, silent) in silent {
            if *silent && self.silent.insert(*id) {
                changes.push(Change::Silent(*id));
            } else if !*silent && self.silent.remove(id) {
                changes.push(Change::Back(*id));
            }
        }
        changes
    }

    /// What is new about this node. A node that has just started has lost nothing yet, and a leader that
    /// was elected a moment ago has a quorum by the next look.
    fn touch(&mut self, now: Touch) -> Option<Change> {
        let lasts = self.looked.replace(now) == Some(now);
        let before = self.touch;
        if now != Touch::InTouch && !lasts {
            return None;
        }
        if before.is_none() && now != Touch::InTouch || before == Some(now) {
            return None;
        }
        self.touch = Some(now);
        match now {
            Touch::InTouch => before.map(|_| Change::InTouch),
            Touch::NoLeader => Some(Change::LostLeader),
            Touch::NoQuorum => Some(Change::LostQuorum),
        }
    }
}

/// Looks, and tells, until the node stops.
pub(super) async fn watch(node: RaftNode) {
    let mut said = Said::default();
    loop {
        tokio::time::sleep(LOOK_EVERY).await;
        let now = node.inner.local.now().into_std();
        let silent = silent(&node);
        let mut changes = said.members(&silent);
        changes.extend(said.touch(node.touch(now)));
        for change in changes {
            tell(&node, &change);
        }
    }
}

/// Which of the others do not answer this leader. Of one that has not answered it yet, a new leader
/// knows nothing.
fn silent(node: &RaftNode) -> BTreeMap<u64, bool> {
    let within = node.silent_max();
    let metrics = node.inner.raft.metrics();
    let metrics = metrics.borrow_watched();
    if metrics.heartbeat.is_none() {
        return BTreeMap::new();
    }
    let members = metrics.membership_config.membership();
    let others = members.nodes().filter(|(id, _)| **id != metrics.id);
    others
        .filter_map(|(id, _)| Some((*id, last_contact(&metrics, *id)? > within)))
        .collect()
}

fn tell(node: &RaftNode, change: &Change) {
    let term = collect(&node.inner).leadership.term;
    match change {
        Change::Silent(peer) => tracing::warn!(peer, term, "a node does not answer the leader"),
        Change::Back(peer) => tracing::info!(peer, term, "a node answers the leader again"),
        Change::LostLeader => tracing::warn!(term, "has heard no leader lately"),
        Change::LostQuorum => tracing::warn!(term, "lost the quorum: too few nodes answer"),
        Change::InTouch => tracing::info!(term, "in touch with the cluster again"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_silent_member_is_told_once_and_once_when_it_is_back() {
        let mut said = Said::default();
        let all = |silent| BTreeMap::from([(2, silent), (3, false)]);
        assert_eq!(said.members(&all(false)), []);
        assert_eq!(said.members(&all(true)), [Change::Silent(2)]);
        assert_eq!(said.members(&all(true)), []);
        assert_eq!(said.members(&all(false)), [Change::Back(2)]);
        assert_eq!(said.members(&all(true)), [Change::Silent(2)]);
        assert_eq!(said.members(&BTreeMap::new()), [], "it was removed");
        assert!(said.silent.is_empty());
    }

    #[test]
    fn a_node_says_once_that_it_is_cut_off_and_not_when_it_starts() {
        let mut said = Said::default();
        assert_eq!(said.touch(Touch::NoLeader), None);
        assert_eq!(said.touch(Touch::InTouch), None);
        assert_eq!(said.touch(Touch::NoQuorum), None, "perhaps a new leader");
        assert_eq!(said.touch(Touch::NoQuorum), Some(Change::LostQuorum));
        assert_eq!(said.touch(Touch::NoQuorum), None);
        assert_eq!(said.touch(Touch::InTouch), Some(Change::InTouch));
        assert_eq!(said.touch(Touch::NoLeader), None);
        assert_eq!(said.touch(Touch::NoLeader), Some(Change::LostLeader));
    }
}
