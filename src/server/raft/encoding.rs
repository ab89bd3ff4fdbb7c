//! How entries and snapshot heads are written to disk and sent: our own bytes, not images of
//! openraft's types, which change between versions.
//!
//! Every form opens with a byte that names it. Numbers are big-endian and never reused; the
//! golden-bytes tests below hold them still.
//!
//! | first byte | entry payload |
//! |---|---|
//! | 1 | blank: a leader's first entry |
//! | 2 | a command, as `issuer::codec` writes it |
//! | 3 | a membership |

use std::collections::{BTreeMap, BTreeSet};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use thiserror::Error;

use super::{
    NodeRecord,
    types::{EntryPayload, Membership, Proposal, SnapshotMeta, StoredMembership, ours, theirs},
};
use crate::{issuer::LogId, server::store::InstanceId};

const BLANK: u8 = 1;
const COMMAND: u8 = 2;
const MEMBERSHIP: u8 = 3;
const SNAPSHOT_HEAD: u8 = 1;

/// Stored or received bytes that no version of this node has written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("cannot read {what}: {why}")]
pub(super) struct Undecodable {
    what: &'static str,
    why: String,
}

impl Undecodable {
    pub(super) fn new(what: &'static str, why: impl Into<String>) -> Self {
        Self {
            what,
            why: why.into(),
        }
    }
}

impl From<Undecodable> for std::io::Error {
    fn from(error: Undecodable) -> Self {
        Self::new(std::io::ErrorKind::InvalidData, error)
    }
}

/// Opens a command's payload: the codec's bytes follow.
pub(super) fn command_head(body_bytes: usize) -> BytesMut {
    let mut payload = BytesMut::with_capacity(1 + body_bytes);
    payload.put_u8(COMMAND);
    payload
}

/// The codec's bytes in the payload of a command.
pub(super) fn command_body(proposal: &Proposal) -> &[u8] {
    proposal.0.get(1..).unwrap_or_default()
}

/// The bytes of an entry's payload. A command's were made when it was proposed.
pub(super) fn encode_payload(payload: &EntryPayload) -> Bytes {
    match payload {
        EntryPayload::Blank => Bytes::from_static(&[BLANK]),
        EntryPayload::Normal(proposal) => proposal.0.clone(),
        EntryPayload::Membership(membership) => {
            let mut bytes = BytesMut::new();
            bytes.put_u8(MEMBERSHIP);
            put_membership(&mut bytes, membership);
            bytes.freeze()
        }
    }
}

/// Reads what [`encode_payload`] wrote. A command stays encoded until it is applied.
pub(super) fn decode_payload(payload: Bytes) -> Result<EntryPayload, Undecodable> {
    match payload.first() {
        Some(&BLANK) if payload.len() == 1 => Ok(EntryPayload::Blank),
        Some(&COMMAND) => Ok(EntryPayload::Normal(Proposal(payload))),
        Some(&MEMBERSHIP) => {
            let mut rest = payload.slice(1..);
            let membership = get_membership(&mut rest)?;
            nothing_left(&rest, "a membership")?;
            Ok(EntryPayload::Membership(membership))
        }
        Some(kind) => Err(Undecodable::new(
            "a log entry",
            format!("unknown kind {kind}"),
        )),
        None => Err(Undecodable::new("a log entry", "it is empty")),
    }
}

/// What a snapshot carries beside the state: where it ends, and the membership there.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SnapshotHead {
    pub(super) last: Option<LogId>,
    pub(super) membership: StoredMembership,
}

impl SnapshotHead {
    pub(super) fn meta(&self) -> SnapshotMeta {
        SnapshotMeta {
            last_log_id: self.last.map(theirs),
            last_membership: self.membership.clone(),
        }
    }

    pub(super) fn encode(&self) -> Bytes {
        let mut bytes = BytesMut::new();
        bytes.put_u8(SNAPSHOT_HEAD);
        put_log_id(&mut bytes, self.last);
        put_log_id(&mut bytes, (*self.membership.log_id()).map(ours));
        put_membership(&mut bytes, self.membership.membership());
        bytes.freeze()
    }

