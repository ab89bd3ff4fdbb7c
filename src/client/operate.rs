//! The operator's verbs: look at nodes, revoke a grant, raise the floor, change the membership.

use super::Client;
use super::address::Address;
use super::error::{Error, ErrorKind};
use super::method::{
    AddNode, Method, Promote, RaiseFloor, RemoveNode, Revoke, ShowStatus, TransferLeader,
};
use super::outcome::RevokeOutcome;
use super::words::{self, Unreadable};
use crate::resource::{Reason, ResourceName};
use crate::token::TokenValue;
use crate::wire::v1::{self, revoke_response};
use std::time::Duration;

/// What a node is in its cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Decides the order of all things.
    Leader,
    /// Has a vote, and follows.
    Follower,
    /// Stands for election.
    Candidate,
    /// Receives the log, has no vote.
    Learner,
    /// Part of no cluster yet.
    Forming,
}

impl Role {
    /// The word for it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Leader => "leader",
            Self::Follower => "follower",
            Self::Candidate => "candidate",
            Self::Learner => "learner",
            Self::Forming => "forming",
        }
    }
}

/// Who leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leader {
    /// Its node id.
    pub node_id: u64,
    /// `host:port` of its client listener; empty when not known.
    pub address: String,
    /// Since which term.
    pub term: u64,
}

/// One member, as the answering node's membership has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its node id, never used for another node.
    pub node_id: u64,
    /// The random identity of its data directory.
    pub instance_id: String,
    /// `host:port` of its peer listener.
    pub peer_address: String,
    /// `host:port` of its client listener.
    pub client_address: String,
    /// Whether it has a vote.
    pub voter: bool,
    /// Up to which index it holds the leader's log; known to the leader only.
    pub matched_index: Option<u64>,
    /// How long ago it answered the leader; known to the leader only.
    pub last_contact: Option<Duration>,
}

/// What one node sees of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeStatus {
    /// The node's id.
    pub node_id: u64,
    /// 32 hexadecimal digits; empty while it forms.
    pub cluster_id: String,
    /// Who issues.
    pub issuer: String,
    /// Who leads, as far as it knows.
    pub leader: Option<Leader>,
    /// What it is.
    pub role: Role,
    /// Whether it heard from a leader, or as the leader from a quorum, within the last two seconds or so.
    /// Without that nothing can be granted through it, and [`leader`](Self::leader) may be gone.
    pub in_touch: bool,
    /// Its term.
    pub term: u64,
    /// The end of its log.
    pub last_log_index: u64,
    /// Known to be committed.
    pub committed_index: u64,
    /// Applied to its state.
    pub applied_index: u64,
    /// The end of its last snapshot.
    pub snapshot_index: u64,
    /// Gone from its log.
    pub purged_index: u64,
    /// Live grants in its state.
    pub live_leases: u64,
    /// How many there may be.
    pub live_leases_max: u64,
    /// Who waits in line, in its state.
    pub waiters: u64,
    /// How many may.
    pub waiters_max: u64,
    /// Calls that wait in line at this node.
    pub waiting_calls: u64,
    /// Watches that are open on this node.
    pub watchers: u64,
    /// How many there may be.
    pub watchers_max: u64,
    /// The oldest cursor from which a watch can go on at this node, renewals aside.
    pub history_oldest_index: u64,
    /// The memory that what happened since then occupies.
    pub history_bytes: u64,
    /// Connections of clients at that node.
    pub connections: u64,
    /// How many there may be.
    pub connections_max: u64,
    /// Calls under way at that node, each operation of a `Pipeline` counted and waits in line aside.
    pub calls: u64,
    /// Beyond how many new ones are refused.
    pub calls_max: u64,
    /// What is added to every token.
    pub floor: u64,
    /// The last token issued.
    pub last_token: Option<TokenValue>,
    /// Chained hash over everything applied, hexadecimal.
    pub state_hash: String,
    /// The members, by node id.
    pub members: Vec<Member>,
    /// Version of its software.
    pub version: String,
    /// Since its process started.
    pub uptime: Duration,
}

impl Client {
    /// What some node of the cluster sees: the leader if it is known, or the next that answers.
    ///
    /// # Errors
    ///
    /// A failure never had an effect. While the nodes that answer are part of no cluster yet, it comes at once,
    /// with [`Cause::Forming`](super::Cause::Forming).
    pub async fn status(&self) -> Result<NodeStatus, Error> {
        let mut trial = self.shared.trial::<ShowStatus>();
        let request = |_| v1::StatusRequest {};
        let answer = self.shared.call::<ShowStatus>(&mut trial, request).await?;
        let status = words::node_status(answer.response);
        status.map_err(|unreadable| self.bad_answer(&trial, unreadable))
    }

