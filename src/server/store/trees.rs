//! The three trees of the database, and the small records in two of them.
//!
//! `log` holds runs (see `run`). `meta` holds single facts under the names below. `snapshot` holds
//! the content of a snapshot in chunks: key = snapshot number (u64, big-endian) and chunk number
//! (u32, big-endian), value = `01 crc32c bytes`, at most 4 KiB. The caller's meta bytes come first
//! in that content, so that no value is ever larger.

use bytes::{Buf, Bytes};
use sled::{Db, Tree};

use super::entry::{LogId, StoredVote};
use super::identity::InstanceId;
use super::run::RECORD_BYTES_MAX;

const FORMAT: u8 = 1;
const CHUNK_HEAD: usize = 1 + 4;

/// Content bytes of one chunk of a snapshot.
pub(super) const CHUNK_BYTES: usize = RECORD_BYTES_MAX - CHUNK_HEAD;

pub(super) const OWNER: &str = "owner";
pub(super) const BOOTS: &str = "boots";
pub(super) const VOTE: &str = "vote";
pub(super) const PURGED: &str = "purged";
pub(super) const COMMITTED: &str = "committed";
pub(super) const MANIFEST: &str = "manifest";

/// Handles of the open trees.
#[derive(Clone)]
pub(super) struct Trees {
    pub(super) log: Tree,
    pub(super) meta: Tree,
    pub(super) snapshot: Tree,
}

impl Trees {
    pub(super) fn open(db: &Db) -> sled::Result<Self> {
        Ok(Self {
            log: db.open_tree("log")?,
            meta: db.open_tree("meta")?,
            snapshot: db.open_tree("snapshot")?,
        })
    }
}

/// A value of the `meta` tree.
pub(super) trait Record: Sized {
    fn put(&self, to: &mut Vec<u8>);
    fn take(from: &mut Bytes) -> Option<Self>;

    /// Format byte, checksum over name and content, content.
    fn encode(&self, name: &str) -> Vec<u8> {
        let mut content = Vec::new();
        self.put(&mut content);
        let mut value = vec![FORMAT];
        value.extend_from_slice(&checksum(name.as_bytes(), &content).to_le_bytes());
        value.extend_from_slice(&content);
        value
    }

    fn decode(name: &str, value: &[u8]) -> Result<Self, String> {
        let content = open(name.as_bytes(), value).map_err(|what| format!("`{name}` {what}"))?;
        let mut content = Bytes::copy_from_slice(content);
        match Self::take(&mut content) {
            Some(record) if content.is_empty() => Ok(record),
            _ => Err(format!("`{name}` is not what this version writes")),
        }
    }
}

fn checksum(key: &[u8], content: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(key), content)
}

fn open<'a>(key: &[u8], value: &'a [u8]) -> Result<&'a [u8], &'static str> {
    let (head, content) = value
        .split_first_chunk::<CHUNK_HEAD>()
        .ok_or("is too short")?;
    if head[0] != FORMAT {
        return Err("has an unknown format");
    }
    if head[1..] != checksum(key, content).to_le_bytes() {
        return Err("does not match its checksum");
    }
    Ok(content)
}

impl Record for u64 {
    fn put(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.to_le_bytes());
    }

    fn take(from: &mut Bytes) -> Option<Self> {
        from.try_get_u64_le().ok()
    }
}

impl Record for LogId {
    fn put(&self, to: &mut Vec<u8>) {
        self.term.put(to);
        self.index.put(to);
    }

    fn take(from: &mut Bytes) -> Option<Self> {
        Some(Self {
            term: u64::take(from)?,
            index: u64::take(from)?,
        })
    }
}

impl<T: Record> Record for Option<T> {
    fn put(&self, to: &mut Vec<u8>) {
        to.push(u8::from(self.is_some()));
        if let Some(record) = self {
            record.put(to);
        }
    }

    fn take(from: &mut Bytes) -> Option<Self> {
        match from.try_get_u8().ok()? {
            0 => Some(None),
            1 => T::take(from).map(Some),
            _ => None,
        }
    }
}

impl Record for StoredVote {
    fn put(&self, to: &mut Vec<u8>) {
        self.term.put(to);
        self.node_id.put(to);
        to.push(u8::from(self.committed));
    }

