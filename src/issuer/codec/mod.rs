//! Bytes that rest in the log, travel between nodes, or feed the chained hash.
//!
//! They are for ever: each begins with a format byte, a number once given to something is never given
//! to anything else, and the golden bytes in `tests/core` fail when one changes. The encoding is ours
//! and not that of a derive, so that no version of a library can move it. Reading rejects, and never
//! panics on, arbitrary bytes.

mod bytes;
mod command;
mod event;
mod fields;
mod outcome;
mod snapshot;

use crate::issuer::{Command, Event, InstanceId, NodeId, Outcome};
use crate::limits::COMMAND_BYTES_MAX;

use bytes::{Put, Reader};

pub use snapshot::SnapshotError;

/// The format of commands, outcomes and events.
const FORMAT: u8 = 1;

/// The numbers of what an entry carries.
mod tag {
    pub(super) const BLANK: u8 = 0;
    pub(super) const ACQUIRE: u8 = 1;
    pub(super) const RENEW: u8 = 2;
    pub(super) const RELEASE: u8 = 3;
    pub(super) const EXPIRE: u8 = 4;
    pub(super) const REVOKE: u8 = 5;
    pub(super) const RAISE_FLOOR: u8 = 6;
    pub(super) const WITHDRAW: u8 = 7;
    pub(super) const PROMOTE: u8 = 8;
    pub(super) const ADMIT: u8 = 9;
    pub(super) const MEMBERS: u8 = 10;
}

/// Why bytes are not what they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The first byte names a format that this version does not know.
    #[error("format {found} is not known to this version")]
    Format {
        /// The byte that was found.
        found: u8,
    },
    /// A number stands for nothing that this version knows.
    #[error("{what} number {found} is not known to this version")]
    Tag {
        /// What the number would name.
        what: &'static str,
        /// The number that was found.
        found: u8,
    },
    /// The bytes end too early.
    #[error("the bytes end too early")]
    Truncated,
    /// There are more bytes than there should be.
    #[error("there are bytes left over at the end")]
    Trailing,
    /// A field has a value that it cannot have.
    #[error("{field} has a value that it cannot have")]
    Field {
        /// Which field.
        field: &'static str,
    },
    /// There are more bytes than a command may have.
    #[error("the bytes are longer than a command may be ({COMMAND_BYTES_MAX} bytes)")]
    TooLong,
}

/// A command that is too long to be proposed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the command takes {bytes} bytes: it may take at most {COMMAND_BYTES_MAX}; split it")]
pub struct CommandTooLong {
    /// How many bytes it takes.
    pub bytes: usize,
}

/// Encodes a command for the log. The leader does it once, before it proposes.
pub fn encode_command(command: &Command) -> Result<Vec<u8>, CommandTooLong> {
    let mut bytes = Vec::with_capacity(128);
    bytes.put_u8(FORMAT);
    command::put(&mut bytes, command);
    if bytes.len() > COMMAND_BYTES_MAX {
        return Err(CommandTooLong { bytes: bytes.len() });
    }
    Ok(bytes)
}

/// Reads a command back. Names and TTLs are checked again: what comes out is valid by its type.
pub fn decode_command(bytes: &[u8]) -> Result<Command, DecodeError> {
    if bytes.len() > COMMAND_BYTES_MAX {
        return Err(DecodeError::TooLong);
    }
    let mut reader = formatted(bytes)?;
    let command = command::read(&mut reader)?;
    reader.end()?;
    Ok(command)
}

/// Encodes an outcome, for a node that passes it on to another.
#[must_use]
pub fn encode_outcome(outcome: &Outcome) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(64);
    bytes.put_u8(FORMAT);
    outcome::put(&mut bytes, outcome);
    bytes
}

/// Reads an outcome back.
pub fn decode_outcome(bytes: &[u8]) -> Result<Outcome, DecodeError> {
    let mut reader = formatted(bytes)?;
    let outcome = outcome::read(&mut reader)?;
    reader.end()?;
    Ok(outcome)
}

fn formatted(bytes: &[u8]) -> Result<Reader<'_>, DecodeError> {
    let mut reader = Reader::new(bytes);
    match reader.u8()? {
        FORMAT => Ok(reader),
        found => Err(DecodeError::Format { found }),
    }
}

/// What the chained hash covers of a command's entry: itself, its outcome and its events.
pub(super) fn put_entry(
    bytes: &mut Vec<u8>,
    command: &Command,
    outcome: &Outcome,
    events: &[Event],
) {
    bytes.put_u8(FORMAT);
    command::put(bytes, command);
    outcome::put(bytes, outcome);
    bytes.put_varint(events.len() as u64);
    for event in events {
        event::put(bytes, event);
    }
}

/// What the chained hash covers of an entry that carries nothing.
pub(super) fn put_blank(bytes: &mut Vec<u8>) {
    bytes.put(&[FORMAT, tag::BLANK]);
}

/// What the chained hash covers of a membership entry.
pub(super) fn put_members(bytes: &mut Vec<u8>, members: &[(NodeId, InstanceId)]) {
    bytes.put(&[FORMAT, tag::MEMBERS]);
    bytes.put_varint(members.len() as u64);
    for (id, instance) in members {
        bytes.put_u64(*id);
        bytes.put_u128(instance.get());
    }
}
