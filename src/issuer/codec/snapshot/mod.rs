//! Snapshots: the whole state as a stream of records, in a fixed order, closed by a digest.
//!
//! Each record is a 16-bit length and that many bytes, the first of which is the record's number:
//! one head, the used node ids in rising order, the settled requests from the oldest, the live grants
//! in the order of their tokens, the waiters by the name of the resource and then in their order, the
//! marks of the guard register by name, one end with the digest of all bytes before it. Equal states give equal bytes, so the digest is also
//! the digest of the state. Records are small, so a state of any size is written and read without
//! ever being in memory twice.
//!
//! Older formats are still read, never written: [`head`] has what each of them brought.

mod head;
mod records;
mod stream;

use std::io::{self, Read, Write};

use super::DecodeError;
use super::bytes::Put;
use crate::issuer::Machine;
use crate::issuer::machine::StateDigest;
use head::put_head;
use records::{NODE_ID, put_grant, put_mark, put_place, put_settlement};
use stream::{Chunks, In, Out};

/// Why a snapshot cannot be taken over. The state that was there is untouched.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The bytes could not be read from where they are.
    #[error("the snapshot cannot be read")]
    Io(#[from] io::Error),
    /// The bytes are not a snapshot, or not one that this version knows.
    #[error("the snapshot is malformed: {0}")]
    Decode(#[from] DecodeError),
    /// The bytes changed on their way.
    #[error("the snapshot's digest does not match its bytes")]
    Digest,
    /// The bytes are as they were written, and what they say cannot be.
    #[error("the snapshot contradicts itself: {what}")]
    Inconsistent {
        /// What does not fit.
        what: &'static str,
    },
}

impl Machine {
    /// Writes the state, and returns its digest. Only the writer can fail.
    pub fn write_snapshot(&self, to: impl Write) -> io::Result<StateDigest> {
        let mut out = Out::new(to);
        out.record(|bytes| put_head(bytes, self))?;
        for (id, instance) in self.used_node_ids() {
            out.record(|bytes| {
                bytes.put_u8(NODE_ID);
                bytes.put_u64(id);
                bytes.put_u128(instance.get());
            })?;
        }
        for settlement in self.requests.settled() {
            out.record(|bytes| put_settlement(bytes, settlement))?;
        }
        for live in self.grants.iter() {
            out.record(|bytes| put_grant(bytes, live))?;
        }
        for place in self.queues.iter() {
            out.record(|bytes| put_place(bytes, place))?;
        }
        for (resource, token) in self.marks.iter() {
            out.record(|bytes| put_mark(bytes, resource, token))?;
        }
        out.finish()
    }

    /// The state as a snapshot, in chunks of about 64 KiB.
    #[must_use]
    pub fn snapshot(&self) -> Vec<Vec<u8>> {
        let mut chunks = Chunks::default();
        self.write_snapshot(&mut chunks)
            .expect("writing to memory does not fail");
        chunks.into_inner()
    }

    /// A digest of the whole state, equal on all nodes at an equal log position. It costs as much as
    /// a snapshot.
    #[must_use]
    pub fn digest(&self) -> StateDigest {
        self.write_snapshot(io::sink())
            .expect("writing to nowhere does not fail")
    }

    /// Reads a state back, to the last byte, and checks it against its digest.
    pub fn read_snapshot(from: impl Read) -> Result<Self, SnapshotError> {
        let mut input = In::new(from);
        let mut record = Vec::new();
        input.record(&mut record)?;
        let (mut reading, counts) = head::read_head(&record)?;
        for _ in 0..counts.node_ids {
            input.record(&mut record)?;
            reading.node_id(&record)?;
        }
        for _ in 0..counts.settled {
            input.record(&mut record)?;
            reading.settlement(&record)?;
        }
        for _ in 0..counts.grants {
            input.record(&mut record)?;
            reading.grant(&record)?;
        }
        for _ in 0..counts.waiters {
            input.record(&mut record)?;
            reading.place(&record)?;
        }
        for _ in 0..counts.marks {
            input.record(&mut record)?;
            reading.mark(&record)?;
        }
        input.finish(&mut record)?;
        reading.end()
    }
}
