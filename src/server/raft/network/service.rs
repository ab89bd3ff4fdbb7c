//! The answering side: every call passes the gate, then goes to openraft.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures_util::{
    Stream, StreamExt,
    stream::{BoxStream, unfold},
};
use openraft::raft::{
    AppendEntriesRequest, StreamAppendResult, TransferLeaderError, TransferLeaderRequest,
    VoteRequest,
};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use super::{
    Gate, Local, convert,
    gate::{Call, bytes16, cluster_id},
    sightings::Shown,
    snapshot,
};
use crate::{
    server::{
        raft::{
            Forwarded, Handlers, Standing, encoding::Undecodable, fate::Fate, node::Raft,
            touch::Heard, types::Types, vouch,
        },
        store::InstanceId,
    },
    wire::peer_v1::{
        self as wire, forward_reply,
        peer_server::{Peer, PeerServer},
    },
};

/// How long the first message of a stream may take: its sender has it ready when it calls.
const OPENING_MAX: Duration = Duration::from_secs(10);

/// The longest that a forwarded call is worked on, whatever its sender says.
const FORWARD_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Answers the other nodes.
#[derive(Clone)]
pub(in crate::server::raft) struct PeerService {
    pub(in crate::server::raft) raft: Raft,
    pub(in crate::server::raft) local: Arc<Local>,
    pub(in crate::server::raft) gate: Arc<Gate>,
    pub(in crate::server::raft) handlers: Handlers,
    pub(in crate::server::raft) fate: Fate,
    pub(in crate::server::raft) heard: Heard,
    /// Ends what would otherwise last as long as the caller likes.
    pub(in crate::server::raft) stop: CancellationToken,
}

impl PeerService {
    /// As a service to be served, with its limits.
    pub(in crate::server::raft) fn into_server(self) -> PeerServer<Self> {
        PeerServer::new(self)
            .max_decoding_message_size(super::MESSAGE_BYTES_MAX)
            .max_encoding_message_size(super::MESSAGE_BYTES_MAX)
    }

    async fn admit(&self, envelope: Option<wire::Envelope>, call: Call) -> Result<u64, Status> {
        if self.fate.now().is_some() {
            return Err(stopping());
        }
        Ok(self.gate.admit(envelope, call).await?)
    }
}

type Replies = Pin<Box<dyn Stream<Item = Result<wire::AppendReply, Status>> + Send>>;

#[tonic::async_trait]
impl Peer for PeerService {
    type AppendStream = Replies;
    type AttendStream = BoxStream<'static, Result<wire::AttendReply, Status>>;

    async fn hello(
        &self,
        request: Request<wire::HelloRequest>,
    ) -> Result<Response<wire::HelloReply>, Status> {
        let caller = request.into_inner().introduction;
        let caller = caller.ok_or_else(|| Status::invalid_argument("introduction is missing"))?;
        let standing = self.standing(&caller)?;
        Ok(Response::new(wire::HelloReply {
            introduction: Some(self.local.introduction()),
            standing: standing.into(),
        }))
    }

    async fn append(
        &self,
        request: Request<Streaming<wire::AppendRequest>>,
    ) -> Result<Response<Replies>, Status> {
        let mut messages = request.into_inner();
        let opening = tokio::time::timeout(OPENING_MAX, messages.message()).await;
        let opening = opening.map_err(|_| Status::deadline_exceeded("nothing was sent"))??;
        let Some(mut first) = opening else {
            return Ok(Response::new(Box::pin(futures_util::stream::empty())));
        };
        self.admit(first.envelope.take(), Call::Lead).await?;
        let first = convert::append_request(first).map_err(malformed)?;
        let requests = requests(first, messages);
        let results = self.raft.stream_append(requests);
        let replies = results
            .map(|result| reply(result.map_err(|_| stopping())))
            .take_until(self.stop.clone().cancelled_owned());
        Ok(Response::new(Box::pin(replies)))
    }

    async fn heartbeat(
        &self,
        request: Request<wire::AppendRequest>,
    ) -> Result<Response<wire::AppendReply>, Status> {
        let mut message = request.into_inner();
        self.admit(message.envelope.take(), Call::Lead).await?;
        let request = convert::append_request(message).map_err(malformed)?;
        let (previous, last) = (request.prev_log_id, request.prev_log_id);
        let response = self
            .raft
            .append_entries(request)
            .await
            .map_err(|_| stopping())?;
        let result = response.into_stream_result(previous, last);
        if result.is_ok() {
            self.heard.note((self.local.config.clock)());
        }
        Ok(Response::new(convert::append_reply(result)))
    }

    async fn vote(
        &self,
        request: Request<wire::VoteRequest>,
    ) -> Result<Response<wire::VoteReply>, Status> {
        let message = request.into_inner();
        self.admit(message.envelope, Call::Vote).await?;
        let vote = convert::vote(message.candidate).map_err(malformed)?;
        let mut request = VoteRequest::new(vote, message.last.map(convert::raft_id));
        request.leadership_transfer = message.transfer;
        let response = if message.pre_vote {
            self.raft.pre_vote(request).await
        } else {
            self.raft.vote(request).await
        };
        let response = response.map_err(|_| stopping())?;
        Ok(Response::new(wire::VoteReply {
            ballot: Some(convert::ballot(&response.vote)),
            granted: response.vote_granted,
            last: response.last_log_id.map(convert::log_id),
        }))
    }

    async fn attend(
        &self,
        request: Request<wire::AttendRequest>,
    ) -> Result<Response<Self::AttendStream>, Status> {
        self.admit(request.into_inner().envelope, Call::Attend)
            .await?;
        let nothing = futures_util::stream::pending();
        let until = self.stop.clone().cancelled_owned();
        Ok(Response::new(nothing.take_until(until).boxed()))
    }