    fn take(from: &mut Bytes) -> Option<Self> {
        let (term, node_id) = (u64::take(from)?, Record::take(from)?);
        let committed = match from.try_get_u8().ok()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        Some(Self {
            term,
            node_id,
            committed,
        })
    }
}

/// Whose database this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Owner {
    pub(super) node_id: u64,
    pub(super) instance: InstanceId,
}

impl Record for Owner {
    fn put(&self, to: &mut Vec<u8>) {
        self.node_id.put(to);
        to.extend_from_slice(&self.instance.to_bytes());
    }

    fn take(from: &mut Bytes) -> Option<Self> {
        let node_id = u64::take(from)?;
        let mut instance = [0; 16];
        from.try_copy_to_slice(&mut instance).ok()?;
        Some(Self {
            node_id,
            instance: InstanceId::from_bytes(instance),
        })
    }
}

/// Says which snapshot is the current one, and how long it must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) number: u64,
    pub(super) last: Option<LogId>,
    pub(super) meta_bytes: u64,
    pub(super) content_bytes: u64,
}

impl Manifest {
    /// Chunks that hold meta and content.
    pub(super) fn chunks(&self) -> u64 {
        (self.meta_bytes.saturating_add(self.content_bytes)).div_ceil(CHUNK_BYTES as u64)
    }
}

impl Record for Manifest {
    fn put(&self, to: &mut Vec<u8>) {
        self.number.put(to);
        self.last.put(to);
        self.meta_bytes.put(to);
        self.content_bytes.put(to);
    }

    fn take(from: &mut Bytes) -> Option<Self> {
        Some(Self {
            number: u64::take(from)?,
            last: Record::take(from)?,
            meta_bytes: u64::take(from)?,
            content_bytes: u64::take(from)?,
        })
    }
}

/// Key of a chunk.
pub(super) fn chunk_key(number: u64, chunk: u32) -> [u8; 12] {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&number.to_be_bytes());
    key[8..].copy_from_slice(&chunk.to_be_bytes());
    key
}

/// Value of a chunk.
pub(super) fn encode_chunk(key: &[u8; 12], content: &[u8]) -> Vec<u8> {
    let mut value = Vec::with_capacity(CHUNK_HEAD + content.len());
    value.push(FORMAT);
    value.extend_from_slice(&checksum(key, content).to_le_bytes());
    value.extend_from_slice(content);
    value
}

/// Content of a chunk.
pub(super) fn decode_chunk<'a>(key: &[u8], value: &'a [u8]) -> Result<&'a [u8], String> {
    open(key, value).map_err(|what| format!("a chunk of a snapshot {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    #[test]
    fn the_bytes_of_the_records_are_these_for_ever() {
        let id = LogId {
            term: 3,
            index: 0x0102,
        };
        assert_eq!(
            hex(&id.encode("purged")[5..]),
            "03000000000000000201000000000000"
        );
        let vote = StoredVote {
            term: 5,
            node_id: Some(2),
            committed: true,
        };
        assert_eq!(
            hex(&vote.encode("vote")[5..]),
            "050000000000000001020000000000000001"
        );
        let manifest = Manifest {
            number: 1,
            last: Some(id),
            meta_bytes: 2,
            content_bytes: 3,
        };
        assert_eq!(
            hex(&manifest.encode("manifest")[5..]),
            "0100000000000000010300000000000000020100000000000002000000000000000300000000000000"
        );
        let owner = Owner {
            node_id: 1,
            instance: InstanceId::from_bytes([7; 16]),
        };
        assert_eq!(
            hex(&owner.encode("owner")[5..]),
            "010000000000000007070707070707070707070707070707"
        );
    }

    #[test]
    fn a_flipped_bit_or_another_name_is_found() {
        let vote = StoredVote {
            term: 5,
            node_id: None,
            committed: false,
        };
        let good = vote.encode(VOTE);
        assert_eq!(StoredVote::decode(VOTE, &good), Ok(vote));
        assert!(StoredVote::decode(COMMITTED, &good).is_err());
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(StoredVote::decode(VOTE, &bytes).is_err(), "bit {bit}");
        }
        let key = chunk_key(4, 2);
        let chunk = encode_chunk(&key, b"content");
        assert_eq!(decode_chunk(&key, &chunk), Ok(&b"content"[..]));
        assert!(decode_chunk(&chunk_key(4, 3), &chunk).is_err());
    }
}
