//! This node, as it presents itself to others.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::{
    grant::ClusterId,
    server::{
        raft::{Bootstrap, RaftConfig},
        store::{Founder, InstanceId, Ready, ReadyError, SharedStore},
    },
    wire::peer_v1 as wire,
};

/// Who this node is, and what it says about itself in every call.
pub(in crate::server::raft) struct Local {
    pub(in crate::server::raft) node_id: u64,
    pub(in crate::server::raft) instance: InstanceId,
    pub(in crate::server::raft) boot: u64,
    pub(in crate::server::raft) config: RaftConfig,
    store: SharedStore,
    /// The store's answer, remembered: it never changes once it is there.
    cluster: OnceLock<ClusterId>,
}

impl Local {
    pub(in crate::server::raft) fn new(config: RaftConfig, store: SharedStore) -> Self {
        let identity = store.identity();
        let boot = store.boots();
        let cluster = OnceLock::new();
        if let Some(ready) = identity.ready() {
            cluster.get_or_init(|| ready.cluster);
        }
        let (node_id, instance) = (identity.node_id, identity.instance);
        Self {
            node_id,
            instance,
            boot,
            config,
            store,
            cluster,
        }
    }

    /// The cluster that this node belongs to for good, if it does.
    pub(in crate::server::raft) fn cluster(&self) -> Option<ClusterId> {
        self.cluster.get().copied()
    }

    /// Binds this node to a cluster, durably. Done off the async threads: it waits for the disk.
    pub(in crate::server::raft) async fn bind(
        self: &Arc<Self>,
        cluster: ClusterId,
        founders: Vec<Founder>,
    ) -> Result<(), ReadyError> {
        let local = Arc::clone(self);
        let bound = tokio::task::spawn_blocking(move || {
            local.store.make_ready(Ready {
                cluster,
                issuer: local.config.issuer.clone(),
                founders,
            })
        });
        match bound.await {
            Ok(result) => result?,
            Err(gone) => std::panic::resume_unwind(gone.into_panic()),
        }
        self.cluster.get_or_init(|| cluster);
        Ok(())
    }

    /// This node's monotonic clock.
    pub(in crate::server::raft) fn now(&self) -> tokio::time::Instant {
        tokio::time::Instant::from_std((self.config.clock)())
    }

    /// The term that this node has reached.
    pub(in crate::server::raft) fn term(&self) -> u64 {
        self.store.vote().map_or(0, |vote| vote.term)
    }

    /// What stands before a call to `receiver`; `None` before this node belongs to a cluster.
    pub(in crate::server::raft) fn envelope(
        &self,
        receiver: u64,
        instance: InstanceId,
    ) -> Option<wire::Envelope> {
        let cluster = self.cluster()?;
        Some(wire::Envelope {
            cluster_id: Bytes::copy_from_slice(&cluster.get().to_be_bytes()),
            sender_id: self.node_id,
            sender_instance: Bytes::copy_from_slice(&self.instance.to_bytes()),
            sender_boot: self.boot,
            sender_term: self.term(),
            receiver_id: receiver,
            receiver_instance: Bytes::copy_from_slice(&instance.to_bytes()),
            sender_life: self.config.life,
        })
    }

    /// How this node answers to, and opens, a hello.
    pub(in crate::server::raft) fn introduction(&self) -> wire::Introduction {
        let founders = match &self.config.bootstrap {
            Bootstrap::Join => Vec::new(),
            Bootstrap::Found(list) => list
                .nodes()
                .iter()
                .map(|(id, address)| wire::PeerAddress {
                    node_id: *id,
                    peer_address: address.clone(),
                })
                .collect(),
        };
        wire::Introduction {
            protocol: wire::Protocol::Protocol1.into(),
            node_id: self.node_id,
            instance: Bytes::copy_from_slice(&self.instance.to_bytes()),
            cluster_id: self
                .cluster()
                .map(|cluster| Bytes::copy_from_slice(&cluster.get().to_be_bytes()))
                .unwrap_or_default(),
            issuer: self.config.issuer.to_string(),
            peer_address: self.config.peer_address.clone(),
            client_address: self.config.client_address.clone(),
            boot: self.boot,
            term: self.term(),
            founders,
            life: self.config.life,
        }
    }
}
