//! The calling side: what openraft asks of a peer, as calls with deadlines.

use std::{
    future::Future,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use futures_util::{Stream, stream::BoxStream};
use openraft::{
    RPCTypes, RaftNetworkFactory, RaftNetworkV2,
    errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable},
    network::{Backoff, RPCOption, stream_append_sequential},
    raft::{
        AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendError,
        StreamAppendResult, TransferLeaderError, TransferLeaderRequest, TransferLeaderResponse,
        VoteRequest, VoteResponse,
    },
};
use tokio::sync::watch;
use tonic::{Code, Response, Status, Streaming, transport::Channel};

use super::{
    Gate, Local, REFUSAL_KEY, Refusal, append, convert,
    links::{SharedSwitchboard, Traffic},
    sightings::Sightings,
    snapshot,
};
use crate::{
    server::raft::{
        NodeRecord, Roster, encoding::Undecodable, fate::Fate, machine::SnapshotContent,
        types::Types, types::Vote,
    },
    wire::peer_v1::{self as wire, peer_client::PeerClient},
};

/// Delays before a peer that could not be reached is tried again. Short: a node that comes back is
/// part of the quorum again at once, and a refused connection costs little.
const BACKOFF_MS: [u64; 4] = [50, 100, 200, 400];

/// Makes the callers that openraft asks for.
#[derive(Clone)]
pub(in crate::server::raft) struct Dialer {
    pub(in crate::server::raft) local: Arc<Local>,
    pub(in crate::server::raft) switchboard: SharedSwitchboard,
    pub(in crate::server::raft) fate: Fate,
    pub(in crate::server::raft) seen: Arc<Mutex<Sightings>>,
}

/// Calls one peer, for one purpose.
pub(in crate::server::raft) struct Caller {
    dialer: Dialer,
    target: u64,
    record: NodeRecord,
    purpose: Purpose,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// The log, and votes.
    Log,
    /// Signs of life, one by one.
    Heartbeat,
    /// Snapshots.
    Snapshot,
}

impl Dialer {
    /// The check of the calls that come in. It knows what the calls that go out find.
    pub(in crate::server::raft) fn gate(&self, roster: watch::Receiver<Arc<Roster>>) -> Gate {
        let (local, seen) = (Arc::clone(&self.local), Arc::clone(&self.seen));
        Gate::new(local, roster, self.fate.clone(), seen)
    }

    fn caller(&self, target: u64, record: &NodeRecord, purpose: Purpose) -> Caller {
        Caller {
            dialer: self.clone(),
            target,
            record: record.clone(),
            purpose,
        }
    }

    /// Attends the leader: the stream ends when its process does.
    pub(in crate::server::raft) async fn attend(
        &self,
        leader: u64,
        record: &NodeRecord,
    ) -> Result<Streaming<wire::AttendReply>, Status> {
        let client = self
            .switchboard
            .client(&record.peer_address, Traffic::Control);
        let mut client = client.map_err(|bad| Status::unavailable(bad.to_string()))?;
        let envelope = self.local.envelope(leader, record.instance);
        let attended = client.attend(wire::AttendRequest { envelope }).await;
        Ok(attended
            .inspect_err(|status| self.note(leader, status))?
            .into_inner())
    }

    /// Looks at a failed call, and says what became of this node if the peer told.
    fn note(&self, target: u64, status: &Status) {
        let Some(code) = status
            .metadata()
            .get(REFUSAL_KEY)
            .and_then(|code| code.to_str().ok())
        else {
            return;
        };
        if Refusal::ends_caller(code) {
            self.fate.identity(status.message());
        } else {
            tracing::warn!(
                peer = target,
                reason = status.message(),
                "a peer refused this node"
            );
        }
    }
}

impl RaftNetworkFactory<Types> for Dialer {
    type Network = Caller;

    async fn new_client(&mut self, target: u64, node: &NodeRecord) -> Caller {
        self.caller(target, node, Purpose::Log)
    }

