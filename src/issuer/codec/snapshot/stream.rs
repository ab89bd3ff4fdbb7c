//! The stream that snapshots are written to and read from: records in chunks, hashed on their way.

use std::io::{self, Read, Write};

use super::SnapshotError;
use super::records::{END, tagged};
use crate::issuer::codec::DecodeError;
use crate::issuer::codec::bytes::Put;
use crate::issuer::machine::StateDigest;

/// How much is gathered before it is hashed and written.
const CHUNK_BYTES: usize = 64 * 1024;

/// Gathers records, and hashes and writes them in chunks.
pub(super) struct Out<W> {
    to: W,
    buffer: Vec<u8>,
    hasher: blake3::Hasher,
}

impl<W: Write> Out<W> {
    pub(super) fn new(to: W) -> Self {
        Self {
            to,
            buffer: Vec::new(),
            hasher: blake3::Hasher::new(),
        }
    }

    pub(super) fn record(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let start = self.buffer.len();
        self.buffer.put(&[0, 0]);
        fill(&mut self.buffer);
        let length = u16::try_from(self.buffer.len() - start - 2)
            .expect("names are bounded, so every record is far below 64 KiB");
        self.buffer[start..start + 2].copy_from_slice(&length.to_be_bytes());
        if self.buffer.len() >= CHUNK_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.hasher.update(&self.buffer);
        self.to.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<StateDigest> {
        self.flush()?;
        let digest = *self.hasher.finalize().as_bytes();
        self.record(|bytes| {
            bytes.put_u8(END);
            bytes.put(&digest);
        })?;
        self.to.write_all(&self.buffer)?;
        self.to.flush()?;
        Ok(digest)
    }
}

/// Keeps each write as a chunk of its own.
#[derive(Debug, Default)]
pub(super) struct Chunks(Vec<Vec<u8>>);

impl Chunks {
    pub(super) fn into_inner(self) -> Vec<Vec<u8>> {
        self.0
    }
}

impl Write for Chunks {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.push(bytes.to_vec());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Reads records, and hashes them.
pub(super) struct In<R> {
    from: io::BufReader<R>,
    hasher: blake3::Hasher,
}

impl<R: Read> In<R> {
    pub(super) fn new(from: R) -> Self {
        Self {
            from: io::BufReader::new(from),
            hasher: blake3::Hasher::new(),
        }
    }

    pub(super) fn record(&mut self, record: &mut Vec<u8>) -> Result<(), SnapshotError> {
        self.unhashed_record(record)?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "its length was read from 16 bits"
        )]
        self.hasher.update(&(record.len() as u16).to_be_bytes());
        self.hasher.update(record);
        Ok(())
    }

    fn unhashed_record(&mut self, record: &mut Vec<u8>) -> Result<(), SnapshotError> {
        let mut length = [0; 2];
        self.fill(&mut length)?;
        record.resize(usize::from(u16::from_be_bytes(length)), 0);
        self.fill(record)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), SnapshotError> {
        self.from
            .read_exact(bytes)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => DecodeError::Truncated.into(),
                _ => error.into(),
            })
    }

    pub(super) fn finish(mut self, record: &mut Vec<u8>) -> Result<(), SnapshotError> {
        self.unhashed_record(record)?;
        let mut reader = tagged(record, END)?;
        let digest: StateDigest = reader.array()?;
        reader.end()?;
        if digest != *self.hasher.finalize().as_bytes() {
            return Err(SnapshotError::Digest);
        }
        match self.from.read(&mut [0])? {
            0 => Ok(()),
            _ => Err(DecodeError::Trailing.into()),
        }
    }
}
