//! Passing a client's call to the leader: one hop at most.

use std::{error::Error, future::Future, io, pin::Pin, time::Duration};

use bytes::Bytes;
use tokio::time::Instant;
use tonic::{Code, ConnectError, Status};

use super::{
    ForwardError, ForwardStatus, LeaderHint,
    network::{Local, REFUSAL_KEY, Switchboard, Traffic},
};
use crate::{
    server::store::InstanceId,
    wire::peer_v1::{self as wire, forward_reply::Outcome},
};

/// Carries out calls that other nodes passed on. Implemented by the API layer.
pub trait ForwardHandler: Send + Sync + 'static {
    /// Carries out `method` here, within `limit`. If this node does not lead, it says so and does not
    /// pass the call on again.
    fn handle<'a>(
        &'a self,
        method: String,
        body: Bytes,
        limit: Duration,
    ) -> Pin<Box<dyn Future<Output = Forwarded> + Send + 'a>>;
}

/// How a forwarded call ended on the leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forwarded {
    /// The method's encoded response.
    Done(Bytes),
    /// This node does not lead. Nothing was done.
    NotLeader {
        /// Who does, as far as this node knows.
        leader: Option<u64>,
    },
    /// The status that the method ended with.
    Status(ForwardStatus),
}

/// Where a call goes.
pub(super) struct Leader {
    pub(super) hint: LeaderHint,
    pub(super) instance: InstanceId,
}

/// Sends one call to the leader and waits for its answer until `deadline`.
pub(super) async fn send(
    local: &Local,
    switchboard: &Switchboard,
    leader: &Leader,
    (method, body): (&str, Bytes),
    deadline: Instant,
) -> Result<Bytes, ForwardError> {
    let address = &leader.hint.peer_address;
    let unreachable = |why: String| ForwardError::Unreachable(why);
    let client = switchboard.client(address, Traffic::Forward);
    let mut client = client.map_err(|bad| unreachable(bad.to_string()))?;
    let envelope = local.envelope(leader.hint.node_id, leader.instance);
    let left = deadline.saturating_duration_since(local.now());
    let request = wire::ForwardRequest {
        envelope: Some(envelope.ok_or_else(|| unreachable("this node has no cluster".into()))?),
        method: method.to_owned(),
        body,
        deadline_ms: u64::try_from(left.as_millis()).unwrap_or(u64::MAX),
    };
    let reply = match tokio::time::timeout_at(deadline, client.forward(request)).await {
        Ok(Ok(reply)) => reply.into_inner(),
        Ok(Err(status)) => return Err(failed(&status)),
        Err(_) => return Err(ForwardError::Unknown("the deadline passed".into())),
    };
    match reply.outcome {
        Some(Outcome::Body(body)) => Ok(body),
        Some(Outcome::NotLeader(_)) => Err(ForwardError::NotLeader { hint: None }),
        Some(Outcome::Status(status)) => Err(ForwardError::Status(ForwardStatus {
            code: status.code,
            message: status.message,
            details: status.details,
        })),
        None => Err(ForwardError::Unknown("the answer is empty".into())),
    }
}

/// Whether the call may have arrived.
fn failed(status: &Status) -> ForwardError {
    let refused = status.metadata().contains_key(REFUSAL_KEY);
    if refused || (status.code() == Code::Unavailable && never_connected(status)) {
        return ForwardError::Unreachable(status.message().to_owned());
    }
    ForwardError::Unknown(status.message().to_owned())
}

/// Whether a status says that there was no connection to send anything over.
fn never_connected(status: &Status) -> bool {
    let mut source = status.source();
    while let Some(error) = source {
        if error.is::<ConnectError>() {
            return true;
        }
        if let Some(error) = error.downcast_ref::<io::Error>() {
            return error.kind() == io::ErrorKind::ConnectionRefused;
        }
        source = error.source();
    }
    false
}
