//! Asking a node who it is.

use std::{collections::BTreeMap, time::Duration};

use thiserror::Error;
use tonic::Code;

use super::network::{Local, Switchboard, Traffic};
use crate::{
    grant::ClusterId,
    server::store::InstanceId,
    wire::peer_v1::{self as wire, Standing},
};

/// How long a node may take to say who it is.
const ANSWER_MAX: Duration = Duration::from_secs(1);

/// How a node introduced itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Introduced {
    pub(super) node_id: u64,
    pub(super) instance: InstanceId,
    /// `None`: blank.
    pub(super) cluster: Option<ClusterId>,
    pub(super) issuer: String,
    pub(super) client_address: String,
    /// Empty: it joins.
    pub(super) founders: BTreeMap<u64, String>,
    /// What its membership says about the one who asked.
    pub(super) standing: Standing,
}

/// Why a node did not say who it is.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum HelloError {
    #[error("nobody answers at {address}: {why}")]
    NoAnswer { address: String, why: String },
    #[error("what answers at {address} is not a node of this version: {why}")]
    NotANode { address: String, why: &'static str },
    #[error(
        "{address} is not the peer port of a fencepost node; the defaults are 7100 (clients), 7200 (peers) and \
         7300 (HTTP)"
    )]
    WrongPort { address: String },
}

/// Introduces this node at an address, and reads the answer.
pub(super) async fn hello(
    local: &Local,
    switchboard: &Switchboard,
    address: &str,
) -> Result<Introduced, HelloError> {
    let no_answer = |why: String| HelloError::NoAnswer {
        address: address.to_owned(),
        why,
    };
    let client = switchboard.client(address, Traffic::Control);
    let mut client = client.map_err(|bad| no_answer(bad.to_string()))?;
    let request = wire::HelloRequest {
        introduction: Some(local.introduction()),
    };
    let reply = tokio::time::timeout(ANSWER_MAX, client.hello(request)).await;
    let reply = reply.map_err(|_| no_answer("no answer in time".to_owned()))?;
    let reply = reply
        .map_err(|status| match status.code() {
            // Somebody listens who does not know the call: a node's other ports answer so.
            Code::Unimplemented => HelloError::WrongPort {
                address: address.to_owned(),
            },
            code if status.message().is_empty() => no_answer(code.description().to_owned()),
            _ => no_answer(status.message().to_owned()),
        })?
        .into_inner();
    let standing = reply.standing();
    let not_a_node = |why| HelloError::NotANode {
        address: address.to_owned(),
        why,
    };
    let them = reply
        .introduction
        .ok_or_else(|| not_a_node("it did not introduce itself"))?;
    if them.protocol() != wire::Protocol::Protocol1 {
        return Err(not_a_node("it speaks another version of the peer protocol"));
    }
    let instance = them.instance[..]
        .try_into()
        .map_err(|_| not_a_node("its instance is no id"))?;
    let cluster = match them.cluster_id.len() {
        0 => None,
        _ => Some(
            them.cluster_id[..]
                .try_into()
                .map(ClusterId::from_bytes)
                .map_err(|_| not_a_node("its cluster is no id"))?,
        ),
    };
    Ok(Introduced {
        node_id: them.node_id,
        instance: InstanceId::from_bytes(instance),
        cluster,
        issuer: them.issuer,
        client_address: them.client_address,
        founders: them
            .founders
            .into_iter()
            .map(|f| (f.node_id, f.peer_address))
            .collect(),
        standing,
    })
}
