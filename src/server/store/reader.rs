//! Reading entries and snapshots from the database, beside the storage thread.
//!
//! Readers never wait for a flush: sled's reads take no lock that a flush holds.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;

use super::contract::{SnapshotManifest, SnapshotReader};
use super::entry::Entry;
use super::error::StoreError;
use super::run::Unpacker;
use super::shared::{Database, Shared};
use super::trees::{self, CHUNK_BYTES, Trees};

/// Chunks in one piece of a snapshot: 64 KiB.
const CHUNKS_A_PIECE: u64 = 16;

/// Reads entries of `range` from its start, until the payloads pass `bytes_max`.
///
/// Returns what is there, which may be less than asked for if the log is truncated or purged
/// meanwhile; the caller knows whether it was.
pub(super) fn read_entries(
    trees: &Trees,
    range: &Range<u64>,
    bytes_max: usize,
) -> Result<Vec<Entry>, StoreError> {
    let failed = |e: sled::Error| StoreError::sled("reading the log", &e);
    let start = range.start.to_be_bytes();
    // The run that holds the first entry begins at it or before it. Keys of 8 bytes begin a run.
    let mut begin = start.to_vec();
    for item in trees.log.range(..=start).rev() {
        let (key, _) = item.map_err(failed)?;
        if key.len() == start.len() {
            begin = key.to_vec();
            break;
        }
    }
    let mut unpacker = Unpacker::default();
    let mut found: Vec<Entry> = Vec::new();
    let mut bytes = 0;
    for item in trees.log.range(begin..) {
        let (key, value) = item.map_err(failed)?;
        let Some((run, entries)) = unpacker.take(&key, &value).map_err(StoreError::damaged)? else {
            continue;
        };
        if run.first >= range.end {
            break;
        }
        for entry in entries
            .into_iter()
            .filter(|entry| range.contains(&entry.index))
        {
            bytes += entry.payload.len();
            if bytes > bytes_max && !found.is_empty() {
                return Ok(found);
            }
            found.push(entry);
        }
        if run.last.saturating_add(1) >= range.end {
            break;
        }
    }
    Ok(found)
}

/// Reads one run that is known to be there and to rest in one record.
pub(super) fn read_run(trees: &Trees, first: u64) -> Result<Vec<Entry>, StoreError> {
    let missing = || StoreError::damaged(format!("the run at entry {first} is missing"));
    let key = first.to_be_bytes();
    let value = trees
        .log
        .get(key)
        .map_err(|e| StoreError::sled("reading the log", &e))?;
    let run = Unpacker::default().take(&key, &value.ok_or_else(missing)?);
    run.map_err(StoreError::damaged)?
        .map(|(_, entries)| entries)
        .ok_or_else(missing)
}

/// Opens a snapshot for reading.
pub(super) fn read_snapshot(
    database: Arc<Database>,
    shared: Arc<Shared>,
    manifest: SnapshotManifest,
) -> SnapshotReader {
    let content = Content {
        database,
        shared,
        number: manifest.number,
        meta_bytes: manifest.meta.len() as u64,
        bytes: manifest.bytes,
        given: 0,
        ended: false,
    };
    SnapshotReader {
        manifest,
        pieces: Box::new(content),
    }
}

struct Content {
    database: Arc<Database>,
    shared: Arc<Shared>,
    number: u64,
    meta_bytes: u64,
    bytes: u64,
    given: u64,
    ended: bool,
}

impl Content {
    /// Reads the chunks behind what was given, up to the end of a group of chunks.
    fn read(&self) -> Result<Bytes, StoreError> {
        let at = self.meta_bytes + self.given;
        let mut chunk = at / CHUNK_BYTES as u64;
        let mut skip = usize::try_from(at % CHUNK_BYTES as u64).unwrap_or(0);
        let until = (chunk / CHUNKS_A_PIECE + 1) * CHUNKS_A_PIECE;
        let mut piece = Vec::new();
        while chunk < until && self.given + (piece.len() as u64) < self.bytes {
            let number = u32::try_from(chunk).unwrap_or(u32::MAX);
            let key = trees::chunk_key(self.number, number);
            let value = self.database.trees().snapshot.get(key);
            let value = value.map_err(|e| StoreError::sled("reading a snapshot", &e))?;
            let Some(value) = value else {
                return Err(self.missing(chunk));
            };
            let content = trees::decode_chunk(&key, &value).map_err(StoreError::damaged)?;
            piece.extend_from_slice(content.get(skip..).unwrap_or_default());
            skip = 0;
            chunk += 1;
        }
        Ok(piece.into())
    }

    fn missing(&self, chunk: u64) -> StoreError {
        let current = self
            .shared
            .window()
            .snapshot
            .as_ref()
            .map(|manifest| manifest.number);
        if current == Some(self.number) {
            return StoreError::damaged(format!(
                "chunk {chunk} of snapshot {} is missing",
                self.number
            ));
        }
        StoreError::superseded(self.number)
    }
}

impl Iterator for Content {
    type Item = Result<Bytes, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended || self.given >= self.bytes {
            return None;
        }
        let piece = super::quiet::catch(|| self.read());
        let piece = piece.unwrap_or_else(|m| Err(StoreError::panicked("reading a snapshot", &m)));
        match &piece {
            Ok(piece) => self.given += piece.len() as u64,
            Err(error) => {
                self.ended = true;
                if error.is_final() {
                    self.shared.fail(error.clone());
                }
            }
        }
        Some(piece)
    }
}
