//! Snapshots: the whole state as a stream of records, in a fixed order, closed by a digest.
//!
//! Each record is a 16-bit length and that many bytes, the first of which is the record's number:
//! one head, the used node ids in rising order, the settled requests from the oldest, the live grants
//! in the order of their tokens, one end with the digest of all bytes before it. Equal states give
//! equal bytes, so the digest is also the digest of the state. Records are small, so a state of any
//! size is written and read without ever being in memory twice.

use std::io::{self, Read, Write};

use super::bytes::{Put, Reader};
use super::{DecodeError, fields};
use crate::grant::{ClusterId, Grant};
use crate::issuer::grants::{Asked, Live};
use crate::issuer::machine::{Bounds, StateDigest};
use crate::issuer::requests::{CameOut, Settled};
use crate::issuer::{InstanceId, LogId, Machine, RequestKey};
use crate::limits::{NODE_IDS_MAX, TOKEN_VALUE_MAX};
use crate::resource::IssuerName;

/// The format of snapshots.
const FORMAT: u8 = 1;
/// The first bytes, so that something else is recognised as such.
const MAGIC: [u8; 4] = *b"FPST";
/// How much is gathered before it is hashed and written.
const CHUNK_BYTES: usize = 64 * 1024;

const HEAD: u8 = 1;
const NODE_ID: u8 = 2;
const SETTLED: u8 = 3;
const GRANT: u8 = 4;
const END: u8 = 5;

const CAME_OUT_HELD: u8 = 1;
const CAME_OUT_TOO_MANY_GRANTS: u8 = 2;
const CAME_OUT_ENDED: u8 = 3;

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
        let mut out = Out {
            to,
            buffer: Vec::new(),
            hasher: blake3::Hasher::new(),
        };
        out.record(|bytes| put_head(bytes, self))?;
        for (id, instance) in self.used_node_ids() {
            out.record(|bytes| {
                bytes.put_u8(NODE_ID);
                bytes.put_u64(id);
                bytes.put_u128(instance.get());
            })?;
        }
        for settled in self.requests.settled() {
            out.record(|bytes| put_settled(bytes, settled))?;
        }
        for live in self.grants.iter() {
            out.record(|bytes| put_grant(bytes, live))?;
        }
        out.finish()
    }

    /// The state as a snapshot, in chunks of about 64 KiB.
    #[must_use]
    pub fn snapshot(&self) -> Vec<Vec<u8>> {
        let mut chunks = Chunks(Vec::new());
        self.write_snapshot(&mut chunks)
            .expect("writing to memory does not fail");
        chunks.0
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
        let mut input = In {
            from: io::BufReader::new(from),
            hasher: blake3::Hasher::new(),
        };
        let mut record = Vec::new();
        input.record(&mut record)?;
        let (mut machine, counts) = read_head(&record)?;
        for _ in 0..counts.node_ids {
            input.record(&mut record)?;
            read_node_id(&mut machine, &record)?;
        }
        for _ in 0..counts.settled {
            input.record(&mut record)?;
            read_settled(&mut machine, &record)?;
        }
        for _ in 0..counts.grants {
            input.record(&mut record)?;
            read_grant(&mut machine, &record)?;
        }
        input.finish(&mut record)?;
        Ok(machine)
    }
}

/// How many records of each kind follow the head.
struct Counts {
    node_ids: u64,
    settled: u64,
    grants: u64,
}

fn put_head(bytes: &mut Vec<u8>, machine: &Machine) {
    bytes.put_u8(HEAD);
    bytes.put(&MAGIC);
    bytes.put_u8(FORMAT);
    bytes.put_u128(machine.cluster.get());
    bytes.put_text(machine.issuer.as_str());
    bytes.put_u64(u64::from(machine.bounds.settled_ids_max));
    bytes.put_u64(machine.bounds.live_grants_max);
    bytes.put_u64(machine.applied.term);
    bytes.put_u64(machine.applied.index);
    bytes.put_u64(machine.last_token);
    bytes.put_u64(machine.floor);
    bytes.put(&machine.chain);
    bytes.put_u64(machine.requests.forgotten_up_to());
    bytes.put_u64(machine.node_ids.len() as u64);
    bytes.put_u64(machine.requests.settled().len() as u64);
    bytes.put_u64(machine.grants.len() as u64);
}

fn read_head(record: &[u8]) -> Result<(Machine, Counts), SnapshotError> {
    let mut reader = tagged(record, HEAD)?;
    if reader.array::<4>()? != MAGIC {
        return Err(DecodeError::Field { field: "magic" }.into());
    }
    match reader.u8()? {
        FORMAT => {}
        found => return Err(DecodeError::Format { found }.into()),
    }
    let cluster = ClusterId::new(reader.u128()?);
    let issuer = IssuerName::new(reader.text("issuer")?)
        .map_err(|_| DecodeError::Field { field: "issuer" })?;
    let settled_ids_max = u32::try_from(reader.u64()?).map_err(|_| DecodeError::Field {
        field: "settled_ids_max",
    })?;
    let bounds = Bounds {
        settled_ids_max,
        live_grants_max: reader.u64()?,
    };
    let mut machine = Machine::with_bounds(issuer, cluster, bounds);
    machine.applied = LogId::new(reader.u64()?, reader.u64()?);
    machine.last_token = reader.u64()?;
    machine.floor = reader.u64()?;
    machine.chain = reader.array()?;
    machine.requests.set_forgotten_up_to(reader.u64()?);
    let counts = Counts {
        node_ids: reader.u64()?,
        settled: reader.u64()?,
        grants: reader.u64()?,
    };
    reader.end()?;
    let fits = machine.bounds == bounds
        && machine.last_token <= TOKEN_VALUE_MAX
        && counts.node_ids <= NODE_IDS_MAX as u64
        && counts.settled <= u64::from(settled_ids_max)
        && counts.grants <= bounds.live_grants_max;
    if !fits {
        return Err(SnapshotError::Inconsistent {
            what: "the head is out of its bounds",
        });
    }
    Ok((machine, counts))
}