    /// What the node at `address` sees, asked once, and it alone.
    ///
    /// # Errors
    ///
    /// A failure never had an effect.
    pub async fn status_of(&self, address: &Address) -> Result<NodeStatus, Error> {
        let mut trial = self.shared.trial::<ShowStatus>();
        let limit = trial.limit(self.shared.options.attempt_timeout, self.shared.clock.now());
        trial.attempts = 1;
        let request = v1::StatusRequest {};
        match self
            .shared
            .once::<ShowStatus>(address, request, limit)
            .await
        {
            Ok(response) => words::node_status(response)
                .map_err(|unreadable| self.bad_answer(&trial, unreadable)),
            Err(fault) => {
                let kind = trial.take(address.clone(), fault);
                Err(self
                    .shared
                    .end(&trial, kind.unwrap_or(ErrorKind::Unavailable)))
            }
        }
    }

    /// Takes the grant with `token` away from its holder; a successor's is never touched.
    ///
    /// # Errors
    ///
    /// It is safe to repeat.
    pub async fn revoke(
        &self,
        resource: &ResourceName,
        token: TokenValue,
        reason: Option<&Reason>,
    ) -> Result<RevokeOutcome, Error> {
        use revoke_response::Outcome;
        let mut trial = self.shared.trial::<Revoke>();
        let request = |_| v1::RevokeRequest {
            resource: resource.to_string(),
            token: token.get(),
            reason: reason.map(Reason::to_string).unwrap_or_default(),
        };
        let answer = self.shared.call::<Revoke>(&mut trial, request).await?;
        let read = || -> Result<RevokeOutcome, Unreadable> {
            Ok(match words::required(answer.response.outcome, "outcome")? {
                Outcome::Revoked(_) => RevokeOutcome::Revoked,
                Outcome::Ended(ended) => RevokeOutcome::Ended(words::ended(ended)?),
                Outcome::Unknown(_) => RevokeOutcome::Unknown,
            })
        };
        read().map_err(|unreadable| self.bad_answer(&trial, unreadable))
    }

    /// Lifts all further tokens above `above`; returns the floor now in force. Never lowers anything.
    ///
    /// # Errors
    ///
    /// It is safe to repeat.
    pub async fn raise_floor(&self, above: u64) -> Result<u64, Error> {
        let request = v1::RaiseFloorRequest { above };
        Ok(self.carry_out::<RaiseFloor>(request).await?.floor)
    }

    /// Adds a running, blank node as a learner.
    ///
    /// # Errors
    ///
    /// With an unknown outcome, look at [`status`](Self::status) before asking again.
    pub async fn add_node(
        &self,
        node_id: u64,
        peer_address: &str,
    ) -> Result<Option<Member>, Error> {
        let request = v1::AddNodeRequest {
            node_id,
            peer_address: peer_address.to_owned(),
        };
        let response = self.carry_out::<AddNode>(request).await?;
        Ok(response.member.map(words::member))
    }

    /// Gives a learner that has caught up a vote.
    ///
    /// # Errors
    ///
    /// With an unknown outcome, look at [`status`](Self::status) before asking again.
    pub async fn promote(&self, node_id: u64) -> Result<(), Error> {
        let request = v1::PromoteRequest { node_id };
        self.carry_out::<Promote>(request).await.map(drop)
    }

    /// Takes a node out, voter or learner, alive or dead.
    ///
    /// # Errors
    ///
    /// With an unknown outcome, look at [`status`](Self::status) before asking again.
    pub async fn remove_node(&self, node_id: u64) -> Result<(), Error> {
        let request = v1::RemoveNodeRequest { node_id };
        self.carry_out::<RemoveNode>(request).await.map(drop)
    }

    /// Hands leadership to the voter `node_id`, or to the one that is furthest along; returns who leads.
    ///
    /// # Errors
    ///
    /// With an unknown outcome, look at [`status`](Self::status) before asking again.
    pub async fn transfer_leader(&self, node_id: Option<u64>) -> Result<Option<Leader>, Error> {
        let request = v1::TransferLeaderRequest {
            node_id: node_id.unwrap_or(0),
        };
        let response = self.carry_out::<TransferLeader>(request).await?;
        Ok(response.leader.map(words::leader))
    }

    async fn carry_out<M: Method<Request: Clone + Sync>>(
        &self,
        request: M::Request,
    ) -> Result<M::Response, Error> {
        let mut trial = self.shared.trial::<M>();
        let answer = self
            .shared
            .call::<M>(&mut trial, |_| request.clone())
            .await?;
        Ok(answer.response)
    }
}
