//! The check before every call: who calls whom, in which cluster. openraft sees nothing that has not
//! passed it, because a blank openraft node would vote for, and take a log from, anybody.

use std::sync::{Arc, Mutex, PoisonError};

use thiserror::Error;
use tokio::sync::watch;
use tonic::{Code, Status};

use super::{
    Local, REFUSAL_KEY,
    sightings::{Shown, Sightings},
};
use crate::{
    grant::ClusterId,
    server::{
        raft::{Roster, Standing, fate::Fate},
        store::{Addition, InstanceId, ReadyError, Replacement},
    },
    wire::peer_v1 as wire,
};

/// Lets calls in, or says why not.
pub(in crate::server::raft) struct Gate {
    local: Arc<Local>,
    roster: watch::Receiver<Arc<Roster>>,
    fate: Fate,
    seen: Arc<Mutex<Sightings>>,
}

/// What kind of call knocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::server::raft) enum Call {
    /// From a leader. One that was just removed may still finish what it began.
    Lead,
    /// For a vote.
    Vote,
    /// From a follower, to notice when this node is gone.
    Attend,
    /// A client's call.
    Forward,
    /// From a follower, about those who wait at it.
    Vouch,
}

/// Why a call was refused. Nothing of it reached Raft.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(in crate::server::raft) enum Refusal {
    #[error("the call's envelope is missing or not whole")]
    NoEnvelope,
    #[error(
        "this is node {node} with data directory {instance}, but the call is for node {meant_node} with \
         {meant_instance}: either an address is wrong, or the data directory was wiped or exchanged. {}",
        Replacement(*.meant_node)
    )]
    NotMe {
        node: u64,
        instance: InstanceId,
        meant_node: u64,
        meant_instance: InstanceId,
    },
    #[error(
        "this node belongs to cluster {ours}, the caller to cluster {theirs}: check the peer addresses of \
         both; a node joins another cluster only with an empty data directory and a new node id"
    )]
    ForeignCluster { ours: ClusterId, theirs: ClusterId },
    #[error(
        "node {node} is known here with data directory {known}, not with {shown}: it was wiped or \
         exchanged. {}",
        Replacement(*.node)
    )]
    Replaced {
        node: u64,
        known: InstanceId,
        shown: InstanceId,
    },
    #[error(
        "node {node} was removed from this cluster, and node ids are never used again: {Addition}"
    )]
    Removed { node: u64 },
    #[error(
        "node {node} was seen here with boot {} in term {}, and now shows boot {} in term {}: its data \
         directory is a stale copy and must not vote again. {}",
        .seen.boot, .seen.term, .shown.boot, .shown.term, Replacement(*.node)
    )]
    Stale {
        node: u64,
        shown: Shown,
        seen: Shown,
    },
    #[error(
        "node {node} lacks log entries that it had acknowledged: its data directory is a stale copy, or \
         its disk lost them, and it must not vote again. {}",
        Replacement(*.node)
    )]
    Lost { node: u64 },
    #[error("this node cannot be bound to the caller's cluster: {0}")]
    Unbound(String),
}

impl Refusal {
    /// The word for programs. Those of [`Refusal::ends_caller`] tell the caller to stop.
    fn code(&self) -> &'static str {
        match self {
            Self::NoEnvelope => "no-envelope",
            Self::NotMe { .. } => "not-me",
            Self::ForeignCluster { .. } => "foreign-cluster",
            Self::Replaced { .. } => "replaced",
            Self::Removed { .. } => "removed",
            Self::Stale { .. } => "stale",
            Self::Lost { .. } => "lost",
            Self::Unbound(_) => "unbound",
        }
    }

    /// Whether a refusal with this code means that the caller has no place in its own cluster.
    pub(super) fn ends_caller(code: &str) -> bool {
        matches!(code, "replaced" | "removed" | "stale" | "lost")
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Self {
        let mut status = Status::new(Code::FailedPrecondition, refusal.to_string());
        let code = tonic::metadata::MetadataValue::from_static(refusal.code());
        status.metadata_mut().insert(REFUSAL_KEY, code);
        status
    }
}

impl Gate {
    pub(in crate::server::raft) fn new(
        local: Arc<Local>,
        roster: watch::Receiver<Arc<Roster>>,
        fate: Fate,
        seen: Arc<Mutex<Sightings>>,
    ) -> Self {
        Self {
            local,
            roster,
            fate,
            seen,
        }
    }