    async fn new_heartbeat_client(&mut self, target: u64, node: &NodeRecord) -> Caller {
        self.caller(target, node, Purpose::Heartbeat)
    }

    async fn new_snapshot_client(&mut self, target: u64, node: &NodeRecord) -> Caller {
        self.caller(target, node, Purpose::Snapshot)
    }
}

impl Caller {
    fn client(&self, traffic: Traffic) -> Result<PeerClient<Channel>, RPCError<Types>> {
        let client = self
            .dialer
            .switchboard
            .client(&self.record.peer_address, traffic);
        client.map_err(|bad| RPCError::Unreachable(Unreachable::new(&bad)))
    }

    /// The envelope, which only a node of a cluster can write.
    fn envelope(&self) -> Result<wire::Envelope, RPCError<Types>> {
        let envelope = self
            .dialer
            .local
            .envelope(self.target, self.record.instance);
        envelope.ok_or_else(|| {
            RPCError::Unreachable(Unreachable::from_string(
                "this node belongs to no cluster yet",
            ))
        })
    }

    /// Runs one call, within its time.
    async fn within<T>(
        &self,
        action: RPCTypes,
        limit: Duration,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, RPCError<Types>> {
        match tokio::time::timeout(limit, call).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => Err(self.failed(action, limit, &status)),
            Err(_) => Err(self.timed_out(action, limit)),
        }
    }

    /// What a status means to openraft: whether it should wait before it tries again.
    pub(super) fn failed(
        &self,
        action: RPCTypes,
        limit: Duration,
        status: &Status,
    ) -> RPCError<Types> {
        self.dialer.note(self.target, status);
        match status.code() {
            Code::DeadlineExceeded => self.timed_out(action, limit),
            Code::Unavailable | Code::FailedPrecondition | Code::Unimplemented => {
                RPCError::Unreachable(Unreachable::new(status))
            }
            _ => RPCError::Network(NetworkError::new(status)),
        }
    }

    /// Looks at a follower's answer before openraft does, which takes it for granted that nobody lacks
    /// what he had acknowledged: it would end this leader, or never get on with that follower.
    pub(super) fn checked(
        &self,
        term: u64,
        result: StreamAppendResult<Types>,
    ) -> Result<StreamAppendResult<Types>, RPCError<Types>> {
        let instance = self.record.instance;
        let mut seen = (self.dialer.seen.lock()).unwrap_or_else(PoisonError::into_inner);
        match &result {
            Ok(Some(stored)) => seen.acknowledges(instance, term, stored.index),
            Err(StreamAppendError::Conflict(at)) if seen.lacks(instance, term, at.index) => {
                let refusal = Refusal::Lost { node: self.target };
                tracing::error!(peer = self.target, index = at.index, "{refusal}");
                let told = Unreachable::from_string(refusal.to_string());
                return Err(RPCError::Unreachable(told));
            }
            Ok(None) | Err(_) => {}
        }
        Ok(result)
    }

    pub(super) fn timed_out(&self, action: RPCTypes, timeout: Duration) -> RPCError<Types> {
        let (id, target) = (self.dialer.local.node_id, self.target);
        RPCError::Timeout(Timeout {
            action,
            id,
            target,
            timeout,
        })
    }

    async fn ask_vote(
        &self,
        request: VoteRequest<Types>,
        pre_vote: bool,
        limit: Duration,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        let message = wire::VoteRequest {
            envelope: Some(self.envelope()?),
            candidate: Some(convert::ballot(&request.vote)),
            last: request.last_log_id.map(convert::log_id),
            pre_vote,
            transfer: request.leadership_transfer,
        };
        let mut client = self.client(Traffic::Control)?;
        let reply = self
            .within(RPCTypes::Vote, limit, client.vote(message))
            .await?;
        let vote = convert::vote(reply.ballot).map_err(unreadable)?;
        Ok(VoteResponse::new(
            vote,
            reply.last.map(convert::raft_id),
            reply.granted,
        ))
    }
}

