//! Changing who belongs to the cluster, and who leads it. Only the leader does; one change at a time.
//!
//! A change is refused when it could leave the cluster without a quorum: what counts is how many of the
//! voters *after* it are alive now, not how many there are. An unreachable voter, added in good faith,
//! is how clusters lose their quorum for good (etcd#6420).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use openraft::{
    ChangeMembers, RaftMetrics, ServerState,
    async_runtime::watch::WatchReceiver,
    errors::{ChangeMembershipError, ClientWriteError, RaftError},
};
use tokio::time::{Instant as Deadline, timeout_at};

use super::{
    ChangeError, LeaderHint, NodeRecord,
    introduction::{HelloError, hello},
    network::Local,
    node::RaftNode,
    types::Types,
    watch::{last_contact, matched},
};
use crate::server::store::InstanceId;

/// A learner that lacks at most so many entries has caught up: it gets the rest within a heartbeat.
const CAUGHT_UP_ENTRIES: u64 = 1_000;

/// A member that answered something which was sent this long ago, in heartbeats, is alive.
const ALIVE_HEARTBEATS: u32 = 20;

/// How long to wait before a change is tried again that found another one under way.
const ONE_BY_ONE: Duration = Duration::from_millis(50);

/// The least time for it, whatever the heartbeat: a full disk queue is not a dead node.
const ALIVE_MIN: Duration = Duration::from_secs(1);

impl RaftNode {
    /// Adds a running, blank node as a learner. It is asked who it is; its id must never have been
    /// used. Returns what the membership now says about it.
    pub async fn add_node(
        &self,
        node_id: u64,
        peer_address: &str,
        deadline: Instant,
    ) -> Result<NodeRecord, ChangeError> {
        self.must_lead()?;
        let standing = self.roster();
        if let Some(member) = standing.members.get(&node_id) {
            return Err(refused(format!(
                "node {node_id} is a member already, at {}",
                member.record.peer_address
            )));
        }
        if node_id == 0 {
            return Err(refused("0 is not a node id: ids begin with 1"));
        }
        if standing.used_ids.contains(&node_id) {
            return Err(refused(format!(
                "node id {node_id} was used before, and ids are never used again: choose another one"
            )));
        }
        let inner = &self.inner;
        let has_room = inner
            .view
            .read(|replica| replica.machine().has_room_for_node_id());
        if has_room == Some(false) {
            return Err(refused("the cluster cannot remember another node id"));
        }
        let asked = hello(&inner.local, &inner.switchboard, peer_address).await;
        let them = asked.map_err(|error| match error {
            HelloError::WrongPort { .. } => refused(format!("{error}: give its peer address")),
            _ => refused(format!("{error}: start the node with --join, then add it")),
        })?;
        if them.node_id != node_id {
            return Err(refused(format!(
                "the node at {peer_address} has the id {}, not {node_id}",
                them.node_id
            )));
        }
        if them.issuer != inner.local.config.issuer.as_str() {
            return Err(refused(format!(
                "the node at {peer_address} serves the issuer `{}`, this cluster `{}`",
                them.issuer, inner.local.config.issuer
            )));
        }
        if let Some(cluster) = them.cluster {
            return Err(refused(format!(
                "the node at {peer_address} belongs to cluster {cluster} already: start it with an \
                 empty data directory"
            )));
        }
        if !them.founders.is_empty() {
            return Err(refused(format!(
                "the node at {peer_address} would found a cluster of its own: start it with --join"
            )));
        }
        let record = NodeRecord {
            instance: them.instance,
            peer_address: peer_address.to_owned(),
            client_address: them.client_address,
        };
        let nodes = BTreeMap::from([(node_id, record.clone())]);
        self.change(ChangeMembers::AddNodes(nodes), true, deadline)
            .await?;
        tracing::info!(
            node = node_id,
            address = peer_address,
            "a learner was added"
        );
        Ok(record)
    }

    /// Gives a learner that has caught up a vote.
    pub async fn promote(&self, node_id: u64, deadline: Instant) -> Result<(), ChangeError> {
        let view = self.settled_view(deadline).await?;
        if !view.nodes.contains_key(&node_id) {
            return Err(ChangeError::NoSuchNode(node_id));
        }
        if view.voters.contains(&node_id) {
            return Ok(());
        }
        match view.lacks(node_id) {
            Some(entries) if entries <= CAUGHT_UP_ENTRIES => {}
            Some(entries) => {
                return Err(refused(format!(
                    "node {node_id} lacks {entries} entries: promote it once it has caught up; \
                     `fencepost cluster status` shows how far it is"
                )));
            }
            None => {
                return Err(refused(format!(
                    "node {node_id} has not received anything yet: check that it runs and that the \
                     leader reaches it"
                )));
            }
        }
        view.must_answer(node_id)?;
        let mut after = view.voters.clone();
        after.insert(node_id);
        // Raft asks the voters before the change as well as those after it.
        view.keeps_quorum(&view.voters)?;
        view.keeps_quorum(&after)?;
        let change = ChangeMembers::AddVoterIds(BTreeSet::from([node_id]));
        self.change(change, true, deadline).await?;
        tracing::info!(node = node_id, "a learner was promoted");
        Ok(())
    }