    /// Checks an envelope, and binds a blank node to the caller's cluster. Returns who calls.
    pub(super) async fn admit(
        &self,
        envelope: Option<wire::Envelope>,
        call: Call,
    ) -> Result<u64, Refusal> {
        let envelope = Envelope::read(envelope.as_ref()).ok_or(Refusal::NoEnvelope)?;
        self.meant_for_me(&envelope)?;
        self.same_cluster(&envelope).await?;
        self.sender_is_known_as(&envelope, call)?;
        self.not_stale(envelope.sender_id, envelope.sender_instance, envelope.shown)?;
        Ok(envelope.sender_id)
    }

    fn meant_for_me(&self, envelope: &Envelope) -> Result<(), Refusal> {
        let local = &self.local;
        if (envelope.receiver_id, envelope.receiver_instance) == (local.node_id, local.instance) {
            return Ok(());
        }
        let refusal = Refusal::NotMe {
            node: local.node_id,
            instance: local.instance,
            meant_node: envelope.receiver_id,
            meant_instance: envelope.receiver_instance,
        };
        if envelope.receiver_id == local.node_id && local.cluster().is_none() {
            // Somebody's membership has this id with another data directory, and this one is blank.
            self.fate.identity(format!(
                "cluster {} knows node {} with another instance id: {refusal}",
                envelope.cluster, local.node_id
            ));
        }
        Err(refusal)
    }

    async fn same_cluster(&self, envelope: &Envelope) -> Result<(), Refusal> {
        let theirs = envelope.cluster;
        match self.local.cluster() {
            Some(ours) if ours == theirs => Ok(()),
            Some(ours) => Err(Refusal::ForeignCluster { ours, theirs }),
            None => match self.local.bind(theirs, Vec::new()).await {
                Ok(()) => {
                    tracing::info!(cluster = %theirs, by = envelope.sender_id, "joined the cluster");
                    Ok(())
                }
                Err(ReadyError::OtherCluster { ours, theirs }) => {
                    Err(Refusal::ForeignCluster { ours, theirs })
                }
                Err(error) => Err(Refusal::Unbound(error.to_string())),
            },
        }
    }

    fn sender_is_known_as(&self, envelope: &Envelope, call: Call) -> Result<(), Refusal> {
        let node = envelope.sender_id;
        match self.standing(node, envelope.sender_instance) {
            Standing::Member | Standing::Stranger => Ok(()),
            Standing::Replaced { known } => Err(Refusal::Replaced {
                node,
                known,
                shown: envelope.sender_instance,
            }),
            Standing::Removed if call == Call::Lead => Ok(()),
            Standing::Removed => Err(Refusal::Removed { node }),
        }
    }

    /// What the membership that was applied here says about a node.
    pub(super) fn standing(&self, id: u64, instance: InstanceId) -> Standing {
        self.roster.borrow().standing(id, instance)
    }

    /// Whether this node knows its members.
    pub(super) fn has_members(&self) -> bool {
        !self.roster.borrow().members.is_empty()
    }

    /// Whether a data directory that shows this boot and term may be what it was when it was last seen.
    pub(super) fn not_stale(
        &self,
        node: u64,
        instance: InstanceId,
        shown: Shown,
    ) -> Result<(), Refusal> {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.has_lost(instance) {
            return Err(Refusal::Lost { node });
        }
        match seen.look(instance, shown) {
            None => Ok(()),
            Some(seen) => Err(Refusal::Stale { node, shown, seen }),
        }
    }
}

/// An envelope whose parts have their lengths.
struct Envelope {
    cluster: ClusterId,
    sender_id: u64,
    sender_instance: InstanceId,
    shown: Shown,
    receiver_id: u64,
    receiver_instance: InstanceId,
}

impl Envelope {
    fn read(envelope: Option<&wire::Envelope>) -> Option<Self> {
        let envelope = envelope?;
        Some(Self {
            cluster: cluster_id(&envelope.cluster_id)?,
            sender_id: envelope.sender_id,
            sender_instance: InstanceId::from_bytes(bytes16(&envelope.sender_instance)?),
            shown: Shown {
                boot: envelope.sender_boot,
                term: envelope.sender_term,
                life: envelope.sender_life,
            },
            receiver_id: envelope.receiver_id,
            receiver_instance: InstanceId::from_bytes(bytes16(&envelope.receiver_instance)?),
        })
    }
}

/// The 16 bytes of an id, if there are 16.
pub(super) fn bytes16(bytes: &[u8]) -> Option<[u8; 16]> {
    bytes.try_into().ok()
}

/// The cluster id in 16 bytes.
pub(super) fn cluster_id(bytes: &[u8]) -> Option<ClusterId> {
    bytes16(bytes).map(ClusterId::from_bytes)
}
