//! Between the messages of `raft.proto` and openraft's types. Nothing received is trusted to be whole.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use openraft::{
    entry::RaftEntry,
    raft::{AppendEntriesRequest, StreamAppendError, StreamAppendResult},
};

use crate::{
    issuer::LogId,
    server::raft::{
        encoding::{Undecodable, decode_payload, encode_payload},
        types::{Entry, RaftId, Types, Vote, ours, theirs},
    },
    wire::peer_v1 as wire,
};

/// Term and length before each payload of a run.
const ENTRY_HEAD_BYTES: usize = 12;

pub(super) fn ballot(vote: &Vote) -> wire::Ballot {
    wire::Ballot {
        term: vote.leader_id.term,
        node_id: vote.leader_id.voted_for,
        committed: vote.committed,
    }
}

pub(super) fn vote(ballot: Option<wire::Ballot>) -> Result<Vote, Undecodable> {
    let ballot = ballot.ok_or_else(|| Undecodable::new("a message", "its ballot is missing"))?;
    if ballot.committed {
        return Ok(Vote::new_committed(ballot.term, ballot.node_id));
    }
    Ok(Vote::new(ballot.term, ballot.node_id))
}

pub(super) fn log_id(id: RaftId) -> wire::LogId {
    let id = ours(id);
    wire::LogId {
        term: id.term,
        index: id.index,
    }
}

pub(super) fn raft_id(id: wire::LogId) -> RaftId {
    theirs(LogId::new(id.term, id.index))
}

pub(super) fn append(request: &AppendEntriesRequest<Types>) -> wire::AppendRequest {
    wire::AppendRequest {
        envelope: None,
        leader: Some(ballot(&request.vote)),
        previous: request.prev_log_id.map(log_id),
        committed: request.leader_commit.map(log_id),
        entries: run(&request.entries),
    }
}

/// Entries one behind the other. Their payloads are the bytes that rest in the log.
fn run(entries: &[Entry]) -> Bytes {
    if entries.is_empty() {
        return Bytes::new();
    }
    let payloads: Vec<Bytes> = entries.iter().map(|e| encode_payload(&e.payload)).collect();
    let size = payloads
        .iter()
        .map(|payload| ENTRY_HEAD_BYTES + payload.len())
        .sum();
    let mut run = BytesMut::with_capacity(size);
    for (entry, payload) in entries.iter().zip(payloads) {
        run.put_u64(entry.log_id.leader_id.term);
        run.put_u32(u32::try_from(payload.len()).expect("a payload is at most 64 KiB"));
        run.put_slice(&payload);
    }
    run.freeze()
}

pub(super) fn append_request(
    message: wire::AppendRequest,
) -> Result<AppendEntriesRequest<Types>, Undecodable> {
    let prev_log_id = message.previous.map(raft_id);
    Ok(AppendEntriesRequest {
        vote: vote(message.leader)?,
        prev_log_id,
        leader_commit: message.committed.map(raft_id),
        entries: entries(
            message.entries,
            prev_log_id.map_or(0, |id| id.index.saturating_add(1)),
        )?,
    })
}

/// The entries of a run. Each payload is a slice of the message: nothing is copied.
fn entries(mut run: Bytes, first: u64) -> Result<Vec<Entry>, Undecodable> {
    const WHAT: &str = "a run of entries";
    let mut entries = Vec::new();
    let mut index = first;
    while run.has_remaining() {
        let short = |_| Undecodable::new(WHAT, "it ends too early");
        let term = run.try_get_u64().map_err(short)?;
        let length = run.try_get_u32().map_err(short)? as usize;
        if run.remaining() < length {
            return Err(Undecodable::new(WHAT, "it ends too early"));
        }
        let payload = decode_payload(run.split_to(length))?;
        entries.push(Entry::new(theirs(LogId::new(term, index)), payload));
        index = index
            .checked_add(1)
            .ok_or_else(|| Undecodable::new(WHAT, "its indexes pass 64 bits"))?;
    }
    Ok(entries)
}

pub(super) fn append_reply(result: StreamAppendResult<Types>) -> wire::AppendReply {
    use wire::append_reply::Outcome;
    let outcome = match result {
        Ok(last) => Outcome::Stored(wire::Stored {
            last: last.map(log_id),
        }),
        Err(StreamAppendError::Conflict(at)) => Outcome::Conflict(log_id(at)),
        Err(StreamAppendError::HigherVote(vote)) => Outcome::Higher(ballot(&vote)),
    };
    wire::AppendReply {
        outcome: Some(outcome),
    }
}

pub(super) fn append_result(
    reply: wire::AppendReply,
) -> Result<StreamAppendResult<Types>, Undecodable> {
    use wire::append_reply::Outcome;
    match reply.outcome {
        Some(Outcome::Stored(stored)) => Ok(Ok(stored.last.map(raft_id))),
        Some(Outcome::Conflict(at)) => Ok(Err(StreamAppendError::Conflict(raft_id(at)))),
        Some(Outcome::Higher(higher)) => {
            Ok(Err(StreamAppendError::HigherVote(vote(Some(higher))?)))
        }
        None => Err(Undecodable::new("a reply", "its outcome is missing")),
    }
}

#[cfg(test)]
mod tests;
