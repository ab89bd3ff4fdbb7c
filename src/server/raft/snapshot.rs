//! Snapshots: written out in pieces, kept by the store in pieces, read back piece by piece.

use std::io::{self, Read, Write};

use bytes::{Bytes, BytesMut};
use openraft::{RaftSnapshotBuilder, alias::SnapshotOf};

use super::{encoding::SnapshotHead, log::failed, types::Types};
use crate::{
    issuer::Machine,
    server::store::{NewSnapshot, SharedStore, SnapshotReader, completion},
};

/// The size of a piece: small enough to go between two group commits without being noticed, and far
/// below the message limit.
pub(super) const PIECE_BYTES: usize = 64 << 10;

/// A snapshot's content, wherever it is.
pub struct Content {
    pub(super) head: SnapshotHead,
    body: Body,
}

enum Body {
    /// The current one of this node's store.
    Stored(SnapshotReader),
    /// Just received from the leader, or just built.
    Pieces(Vec<Bytes>, u64),
}

impl Content {
    /// The one that the store has.
    pub(super) fn stored(reader: SnapshotReader) -> io::Result<Self> {
        let head = SnapshotHead::decode(reader.manifest.meta.clone())?;
        Ok(Self {
            head,
            body: Body::Stored(reader),
        })
    }

    /// One that came over the network, or was built here.
    pub(super) fn received(head: SnapshotHead, pieces: Vec<Bytes>, bytes: u64) -> Self {
        Self {
            head,
            body: Body::Pieces(pieces, bytes),
        }
    }

    /// How much it is.
    pub(super) fn bytes(&self) -> u64 {
        match &self.body {
            Body::Stored(reader) => reader.manifest.bytes,
            Body::Pieces(_, bytes) => *bytes,
        }
    }

    /// All of it, in order.
    pub(super) fn into_pieces(self) -> Pieces {
        match self.body {
            Body::Stored(reader) => Box::new(reader.map(|piece| piece.map_err(failed))),
            Body::Pieces(pieces, _) => Box::new(pieces.into_iter().map(Ok)),
        }
    }

    /// Reads the state, and makes it durable unless it is what this store has already. Gives the state,
    /// if the snapshot has one, and the content's size.
    pub(super) async fn install(self, store: &SharedStore) -> io::Result<(Option<Machine>, u64)> {
        let bytes = self.bytes();
        let head = self.head.clone();
        let ours = match &self.body {
            Body::Stored(reader) => store.snapshot().as_ref() == Some(&reader.manifest),
            Body::Pieces(..) => false,
        };
        let read = tokio::task::spawn_blocking(move || {
            if ours {
                return Ok((read_machine(self.into_pieces())?, None));
            }
            let pieces = self.into_pieces().collect::<io::Result<Vec<Bytes>>>()?;
            let machine = read_machine(Box::new(pieces.clone().into_iter().map(Ok)))?;
            Ok((machine, Some(pieces)))
        });
        let (machine, to_save) = joined(read.await)?;
        if let Some(pieces) = to_save {
            let snapshot = NewSnapshot {
                last: head.last,
                meta: head.encode(),
                pieces,
            };
            save(store, snapshot).await?;
        }
        Ok((machine, bytes))
    }
}

type Pieces = Box<dyn Iterator<Item = io::Result<Bytes>> + Send>;

/// Takes one view of the state to the disk.
pub struct Builder {
    head: SnapshotHead,
    /// The view, already written out; a state before its first entry is no bytes at all.
    pieces: io::Result<Vec<Bytes>>,
    store: SharedStore,
}

impl Builder {
    pub(super) fn new(
        head: SnapshotHead,
        pieces: io::Result<Vec<Bytes>>,
        store: SharedStore,
    ) -> Self {
        Self {
            head,
            pieces,
            store,
        }
    }
}

impl RaftSnapshotBuilder<Types> for Builder {
    type SnapshotData = Content;

    async fn build_snapshot(&mut self) -> io::Result<SnapshotOf<Types, Content>> {
        let pieces = std::mem::replace(&mut self.pieces, Ok(Vec::new()))?;
        let bytes = pieces.iter().map(|piece| piece.len() as u64).sum();
        let head = self.head.clone();
        let snapshot = NewSnapshot {
            last: head.last,
            meta: head.encode(),
            pieces: pieces.clone(),
        };
        save(&self.store, snapshot).await?;
        let content = Content::received(head, pieces, bytes);
        Ok(openraft::Snapshot {
            meta: content.head.meta(),
            snapshot: content,
        })
    }
}

async fn save(store: &SharedStore, snapshot: NewSnapshot) -> io::Result<()> {
    let (done, completed) = completion();
    store.save_snapshot(snapshot, done);
    completed.done().await.map_err(failed)
}

/// Writes the state out into pieces.
pub(super) fn write_machine(machine: &Machine) -> io::Result<Vec<Bytes>> {
    let mut pieces = PieceWriter::default();
    machine.write_snapshot(&mut pieces)?;
    Ok(pieces.finish())
}

fn read_machine(pieces: Pieces) -> io::Result<Option<Machine>> {
    let mut pieces = pieces.peekable();
    if pieces.peek().is_none() {
        return Ok(None);
    }
    let reader = PieceReader {
        pieces,
        current: Bytes::new(),
    };
    Machine::read_snapshot(reader)
        .map(Some)
        .map_err(io::Error::other)
}

pub(super) fn joined<T>(result: Result<io::Result<T>, tokio::task::JoinError>) -> io::Result<T> {
    result.unwrap_or_else(|gone| match gone.try_into_panic() {
        Ok(panic) => std::panic::resume_unwind(panic),
        Err(cancelled) => Err(io::Error::other(cancelled)),
    })
}

/// Cuts what is written into pieces.
#[derive(Default)]
struct PieceWriter {
    done: Vec<Bytes>,
    current: BytesMut,
}

impl PieceWriter {
    fn finish(mut self) -> Vec<Bytes> {
        if !self.current.is_empty() {
            self.done.push(self.current.freeze());
        }
        self.done
    }
}

impl Write for PieceWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.current.capacity() == 0 {
            self.current.reserve(PIECE_BYTES);
        }
        let room = PIECE_BYTES - self.current.len();
        let (fits, _) = bytes.split_at(room.min(bytes.len()));
        self.current.extend_from_slice(fits);
        if self.current.len() == PIECE_BYTES {
            self.done.push(std::mem::take(&mut self.current).freeze());
        }
        Ok(fits.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads pieces as one stream of bytes.
struct PieceReader {
    pieces: std::iter::Peekable<Pieces>,
    current: Bytes,
}

impl Read for PieceReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.current.is_empty() {
            match self.pieces.next() {
                None => return Ok(0),
                Some(piece) => self.current = piece?,
            }
        }
        let taken = self.current.split_to(into.len().min(self.current.len()));
        into[..taken.len()].copy_from_slice(&taken);
        Ok(taken.len())
    }
}