    async fn transfer_leader(
        &self,
        request: Request<wire::TransferLeaderRequest>,
    ) -> Result<Response<wire::TransferLeaderReply>, Status> {
        let message = request.into_inner();
        self.admit(message.envelope, Call::Lead).await?;
        let leader = convert::vote(message.leader).map_err(malformed)?;
        let last = message.last.map(convert::raft_id);
        let request = TransferLeaderRequest::new(leader, message.to, last);
        let result = self
            .raft
            .handle_transfer_leader(request)
            .await
            .map_err(|_| stopping())?;
        Ok(Response::new(match result {
            Ok(()) => wire::TransferLeaderReply::default(),
            Err(TransferLeaderError::VoteChanged { actual, .. }) => wire::TransferLeaderReply {
                higher: Some(convert::ballot(&actual)),
                ..Default::default()
            },
            Err(TransferLeaderError::LogNotFlushed { actual, .. }) => wire::TransferLeaderReply {
                behind: true,
                stored: actual.map(convert::log_id),
                ..Default::default()
            },
        }))
    }

    async fn snapshot(
        &self,
        request: Request<Streaming<wire::SnapshotRequest>>,
    ) -> Result<Response<wire::SnapshotReply>, Status> {
        let mut parts = request.into_inner();
        let mut head = snapshot::receive_head(&mut parts).await?;
        let sender = self.admit(head.envelope.take(), Call::Lead).await?;
        tracing::info!(peer = sender, bytes = head.bytes, "receiving a snapshot");
        let received = snapshot::receive(head, parts).await?;
        let meta = received.content.head.meta();
        let whole = openraft::Snapshot {
            meta,
            snapshot: received.content,
        };
        let response = self.raft.install_full_snapshot(received.vote, whole).await;
        let response = response.map_err(|_| stopping())?;
        Ok(Response::new(wire::SnapshotReply {
            ballot: Some(convert::ballot(&response.vote)),
        }))
    }

    async fn forward(
        &self,
        request: Request<wire::ForwardRequest>,
    ) -> Result<Response<wire::ForwardReply>, Status> {
        let message = request.into_inner();
        self.admit(message.envelope, Call::Forward).await?;
        let limit = Duration::from_millis(message.deadline_ms).min(FORWARD_MAX);
        let handled = self
            .handlers
            .forward
            .handle(message.method, message.body, limit)
            .await;
        let outcome = match handled {
            Forwarded::Done(body) => forward_reply::Outcome::Body(body),
            Forwarded::NotLeader { leader } => {
                let leader_id = leader.unwrap_or_default();
                forward_reply::Outcome::NotLeader(wire::NotLeader { leader_id })
            }
            Forwarded::Status(status) => forward_reply::Outcome::Status(wire::ForwardedStatus {
                code: status.code,
                message: status.message,
                details: status.details,
            }),
        };
        Ok(Response::new(wire::ForwardReply {
            outcome: Some(outcome),
        }))
    }

    async fn vouch(
        &self,
        request: Request<wire::VouchRequest>,
    ) -> Result<Response<wire::VouchReply>, Status> {
        let message = request.into_inner();
        self.admit(message.envelope, Call::Vouch).await?;
        let places = vouch::decode(&message.places)
            .ok_or_else(|| Status::invalid_argument("places is not a multiple of 20 bytes"))?;
        let noted = self.handlers.vouch.vouched(&places);
        Ok(Response::new(wire::VouchReply { noted }))
    }
}

impl PeerService {
    /// What this node can say about one that introduces itself.
    fn standing(&self, caller: &wire::Introduction) -> Result<wire::Standing, Status> {
        let ours = self.local.cluster();
        let theirs = cluster_id(&caller.cluster_id);
        let instance = bytes16(&caller.instance).map(InstanceId::from_bytes);
        let instance =
            instance.ok_or_else(|| Status::invalid_argument("instance is not 16 bytes"))?;
        if ours.is_none() || !self.gate.has_members() || (theirs.is_some() && theirs != ours) {
            return Ok(wire::Standing::Unspecified);
        }
        let id = caller.node_id;
        let shown = Shown {
            boot: caller.boot,
            term: caller.term,
            life: caller.life,
        };
        if theirs.is_some() && self.gate.not_stale(id, instance, shown).is_err() {
            return Ok(wire::Standing::Stale);
        }
        Ok(match self.gate.standing(id, instance) {
            Standing::Member => wire::Standing::Member,
            Standing::Stranger => wire::Standing::Stranger,
            Standing::Replaced { .. } => wire::Standing::Replaced,
            Standing::Removed => wire::Standing::Removed,
        })
    }
}

/// The requests of a stream, as long as they are whole. A broken one ends the stream, as a broken
/// connection does: the leader begins anew from what was acknowledged.
fn requests(
    first: AppendEntriesRequest<Types>,
    messages: Streaming<wire::AppendRequest>,
) -> impl Stream<Item = AppendEntriesRequest<Types>> + Send + 'static {
    let first = futures_util::stream::once(async move { first });
    let rest = unfold(messages, |mut messages| async move {
        let message = messages.message().await.ok().flatten()?;
        match convert::append_request(message) {
            Ok(request) => Some((request, messages)),
            Err(error) => {
                tracing::warn!(%error, "a leader sent what cannot be read");
                None
            }
        }
    });
    first.chain(rest)
}

fn reply(result: Result<StreamAppendResult<Types>, Status>) -> Result<wire::AppendReply, Status> {
    result.map(convert::append_reply)
}

fn malformed(error: Undecodable) -> Status {
    Status::invalid_argument(error.to_string())
}

fn stopping() -> Status {
    Status::unavailable("this node is stopping")
}