/// An answer that no version of this software gives.
pub(super) fn unreadable(error: Undecodable) -> RPCError<Types> {
    RPCError::Network(NetworkError::new(&error))
}

impl RaftNetworkV2<Types> for Caller {
    type SnapshotData = SnapshotContent;

    /// One append without a stream: the leader's heartbeats, and how openraft checks a read.
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<Types>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        let mut message = convert::append(&request);
        message.envelope = Some(self.envelope()?);
        let term = request.vote.leader_id.term;
        if let (Purpose::Heartbeat, Some(stored)) = (self.purpose, request.prev_log_id) {
            // A heartbeat names what this follower is known to have, from a snapshot too.
            let mut seen = (self.dialer.seen.lock()).unwrap_or_else(PoisonError::into_inner);
            seen.acknowledges(self.record.instance, term, stored.index);
        }
        let mut client = self.client(Traffic::Control)?;
        let call = client.heartbeat(message);
        let reply = self
            .within(RPCTypes::AppendEntries, option.hard_ttl(), call)
            .await?;
        let result = convert::append_result(reply).map_err(unreadable)?;
        Ok(AppendEntriesResponse::from(self.checked(term, result)?))
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        option: RPCOption,
    ) -> futures_util::future::BoxFuture<
        's,
        Result<BoxStream<'s, Result<StreamAppendResult<Types>, RPCError<Types>>>, RPCError<Types>>,
    >
    where
        S: Stream<Item = AppendEntriesRequest<Types>> + Send + Unpin + 'static,
    {
        if self.purpose == Purpose::Heartbeat {
            return stream_append_sequential(self, input, option);
        }
        Box::pin(async move {
            let envelope = self.envelope()?;
            let client = self.client(Traffic::Append)?;
            let patience = append::patience(&self.dialer.local.config.timing);
            Ok(append::session(self, client, envelope, input, patience))
        })
    }

    async fn vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        self.ask_vote(request, false, option.soft_ttl()).await
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<Types>,
        option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        self.ask_vote(request, true, option.soft_ttl()).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: openraft::alias::SnapshotOf<Types, SnapshotContent>,
        cancel: impl Future<Output = ReplicationClosed> + Send + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let envelope = self.envelope()?;
        let client = self.client(Traffic::Bulk)?;
        tokio::select! {
            sent = snapshot::send(self, client, envelope, vote, snapshot) => sent,
            closed = cancel => Err(StreamingError::Closed(closed)),
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<Types>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<Types>, RPCError<Types>> {
        let message = wire::TransferLeaderRequest {
            envelope: Some(self.envelope()?),
            leader: Some(convert::ballot(request.from_leader())),
            to: *request.to_node_id(),
            last: request.last_log_id().copied().map(convert::log_id),
        };
        let mut client = self.client(Traffic::Control)?;
        let call = client.transfer_leader(message);
        let reply = self
            .within(RPCTypes::TransferLeader, option.hard_ttl(), call)
            .await?;
        if let Some(higher) = reply.higher {
            let actual = convert::vote(Some(higher)).map_err(unreadable)?;
            let expected = *request.from_leader();
            return Ok(Err(TransferLeaderError::VoteChanged { expected, actual }));
        }
        if reply.behind {
            let expected = request.last_log_id().copied();
            let actual = reply.stored.map(convert::raft_id);
            return Ok(Err(TransferLeaderError::LogNotFlushed { expected, actual }));
        }
        Ok(Ok(()))
    }

    fn backoff(&self) -> Option<Backoff> {
        let last = BACKOFF_MS[BACKOFF_MS.len() - 1];
        let delays = BACKOFF_MS.into_iter().chain(std::iter::repeat(last));
        Some(Backoff::new(delays.map(Duration::from_millis)))
    }
}
