//! The append stream, on the leader's side.
//!
//! openraft hands over a stream of requests and wants a stream of results in the same order. Both are
//! tied to one gRPC call. A request is sent when the transport has room for it, not when the one before
//! was answered: that is the pipelining. The call is only given up when something was sent and nothing
//! at all came back for longer than [`patience`].

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures_util::{
    FutureExt, Stream, StreamExt,
    future::BoxFuture,
    stream::{BoxStream, unfold},
};
use openraft::{
    RPCTypes,
    errors::RPCError,
    raft::{AppendEntriesRequest, StreamAppendResult},
};
use tonic::{Response, Status, Streaming, transport::Channel};

use super::{
    client::{Caller, unreadable},
    convert,
};
use crate::{
    server::raft::{Timing, types::Types},
    wire::peer_v1::{self as wire, peer_client::PeerClient},
};

type Outcome = Result<StreamAppendResult<Types>, RPCError<Types>>;

/// The least patience with a follower's disk: an fdatasync may take seconds on a bad day, and sending
/// everything again would not make it faster.
const PATIENCE_MIN: Duration = Duration::from_secs(2);

/// How long a follower may leave a request unanswered before the call is given up and tried anew.
pub(super) fn patience(timing: &Timing) -> Duration {
    PATIENCE_MIN.max(timing.election_max * 4)
}

/// One call to `append`, for as long as `input` lasts.
pub(super) fn session<'s, S>(
    caller: &'s Caller,
    mut client: PeerClient<Channel>,
    envelope: wire::Envelope,
    input: S,
    patience: Duration,
) -> BoxStream<'s, Outcome>
where
    S: Stream<Item = AppendEntriesRequest<Types>> + Send + Unpin + 'static,
{
    let (sent, term) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (counter, leading) = (Arc::clone(&sent), Arc::clone(&term));
    let mut envelope = Some(envelope);
    let requests = input.map(move |request| {
        counter.fetch_add(1, Ordering::Relaxed);
        leading.store(request.vote.leader_id.term, Ordering::Relaxed);
        let mut message = convert::append(&request);
        message.envelope = envelope.take();
        message
    });
    let opening = async move { client.append(requests).await }.boxed();
    let session = Session {
        caller,
        patience,
        term,
        sent,
        answered: 0,
        state: State::Opening(opening),
    };
    Box::pin(unfold(session, |mut session| async move {
        let outcome = session.next().await?;
        Some((outcome, session))
    }))
}

struct Session<'s> {
    caller: &'s Caller,
    patience: Duration,
    /// The term that this node leads: one stream is of one leadership.
    term: Arc<AtomicU64>,
    /// Requests that the transport has taken.
    sent: Arc<AtomicU64>,
    /// Replies that came back.
    answered: u64,
    state: State,
}

type Replies = Streaming<wire::AppendReply>;

enum State {
    /// The peer has not answered at all yet.
    Opening(BoxFuture<'static, Result<Response<Replies>, Status>>),
    Open(Box<Replies>),
    Over,
}

impl Session<'_> {
    /// The next result; `None` once the call is over.
    async fn next(&mut self) -> Option<Outcome> {
        loop {
            let owed = self.sent.load(Ordering::Relaxed) > self.answered;
            match tokio::time::timeout(self.patience, self.state.reply()).await {
                Ok(Ok(Some(reply))) => {
                    self.answered += 1;
                    let term = self.term.load(Ordering::Relaxed);
                    let result = convert::append_result(reply).map_err(unreadable);
                    return Some(result.and_then(|result| self.caller.checked(term, result)));
                }
                Ok(Ok(None)) => return None,
                Ok(Err(status)) => {
                    self.state = State::Over;
                    let action = RPCTypes::AppendEntries;
                    return Some(Err(self.caller.failed(action, self.patience, &status)));
                }
                Err(_) if owed => {
                    self.state = State::Over;
                    let action = RPCTypes::AppendEntries;
                    return Some(Err(self.caller.timed_out(action, self.patience)));
                }
                // Nothing was asked when the wait began, so nothing is late.
                Err(_) => {}
            }
        }
    }
}

impl State {
    /// Waits for one message. May be dropped and called again: nothing gets lost.
    async fn reply(&mut self) -> Result<Option<wire::AppendReply>, Status> {
        loop {
            match self {
                Self::Opening(opening) => {
                    let replies = opening.await?.into_inner();
                    *self = Self::Open(Box::new(replies));
                }
                Self::Open(replies) => return replies.message().await,
                Self::Over => return Ok(None),
            }
        }
    }
}