    /// Takes a node out of the cluster, alive or dead. Its id is never used again.
    pub async fn remove_node(&self, node_id: u64, deadline: Instant) -> Result<(), ChangeError> {
        let view = self.settled_view(deadline).await?;
        if !view.nodes.contains_key(&node_id) {
            let used = self.roster().used_ids.contains(&node_id);
            return if used {
                Ok(())
            } else {
                Err(ChangeError::NoSuchNode(node_id))
            };
        }
        let ids = BTreeSet::from([node_id]);
        if view.voters.contains(&node_id) {
            let mut after = view.voters.clone();
            after.remove(&node_id);
            view.keeps_quorum(&view.voters)?;
            view.keeps_quorum(&after)?;
            self.change(ChangeMembers::RemoveVoters(ids), false, deadline)
                .await?;
        } else {
            self.change(ChangeMembers::RemoveNodes(ids), false, deadline)
                .await?;
        }
        tracing::info!(node = node_id, "a node was removed");
        Ok(())
    }

    /// Hands leadership to a voter, or to the one that is furthest along. Returns who leads then.
    pub async fn transfer_leader(
        &self,
        to: Option<u64>,
        deadline: Instant,
    ) -> Result<LeaderHint, ChangeError> {
        let view = self.settled_view(deadline).await?;
        let own = self.inner.local.node_id;
        let to = match to {
            Some(id) => id,
            None => view
                .furthest_other()
                .ok_or_else(|| refused("there is no other voter alive that could lead"))?,
        };
        if !view.nodes.contains_key(&to) {
            return Err(ChangeError::NoSuchNode(to));
        }
        if to == own {
            return self.hint_of(own).ok_or(ChangeError::NoSuchNode(own));
        }
        view.can_lead(to)?;
        let before = self.leadership().borrow().term;
        if self.inner.raft.trigger().transfer_leader(to).await.is_err() {
            return Err(ChangeError::Stopped);
        }
        let mut leadership = self.leadership();
        let handed = leadership.wait_for(|now| now.term > before && now.leader.is_some());
        match timeout_at(Deadline::from_std(deadline), handed).await {
            Ok(Ok(now)) => match now.leader.clone() {
                Some(leader) if leader.node_id == to => Ok(leader),
                Some(leader) => Err(refused(format!(
                    "node {} took over instead: ask there again",
                    leader.node_id
                ))),
                None => Err(ChangeError::Unknown {
                    why: "nobody leads yet",
                }),
            },
            Ok(Err(_)) => Err(ChangeError::Stopped),
            Err(_) => Err(ChangeError::Unknown {
                why: "nobody took over in time",
            }),
        }
    }

    /// Makes one change of the members. One that is under way, as the founding is at first, is waited for.
    async fn change(
        &self,
        change: ChangeMembers<u64, NodeRecord>,
        keep_as_learner: bool,
        deadline: Instant,
    ) -> Result<(), ChangeError> {
        use ChangeMembershipError::InProgress;
        use ClientWriteError::ChangeMembershipError as NotChanged;
        let deadline = Deadline::from_std(deadline);
        let local = &self.inner.local;
        loop {
            let written = self
                .inner
                .raft
                .change_membership(change.clone(), keep_as_learner);
            match timeout_at(deadline, written).await {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(RaftError::Fatal(_))) => return Err(ChangeError::Stopped),
                Ok(Err(RaftError::APIError(NotChanged(InProgress(_)))))
                    if local.now() + ONE_BY_ONE < deadline =>
                {
                    tokio::time::sleep(ONE_BY_ONE).await;
                }
                Ok(Err(RaftError::APIError(error))) => return Err(self.not_changed(error)),
                Err(_) => {
                    return Err(ChangeError::Unknown {
                        why: "the deadline passed",
                    });
                }
            }
        }
    }

    fn not_changed(&self, error: ClientWriteError<Types>) -> ChangeError {
        match error {
            ClientWriteError::ForwardToLeader(forward) => ChangeError::NotLeader {
                hint: self.hint(&forward),
            },
            ClientWriteError::LogEntryDiscarded(_) => ChangeError::Unknown {
                why: "another leader took over meanwhile",
            },
            ClientWriteError::ChangeMembershipError(ChangeMembershipError::InProgress(_)) => {
                refused("another change of the members is under way: try again when it is done")
            }
            ClientWriteError::ChangeMembershipError(error) => refused(error.to_string()),
            ClientWriteError::PreconditionFailed(error) => refused(error.to_string()),
        }
    }

    /// The cluster as its leader sees it, once it has had time to hear of its members: a new leader
    /// knows nothing about them yet, and would take them for dead.
    async fn settled_view(&self, deadline: Instant) -> Result<LeaderView, ChangeError> {
        let local = &self.inner.local;
        let patience = (local.now() + ALIVE_MIN).min(Deadline::from_std(deadline));
        loop {
            let view = self.must_lead()?;
            if view.has_heard_of_all() || local.now() >= patience {
                return Ok(view);
            }
            tokio::time::sleep(local.config.timing.heartbeat).await;
        }
    }

    /// The same, as it is now; an error on every other node.
    fn must_lead(&self) -> Result<LeaderView, ChangeError> {
        let inner = &self.inner;
        if inner.fate.now().is_some() {
            return Err(ChangeError::Stopped);
        }
        let metrics = inner.raft.metrics();
        let view = {
            let metrics = metrics.borrow_watched();
            (metrics.state == ServerState::Leader).then(|| LeaderView::new(&metrics, &inner.local))
        };
        view.ok_or_else(|| ChangeError::NotLeader {
            hint: self.leadership().borrow().leader.clone(),
        })
    }
}