fn read_node_id(machine: &mut Machine, record: &[u8]) -> Result<(), SnapshotError> {
    let mut reader = tagged(record, NODE_ID)?;
    let (id, instance) = (reader.u64()?, InstanceId::new(reader.u128()?));
    reader.end()?;
    if machine
        .node_ids
        .last_key_value()
        .is_some_and(|(last, _)| *last >= id)
    {
        return Err(SnapshotError::Inconsistent {
            what: "node ids do not rise",
        });
    }
    machine.node_ids.insert(id, instance);
    Ok(())
}

fn put_asked(bytes: &mut Vec<u8>, asked: &Asked) {
    bytes.put(asked.key.as_bytes());
    bytes.put_u64(asked.first_index);
    fields::put_ttl(bytes, asked.ttl);
    bytes.put_varint(u64::from(asked.wait_ms));
    bytes.put_varint(u64::from(asked.attempt));
}

fn read_asked(reader: &mut Reader<'_>) -> Result<Asked, DecodeError> {
    Ok(Asked {
        key: RequestKey::from_bytes(reader.array()?),
        first_index: reader.u64()?,
        ttl: fields::ttl(reader)?,
        wait_ms: reader.varint_u32("wait")?,
        attempt: reader.varint_u32("attempt")?,
    })
}

fn put_settled(bytes: &mut Vec<u8>, settled: &Settled) {
    bytes.put_u8(SETTLED);
    put_asked(bytes, &settled.asked);
    match &settled.came_out {
        CameOut::Held => bytes.put_u8(CAME_OUT_HELD),
        CameOut::TooManyGrants => bytes.put_u8(CAME_OUT_TOO_MANY_GRANTS),
        CameOut::Ended { token, how } => {
            bytes.put_u8(CAME_OUT_ENDED);
            fields::put_token(bytes, token);
            fields::put_how(bytes, *how);
        }
    }
}

fn read_settled(machine: &mut Machine, record: &[u8]) -> Result<(), SnapshotError> {
    let mut reader = tagged(record, SETTLED)?;
    let asked = read_asked(&mut reader)?;
    let came_out = match reader.u8()? {
        CAME_OUT_HELD => CameOut::Held,
        CAME_OUT_TOO_MANY_GRANTS => CameOut::TooManyGrants,
        CAME_OUT_ENDED => {
            let token = fields::token(&mut reader)?;
            CameOut::Ended {
                token,
                how: fields::how(&mut reader)?,
            }
        }
        found => {
            return Err(DecodeError::Tag {
                what: "settled request",
                found,
            }
            .into());
        }
    };
    reader.end()?;
    if machine.requests.settle(Settled { asked, came_out }) {
        return Ok(());
    }
    Err(SnapshotError::Inconsistent {
        what: "a request or a token settled twice",
    })
}

fn put_grant(bytes: &mut Vec<u8>, live: &Live) {
    let Live { grant, asked } = live;
    bytes.put_u8(GRANT);
    bytes.put_text(grant.resource.as_str());
    bytes.put_text(grant.holder.as_str());
    fields::put_token(bytes, &grant.token);
    fields::put_ttl(bytes, grant.ttl);
    bytes.put_varint(grant.renewals);
    bytes.put_u64(grant.granted_at_ms);
    bytes.put_u64(grant.expires_at_ms);
    put_asked(bytes, asked);
}

fn read_grant(machine: &mut Machine, record: &[u8]) -> Result<(), SnapshotError> {
    let mut reader = tagged(record, GRANT)?;
    let grant = Grant {
        resource: fields::resource(&mut reader)?,
        holder: fields::holder(&mut reader)?,
        token: fields::token(&mut reader)?,
        ttl: fields::ttl(&mut reader)?,
        renewals: reader.varint()?,
        granted_at_ms: reader.u64()?,
        expires_at_ms: reader.u64()?,
    };
    let asked = read_asked(&mut reader)?;
    reader.end()?;
    let token = grant.token.value();
    let ordered = machine.grants.last().is_none_or(|last| last < token);
    if !ordered || token.get() > machine.last_token || machine.how_ended(token).is_some() {
        return Err(SnapshotError::Inconsistent {
            what: "a live token does not fit the others",
        });
    }
    if machine.requests.granted(asked.key, token) && machine.grants.insert(Live { grant, asked }) {
        return Ok(());
    }
    Err(SnapshotError::Inconsistent {
        what: "a resource or a request has two grants",
    })
}

fn tagged(record: &[u8], expected: u8) -> Result<Reader<'_>, DecodeError> {
    let mut reader = Reader::new(record);
    match reader.u8()? {
        tag if tag == expected => Ok(reader),
        found => Err(DecodeError::Tag {
            what: "snapshot record",
            found,
        }),
    }
}

/// Gathers records, and hashes and writes them in chunks.
struct Out<W> {
    to: W,
    buffer: Vec<u8>,
    hasher: blake3::Hasher,
}

impl<W: Write> Out<W> {
    fn record(&mut self, fill: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
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

    fn finish(mut self) -> io::Result<StateDigest> {
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
struct Chunks(Vec<Vec<u8>>);

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
struct In<R> {
    from: R,
    hasher: blake3::Hasher,
}

impl<R: Read> In<R> {
    fn record(&mut self, record: &mut Vec<u8>) -> Result<(), SnapshotError> {
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

    fn finish(mut self, record: &mut Vec<u8>) -> Result<(), SnapshotError> {
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
