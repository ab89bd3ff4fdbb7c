//! Sending and receiving a whole state.
//!
//! The head tells how much comes; then the content goes in chunks far below the message limit, read
//! from the store as the transport asks for them. The answer comes after the receiver has installed it,
//! so there is nothing to wait for before the stream is fed.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{
    FutureExt, Stream, StreamExt,
    future::BoxFuture,
    stream::{self, BoxStream},
};
use openraft::{RPCTypes, errors::StreamingError, raft::SnapshotResponse};
use tonic::{Status, Streaming, transport::Channel};

use super::{
    client::{Caller, unreadable},
    convert,
};
use crate::{
    server::raft::{
        encoding::SnapshotHead,
        machine::SnapshotContent,
        types::{Types, Vote},
    },
    wire::peer_v1::{self as wire, peer_client::PeerClient, snapshot_request::Part},
};

/// How long a transfer may make no progress. Installing is part of it: decoding and writing a large
/// state takes seconds on a busy disk.
const STALL_MAX: Duration = Duration::from_secs(30);

/// The largest state that is taken from a leader: far beyond what the limits of the core allow.
const STATE_BYTES_MAX: u64 = 4 << 30;

/// Sends a snapshot, and waits until it is installed. Boxed, because the compiler cannot see through
/// the openraft trait otherwise.
pub(super) fn send(
    caller: &Caller,
    client: PeerClient<Channel>,
    envelope: wire::Envelope,
    vote: Vote,
    snapshot: openraft::alias::SnapshotOf<Types, SnapshotContent>,
) -> BoxFuture<'_, Result<SnapshotResponse<Types>, StreamingError<Types>>> {
    transfer(caller, client, envelope, vote, snapshot.snapshot).boxed()
}

async fn transfer(
    caller: &Caller,
    mut client: PeerClient<Channel>,
    envelope: wire::Envelope,
    vote: Vote,
    content: SnapshotContent,
) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
    let head = wire::SnapshotHead {
        envelope: Some(envelope),
        leader: Some(convert::ballot(&vote)),
        meta: content.head.encode(),
        chunks: 0,
        bytes: content.bytes(),
    };
    let moved = Arc::new(AtomicU64::new(0));
    let counter = Arc::clone(&moved);
    let requests = requests(head, content, counter);
    let mut call = async move { client.snapshot(requests).await }.boxed();
    loop {
        let before = moved.load(Ordering::Relaxed);
        match tokio::time::timeout(STALL_MAX, &mut call).await {
            Ok(Ok(reply)) => {
                let vote = convert::vote(reply.into_inner().ballot).map_err(unreadable)?;
                return Ok(SnapshotResponse::new(vote));
            }
            Ok(Err(status)) => {
                return Err(caller
                    .failed(RPCTypes::InstallSnapshot, STALL_MAX, &status)
                    .into());
            }
            Err(_) if moved.load(Ordering::Relaxed) == before => {
                return Err(caller
                    .timed_out(RPCTypes::InstallSnapshot, STALL_MAX)
                    .into());
            }
            Err(_) => {}
        }
    }
}

/// The messages of one transfer. A type of its own, because the compiler cannot prove a boxed stream
/// to be `Send` inside the call.
struct Requests(BoxStream<'static, wire::SnapshotRequest>);

impl Stream for Requests {
    type Item = wire::SnapshotRequest;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.poll_next_unpin(context)
    }
}

/// Each chunk that the transport takes is counted.
fn requests(
    head: wire::SnapshotHead,
    content: SnapshotContent,
    counter: Arc<AtomicU64>,
) -> Requests {
    let chunks = content.into_pieces().map_while(move |piece| {
        counter.fetch_add(1, Ordering::Relaxed);
        // A piece that cannot be read cuts the stream short, and the receiver counts.
        piece
            .inspect_err(|error| tracing::warn!(%error, "a snapshot could not be read"))
            .ok()
    });
    let parts = std::iter::once(Part::Head(head)).chain(chunks.map(Part::Chunk));
    Requests(stream::iter(parts.map(|part| wire::SnapshotRequest { part: Some(part) })).boxed())
}

/// A snapshot as it came in, whole.
pub(super) struct Received {
    pub(super) vote: Vote,
    pub(super) content: SnapshotContent,
}

/// Reads the head of an incoming snapshot. Its envelope must be admitted before anything else.
pub(super) async fn receive_head(
    parts: &mut Streaming<wire::SnapshotRequest>,
) -> Result<wire::SnapshotHead, Status> {
    match next_part(parts).await? {
        Some(Part::Head(head)) => Ok(head),
        Some(Part::Chunk(_)) | None => {
            Err(Status::invalid_argument("a snapshot begins with its head"))
        }
    }
}

/// Reads the rest of it.
pub(super) async fn receive(
    head: wire::SnapshotHead,
    mut parts: Streaming<wire::SnapshotRequest>,
) -> Result<Received, Status> {
    let malformed = |error: crate::server::raft::encoding::Undecodable| {
        Status::invalid_argument(error.to_string())
    };
    let vote = convert::vote(head.leader).map_err(malformed)?;
    let meta = SnapshotHead::decode(head.meta).map_err(malformed)?;
    if head.bytes > STATE_BYTES_MAX {
        return Err(Status::invalid_argument(format!(
            "a state of {} bytes is larger than the {STATE_BYTES_MAX} that a node takes",
            head.bytes
        )));
    }
    let mut pieces: Vec<Bytes> = Vec::new();
    let mut bytes = 0;
    while let Some(part) = next_part(&mut parts).await? {
        let Part::Chunk(chunk) = part else {
            return Err(Status::invalid_argument("a snapshot has one head"));
        };
        bytes += chunk.len() as u64;
        if bytes > head.bytes {
            return Err(Status::invalid_argument(
                "a snapshot is longer than its head says",
            ));
        }
        pieces.push(chunk);
    }
    if bytes < head.bytes {
        return Err(Status::aborted(format!(
            "a snapshot ended after {bytes} of {} bytes",
            head.bytes
        )));
    }
    Ok(Received {
        vote,
        content: SnapshotContent::received(meta, pieces, bytes),
    })
}

async fn next_part(parts: &mut Streaming<wire::SnapshotRequest>) -> Result<Option<Part>, Status> {
    let next = tokio::time::timeout(STALL_MAX, parts.next()).await;
    let next = next.map_err(|_| Status::deadline_exceeded("the snapshot's sender fell silent"))?;
    match next.transpose()? {
        None => Ok(None),
        Some(wire::SnapshotRequest { part: Some(part) }) => Ok(Some(part)),
        Some(wire::SnapshotRequest { part: None }) => {
            Err(Status::invalid_argument("a part of a snapshot is empty"))
        }
    }
}