fn refused(why: impl Into<String>) -> ChangeError {
    ChangeError::Refused(why.into())
}

/// What the leader knows about its members at one moment.
struct LeaderView {
    own: u64,
    nodes: BTreeMap<u64, InstanceId>,
    voters: BTreeSet<u64>,
    alive: BTreeSet<u64>,
    heard: BTreeSet<u64>,
    last: Option<u64>,
    matched: BTreeMap<u64, u64>,
}

impl LeaderView {
    fn new(metrics: &RaftMetrics<Types>, local: &Local) -> Self {
        let recent = ALIVE_MIN.max(local.config.timing.heartbeat * ALIVE_HEARTBEATS);
        let membership = metrics.membership_config.membership();
        let nodes: BTreeMap<u64, InstanceId> = membership
            .nodes()
            .map(|(id, record)| (*id, record.instance))
            .collect();
        let is_alive = |id: &u64| last_contact(metrics, *id).is_some_and(|ago| ago <= recent);
        Self {
            own: metrics.id,
            voters: membership.voter_ids().collect(),
            alive: nodes.keys().copied().filter(is_alive).collect(),
            heard: nodes
                .keys()
                .copied()
                .filter(|id| last_contact(metrics, *id).is_some())
                .collect(),
            last: metrics.last_log_index,
            matched: nodes
                .keys()
                .filter_map(|id| Some((*id, matched(metrics, *id)?.index)))
                .collect(),
            nodes,
        }
    }

    fn has_heard_of_all(&self) -> bool {
        self.nodes.keys().all(|id| self.heard.contains(id))
    }

    /// How many entries of the leader's log a node lacks; `None` if it has shown nothing.
    fn lacks(&self, id: u64) -> Option<u64> {
        let matched = self.matched.get(&id)?;
        Some(self.last.unwrap_or_default().saturating_sub(*matched))
    }

    /// Refuses voters of whom no quorum is alive.
    fn keeps_quorum(&self, after: &BTreeSet<u64>) -> Result<(), ChangeError> {
        if after.is_empty() {
            return Err(refused(
                "it is the last voter: a cluster without one decides nothing",
            ));
        }
        if self.decides(after) {
            return Ok(());
        }
        let alive: Vec<u64> = after.intersection(&self.alive).copied().collect();
        let quorum = after.len() / 2 + 1;
        let dead: Vec<u64> = after.difference(&self.alive).copied().collect();
        let mut remedy = format!("bring back one of {dead:?}");
        // Only what would not be refused in its turn is worth the advice.
        let removable: Vec<u64> = dead.into_iter().filter(|id| self.can_spare(*id)).collect();
        if !removable.is_empty() {
            remedy = format!("{remedy}, or remove one of {removable:?} first");
        }
        Err(refused(format!(
            "the cluster would lose its quorum: of the voters {after:?}, {quorum} are needed, and only \
             {alive:?} answer the leader; {remedy}"
        )))
    }

    /// Whether this voter can be removed: a quorum has to be alive with it, and without it.
    fn can_spare(&self, id: u64) -> bool {
        let mut rest = self.voters.clone();
        rest.remove(&id)
            && [&self.voters, &rest]
                .iter()
                .all(|voters| self.decides(voters))
    }

    fn decides(&self, voters: &BTreeSet<u64>) -> bool {
        voters.intersection(&self.alive).count() > voters.len() / 2
    }

    /// A node that is down gets neither a vote nor the office (etcd#6420).
    fn must_answer(&self, id: u64) -> Result<(), ChangeError> {
        if self.alive.contains(&id) {
            return Ok(());
        }
        Err(refused(format!(
            "node {id} does not answer the leader: check that it runs and can be reached"
        )))
    }

    fn can_lead(&self, id: u64) -> Result<(), ChangeError> {
        if !self.voters.contains(&id) {
            return Err(refused(format!(
                "node {id} is a learner and has no vote: promote it first"
            )));
        }
        self.must_answer(id)?;
        match self.lacks(id) {
            Some(entries) if entries <= CAUGHT_UP_ENTRIES => Ok(()),
            Some(entries) => Err(refused(format!("node {id} lacks {entries} entries"))),
            None => Err(refused(format!("node {id} has not received anything yet"))),
        }
    }

    fn furthest_other(&self) -> Option<u64> {
        let others = self
            .voters
            .iter()
            .filter(|id| **id != self.own && self.alive.contains(id));
        others
            .copied()
            .max_by_key(|id| self.matched.get(id).copied())
    }
}
