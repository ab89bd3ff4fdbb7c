//! Membership: the leader asks Raft, which refuses what would lose the quorum.

use std::time::{Duration, Instant};

use super::status::member;
use crate::{
    server::api::{
        Api, asked,
        calls::Kind,
        method::{Halt, Method},
        propose::unchanged,
    },
    wire::{
        failure::Failure,
        v1::{self, ResponseHeader},
    },
};

/// The longest DNS name, plus `:` and a port.
const ADDRESS_CHARS_MAX: usize = 253 + 6;

/// A change of members waits for nodes that may be slow or far behind.
const CHANGE_MAX: Duration = Duration::from_secs(60);

/// `Cluster.AddNode`.
#[derive(Debug)]
pub(in crate::server::api) struct AddNode;

impl Method for AddNode {
    const PATH: &'static str = "/fencepost.v1.Cluster/AddNode";
    const NAME: &'static str = "AddNode";
    const PASS_ON_MAX: Duration = CHANGE_MAX;
    const KIND: Kind = Kind::Keeps;
    type Request = v1::AddNodeRequest;
    type Response = v1::AddNodeResponse;
    type Asked = (u64, String);

    fn read(request: &Self::Request) -> Result<Self::Asked, Failure> {
        let id = asked::node_id(request.node_id)?;
        let address = &request.peer_address;
        let port = address
            .rsplit_once(':')
            .map(|(_, port)| port.parse::<u16>());
        let plain = address.chars().all(|c| c.is_ascii_graphic());
        if !matches!(port, Some(Ok(1..))) || !plain || address.len() > ADDRESS_CHARS_MAX {
            let limit = format!("host:port, at most {ADDRESS_CHARS_MAX} characters");
            return Err(Failure::invalid("peer_address", limit));
        }
        Ok((id, address.clone()))
    }

    async fn lead(
        api: &Api,
        (id, address): &Self::Asked,
        deadline: Instant,
    ) -> Result<Self::Response, Halt> {
        let added = api.raft.add_node(*id, address, deadline).await;
        let record = added.map_err(unchanged)?;
        tracing::info!(node_id = id, peer_address = %address, "added a node as a learner");
        Ok(v1::AddNodeResponse {
            header: Some(api.header_of_now()),
            member: Some(v1::Member {
                node_id: *id,
                ..member(&record)
            }),
        })
    }

    fn header(response: &mut Self::Response) -> &mut Option<ResponseHeader> {
        &mut response.header
    }
}

/// `Cluster.Promote`.
#[derive(Debug)]
pub(in crate::server::api) struct Promote;

impl Method for Promote {
    const PATH: &'static str = "/fencepost.v1.Cluster/Promote";
    const NAME: &'static str = "Promote";
    const PASS_ON_MAX: Duration = CHANGE_MAX;
    const KIND: Kind = Kind::Keeps;
    type Request = v1::PromoteRequest;
    type Response = v1::PromoteResponse;
    type Asked = u64;

    fn read(request: &Self::Request) -> Result<u64, Failure> {
        asked::node_id(request.node_id)
    }

    async fn lead(api: &Api, id: &u64, deadline: Instant) -> Result<Self::Response, Halt> {
        api.raft.promote(*id, deadline).await.map_err(unchanged)?;
        tracing::info!(node_id = id, "gave a node a vote");
        Ok(v1::PromoteResponse {
            header: Some(api.header_of_now()),
        })
    }

    fn header(response: &mut Self::Response) -> &mut Option<ResponseHeader> {
        &mut response.header
    }
}

/// `Cluster.RemoveNode`.
#[derive(Debug)]
pub(in crate::server::api) struct RemoveNode;

impl Method for RemoveNode {
    const PATH: &'static str = "/fencepost.v1.Cluster/RemoveNode";
    const NAME: &'static str = "RemoveNode";
    const PASS_ON_MAX: Duration = CHANGE_MAX;
    const KIND: Kind = Kind::Keeps;
    type Request = v1::RemoveNodeRequest;
    type Response = v1::RemoveNodeResponse;
    type Asked = u64;

    fn read(request: &Self::Request) -> Result<u64, Failure> {
        asked::node_id(request.node_id)
    }

    async fn lead(api: &Api, id: &u64, deadline: Instant) -> Result<Self::Response, Halt> {
        let removed = api.raft.remove_node(*id, deadline).await;
        removed.map_err(unchanged)?;
        tracing::info!(node_id = id, "removed a node");
        Ok(v1::RemoveNodeResponse {
            header: Some(api.header_of_now()),
        })
    }

    fn header(response: &mut Self::Response) -> &mut Option<ResponseHeader> {
        &mut response.header
    }
}

/// `Cluster.TransferLeader`.
#[derive(Debug)]
pub(in crate::server::api) struct TransferLeader;

impl Method for TransferLeader {
    const PATH: &'static str = "/fencepost.v1.Cluster/TransferLeader";
    const NAME: &'static str = "TransferLeader";
    const PASS_ON_MAX: Duration = CHANGE_MAX;
    const KIND: Kind = Kind::Keeps;
    type Request = v1::TransferLeaderRequest;
    type Response = v1::TransferLeaderResponse;
    /// `None`: whoever is furthest along.
    type Asked = Option<u64>;

    fn read(request: &Self::Request) -> Result<Option<u64>, Failure> {
        Ok(Some(request.node_id).filter(|id| *id > 0))
    }

    async fn lead(api: &Api, to: &Option<u64>, deadline: Instant) -> Result<Self::Response, Halt> {
        let moved = api.raft.transfer_leader(*to, deadline).await;
        let leader = moved.map_err(unchanged)?;
        tracing::info!(node_id = leader.node_id, "handed leadership over");
        let term = api.leadership.borrow().term;
        Ok(v1::TransferLeaderResponse {
            header: Some(api.header_of_now()),
            leader: Some(v1::Leader {
                node_id: leader.node_id,
                address: leader.client_address,
                term,
            }),
        })
    }

    fn header(response: &mut Self::Response) -> &mut Option<ResponseHeader> {
        &mut response.header
    }
}