    pub(super) fn decode(mut bytes: Bytes) -> Result<Self, Undecodable> {
        const WHAT: &str = "a snapshot's head";
        match bytes.try_get_u8() {
            Ok(SNAPSHOT_HEAD) => {}
            Ok(other) => return Err(Undecodable::new(WHAT, format!("unknown format {other}"))),
            Err(_) => return Err(Undecodable::new(WHAT, "it is empty")),
        }
        let last = get_log_id(&mut bytes)?;
        let at = get_log_id(&mut bytes)?;
        let membership = get_membership(&mut bytes)?;
        nothing_left(&bytes, WHAT)?;
        let membership = StoredMembership::new(at.map(theirs), membership);
        Ok(Self { last, membership })
    }
}

fn put_membership(bytes: &mut BytesMut, membership: &Membership) {
    let configs = membership.get_joint_config();
    put_count(bytes, configs.len());
    for config in configs {
        put_ids(bytes, config);
    }
    let nodes: Vec<_> = membership.nodes().collect();
    put_count(bytes, nodes.len());
    for (id, node) in nodes {
        bytes.put_u64(*id);
        bytes.put_slice(&node.instance.to_bytes());
        put_text(bytes, &node.peer_address);
        put_text(bytes, &node.client_address);
    }
}

fn get_membership(bytes: &mut Bytes) -> Result<Membership, Undecodable> {
    let mut configs = Vec::new();
    for _ in 0..get_count(bytes)? {
        configs.push(get_ids(bytes)?);
    }
    let mut nodes = BTreeMap::new();
    for _ in 0..get_count(bytes)? {
        let id = bytes.try_get_u64().map_err(short)?;
        let mut instance = [0; 16];
        bytes.try_copy_to_slice(&mut instance).map_err(short)?;
        let record = NodeRecord {
            instance: InstanceId::from_bytes(instance),
            peer_address: get_text(bytes)?,
            client_address: get_text(bytes)?,
        };
        nodes.insert(id, record);
    }
    if configs.is_empty() && nodes.is_empty() {
        return Ok(Membership::default());
    }
    Membership::new(configs, nodes)
        .map_err(|error| Undecodable::new("a membership", error.to_string()))
}

fn put_ids(bytes: &mut BytesMut, ids: &BTreeSet<u64>) {
    put_count(bytes, ids.len());
    for id in ids {
        bytes.put_u64(*id);
    }
}

fn get_ids(bytes: &mut Bytes) -> Result<BTreeSet<u64>, Undecodable> {
    let count = get_count(bytes)?;
    (0..count)
        .map(|_| bytes.try_get_u64().map_err(short))
        .collect()
}

fn put_log_id(bytes: &mut BytesMut, id: Option<LogId>) {
    match id {
        None => bytes.put_u8(0),
        Some(id) => {
            bytes.put_u8(1);
            bytes.put_u64(id.term);
            bytes.put_u64(id.index);
        }
    }
}

fn get_log_id(bytes: &mut Bytes) -> Result<Option<LogId>, Undecodable> {
    match bytes.try_get_u8().map_err(short)? {
        0 => Ok(None),
        1 => {
            let term = bytes.try_get_u64().map_err(short)?;
            let index = bytes.try_get_u64().map_err(short)?;
            Ok(Some(LogId::new(term, index)))
        }
        other => Err(Undecodable::new(
            "a log id",
            format!("unknown mark {other}"),
        )),
    }
}

fn put_text(bytes: &mut BytesMut, text: &str) {
    put_count(bytes, text.len());
    bytes.put_slice(text.as_bytes());
}

fn get_text(bytes: &mut Bytes) -> Result<String, Undecodable> {
    let length = get_count(bytes)?;
    if bytes.remaining() < length {
        return Err(short(()));
    }
    let text = bytes.split_to(length);
    String::from_utf8(text.to_vec()).map_err(|_| Undecodable::new("an address", "it is not UTF-8"))
}

/// Counts are 32 bits: nodes, ids and address lengths are bounded far below.
fn put_count(bytes: &mut BytesMut, count: usize) {
    bytes.put_u32(u32::try_from(count).expect("a membership has fewer than 2^32 of anything"));
}

fn get_count(bytes: &mut Bytes) -> Result<usize, Undecodable> {
    let count = bytes.try_get_u32().map_err(short)?;
    usize::try_from(count).map_err(short)
}

fn nothing_left(bytes: &Bytes, what: &'static str) -> Result<(), Undecodable> {
    if bytes.is_empty() {
        return Ok(());
    }
    Err(Undecodable::new(
        what,
        format!("{} bytes too many", bytes.len()),
    ))
}

fn short<E>(_: E) -> Undecodable {
    Undecodable::new("stored bytes", "they end too early")
}

#[cfg(test)]
mod tests;
