//! Writing snapshots between appends.
//!
//! A snapshot can be tens of megabytes; an append must not wait for it. So the storage thread
//! writes one small slice of it in each of its rounds. Order is what makes a crash harmless:
//! chunks, flush, manifest, flush, and only then does the snapshot before go, again in slices.
//! Chunks that no manifest names are deleted at the next start.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};

use super::contract::{Completion, NewSnapshot, SnapshotManifest};
use super::trees::{self, CHUNK_BYTES, Manifest, Record, Trees};

/// Chunks written or deleted in one round: 64 KiB, about 200 us of work.
const CHUNKS_A_ROUND: usize = 16;

#[derive(Default)]
pub(super) struct Saver {
    waiting: VecDeque<(NewSnapshot, Completion)>,
    writing: Option<Writing>,
    current: Option<Manifest>,
    /// Numbers of snapshots to delete.
    old: VecDeque<u64>,
    /// Who waited for a snapshot that a newer one made needless.
    needless: Vec<Completion>,
    next_number: u64,
}

/// The snapshot being written.
struct Writing {
    manifest: Manifest,
    meta: Bytes,
    pieces: VecDeque<Bytes>,
    next_chunk: u32,
    stage: Stage,
    done: Completion,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Chunks are still to be written.
    Content,
    /// All chunks were written, and a flush must follow.
    Flush,
    /// The manifest was written, and a flush must follow.
    Manifest,
}

/// What one round did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slice {
    Nothing,
    /// Wrote something that must be flushed.
    Content,
    /// Deleted something; nobody waits for it.
    Deletion,
}

/// A snapshot that just became durable and current.
pub(super) struct Saved {
    pub(super) manifest: SnapshotManifest,
    pub(super) done: Completion,
}

impl Saver {
    pub(super) fn new(current: Option<Manifest>, strays: impl IntoIterator<Item = u64>) -> Self {
        let old: VecDeque<u64> = strays.into_iter().collect();
        let highest = old.iter().copied().chain(current.map(|m| m.number)).max();
        let next_number = highest.map_or(1, |number| number + 1);
        Self {
            current,
            old,
            next_number,
            ..Self::default()
        }
    }

    pub(super) fn add(&mut self, snapshot: NewSnapshot, done: Completion) {
        self.waiting.push_back((snapshot, done));
    }

    /// Whether another round has something to do.
    pub(super) fn busy(&self) -> bool {
        self.writing.is_some() || !self.waiting.is_empty() || !self.old.is_empty()
    }

    /// The current snapshot.
    pub(super) fn current(&self) -> Option<&Manifest> {
        self.current.as_ref()
    }

    /// Does one slice of work.
    pub(super) fn round(&mut self, trees: &Trees) -> sled::Result<Slice> {
        if self.writing.is_none() {
            self.begin();
        }
        let Some(writing) = &mut self.writing else {
            return self.delete_old(trees);
        };
        match writing.stage {
            Stage::Content => writing.write_slice(trees)?,
            Stage::Flush => {
                let value = writing.manifest.encode(trees::MANIFEST);
                trees.meta.insert(trees::MANIFEST, value)?;
                writing.stage = Stage::Manifest;
            }
            Stage::Manifest => {}
        }
        Ok(Slice::Content)
    }

    fn begin(&mut self) {
        let Some((snapshot, done)) = self.waiting.pop_front() else {
            return;
        };
        // The log may be purged up to the current one already.
        let current = self.current.and_then(|manifest| manifest.last);
        if snapshot.last < current {
            self.needless.push(done);
            return;
        }
        let content_bytes = snapshot.pieces.iter().map(|piece| piece.len() as u64).sum();
        let manifest = Manifest {
            number: self.next_number,
            last: snapshot.last,
            meta_bytes: snapshot.meta.len() as u64,
            content_bytes,
        };
        self.next_number += 1;
        let mut pieces = VecDeque::from(snapshot.pieces);
        pieces.push_front(snapshot.meta.clone());
        let meta = snapshot.meta;
        let stage = Stage::Content;
        self.writing = Some(Writing {
            manifest,
            meta,
            pieces,
            next_chunk: 0,
            stage,
            done,
        });
    }

    /// Who waited for a snapshot that is older than the current one, which is durable.
    pub(super) fn needless(&mut self) -> impl Iterator<Item = Completion> + '_ {
        self.needless.drain(..)
    }

    /// Called after each flush: a manifest that was written before it is now the current one.
    pub(super) fn flushed(&mut self) -> Option<Saved> {
        let writing = self
            .writing
            .take_if(|writing| writing.stage == Stage::Manifest)?;
        let before = self.current.replace(writing.manifest);
        self.old.extend(before.map(|manifest| manifest.number));
        let manifest = SnapshotManifest {
            number: writing.manifest.number,
            last: writing.manifest.last,
            meta: writing.meta,
            bytes: writing.manifest.content_bytes,
        };
        Some(Saved {
            manifest,
            done: writing.done,
        })
    }

    fn delete_old(&mut self, trees: &Trees) -> sled::Result<Slice> {
        let Some(number) = self.old.front() else {
            return Ok(Slice::Nothing);
        };
        let keys = trees.snapshot.scan_prefix(number.to_be_bytes()).keys();
        let keys: Vec<_> = keys.take(CHUNKS_A_ROUND).collect::<sled::Result<_>>()?;
        if keys.len() < CHUNKS_A_ROUND {
            self.old.pop_front();
        }
        for key in &keys {
            trees.snapshot.remove(key)?;
        }
        Ok(Slice::Deletion)
    }

    /// Gives up what is not durable; returns who waits for it.
    pub(super) fn abandon(&mut self) -> Vec<Completion> {
        let writing = self.writing.take().map(|writing| writing.done);
        let waiting = self.waiting.drain(..).map(|(_, done)| done);
        let needless = self.needless.drain(..);
        writing.into_iter().chain(waiting).chain(needless).collect()
    }
}

impl Writing {
    fn write_slice(&mut self, trees: &Trees) -> sled::Result<()> {
        for _ in 0..CHUNKS_A_ROUND {
            let content = self.next_content();
            if content.is_empty() {
                self.stage = Stage::Flush;
                break;
            }
            let key = trees::chunk_key(self.manifest.number, self.next_chunk);
            trees
                .snapshot
                .insert(key, trees::encode_chunk(&key, &content))?;
            self.next_chunk += 1;
        }
        Ok(())
    }

    /// Takes the bytes of the next chunk off the pieces.
    fn next_content(&mut self) -> Vec<u8> {
        let mut content = Vec::with_capacity(CHUNK_BYTES);
        while let Some(piece) = self.pieces.front_mut() {
            let part = piece.split_to(piece.len().min(CHUNK_BYTES - content.len()));
            content.extend_from_slice(&part);
            if piece.has_remaining() {
                break;
            }
            self.pieces.pop_front();
        }
        content
    }
}
