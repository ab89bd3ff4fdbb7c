//! The first record of a snapshot: its format, the limits, the numbers, and how much is to come.

use super::SnapshotError;
use super::records::{HEAD, Reading, tagged};
use crate::grant::ClusterId;
use crate::issuer::codec::DecodeError;
use crate::issuer::codec::bytes::{Put, Reader};
use crate::issuer::machine::Bounds;
use crate::issuer::{LogId, Machine};
use crate::limits::{NODE_IDS_MAX, TOKEN_VALUE_MAX};
use crate::resource::IssuerName;

/// The first bytes, so that something else is recognised as such.
const MAGIC: [u8; 4] = *b"FPST";

/// The formats, in the order in which they came. All are read, and the last one is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Format {
    /// Grants and request ids.
    First,
    /// Brought the waiters and their limits.
    Queues,
    /// Brought the marks of the guard register, their limit and their floor, and the number that an
    /// operator raised the floor above.
    Register,
}

impl Format {
    const fn number(self) -> u8 {
        match self {
            Self::First => 1,
            Self::Queues => 2,
            Self::Register => 3,
        }
    }

    fn of(number: u8) -> Result<Self, DecodeError> {
        let all = [Self::First, Self::Queues, Self::Register];
        let known = all.into_iter().find(|format| format.number() == number);
        known.ok_or(DecodeError::Format { found: number })
    }

    pub(super) fn knows_queues(self) -> bool {
        self >= Self::Queues
    }

    fn knows_marks(self) -> bool {
        self >= Self::Register
    }
}

/// How many records of each kind follow the head.
pub(super) struct Counts {
    pub(super) node_ids: u64,
    pub(super) settled: u64,
    pub(super) grants: u64,
    pub(super) waiters: u64,
    pub(super) marks: u64,
}

pub(super) fn put_head(bytes: &mut Vec<u8>, machine: &Machine) {
    bytes.put_u8(HEAD);
    bytes.put(&MAGIC);
    bytes.put_u8(Format::Register.number());
    bytes.put_u128(machine.cluster.get());
    bytes.put_text(machine.issuer.as_str());
    bytes.put_u64(u64::from(machine.bounds.settled_ids_max));
    bytes.put_u64(machine.bounds.live_grants_max);
    bytes.put_u64(u64::from(machine.bounds.grants_per_holder_max));
    bytes.put_u64(u64::from(machine.bounds.waiters_max));
    bytes.put_u64(u64::from(machine.bounds.waiters_per_resource_max));
    bytes.put_u64(machine.bounds.marks_max);
    bytes.put_u64(machine.applied.term);
    bytes.put_u64(machine.applied.index);
    bytes.put_u64(machine.last_token);
    bytes.put_u64(machine.floor);
    bytes.put_u64(machine.raised_above);
    bytes.put_u64(machine.marks.floor());
    bytes.put(&machine.chain);
    bytes.put_u64(machine.requests.forgotten_up_to());
    bytes.put_u64(machine.node_ids.len() as u64);
    bytes.put_u64(machine.requests.settled().len() as u64);
    bytes.put_u64(machine.grants.len() as u64);
    bytes.put_u64(machine.queues.len() as u64);
    bytes.put_u64(machine.marks.len() as u64);
}

pub(super) fn read_head(record: &[u8]) -> Result<(Reading, Counts), SnapshotError> {
    let mut reader = tagged(record, HEAD)?;
    if reader.array::<4>()? != MAGIC {
        return Err(DecodeError::Field { field: "magic" }.into());
    }
    let format = Format::of(reader.u8()?)?;
    let cluster = ClusterId::new(reader.u128()?);
    let issuer = IssuerName::new(reader.text("issuer")?)
        .map_err(|_| DecodeError::Field { field: "issuer" })?;
    let bounds = read_bounds(&mut reader, format)?;
    let mut machine = Machine::with_bounds(issuer, cluster, bounds);
    machine.applied = LogId::new(reader.u64()?, reader.u64()?);
    machine.last_token = reader.u64()?;
    machine.floor = reader.u64()?;
    if format.knows_marks() {
        machine.raised_above = reader.u64()?;
        machine.marks.set_floor(reader.u64()?);
    }
    machine.chain = reader.array()?;
    machine.requests.set_forgotten_up_to(reader.u64()?);
    let counts = read_counts(&mut reader, format)?;
    reader.end()?;
    if machine.bounds == bounds && fits(&machine, &counts) {
        return Ok((Reading::of(machine, format), counts));
    }
    Err(SnapshotError::Inconsistent {
        what: "the head is out of its bounds",
    })
}

/// A state from before there was something has today's limit for it.
fn read_bounds(reader: &mut Reader<'_>, format: Format) -> Result<Bounds, DecodeError> {
    let narrow = |wide: u64, field| u32::try_from(wide).map_err(|_| DecodeError::Field { field });
    let mut bounds = Bounds {
        settled_ids_max: narrow(reader.u64()?, "settled_ids_max")?,
        live_grants_max: reader.u64()?,
        ..Bounds::default()
    };
    if format.knows_queues() {
        bounds.grants_per_holder_max = narrow(reader.u64()?, "grants_per_holder_max")?;
        bounds.waiters_max = narrow(reader.u64()?, "waiters_max")?;
        bounds.waiters_per_resource_max = narrow(reader.u64()?, "waiters_per_resource_max")?;
    }
    if format.knows_marks() {
        bounds.marks_max = reader.u64()?;
    }
    Ok(bounds)
}

fn read_counts(reader: &mut Reader<'_>, format: Format) -> Result<Counts, DecodeError> {
    let mut counts = Counts {
        node_ids: reader.u64()?,
        settled: reader.u64()?,
        grants: reader.u64()?,
        waiters: 0,
        marks: 0,
    };
    if format.knows_queues() {
        counts.waiters = reader.u64()?;
    }
    if format.knows_marks() {
        counts.marks = reader.u64()?;
    }
    Ok(counts)
}

fn fits(machine: &Machine, counts: &Counts) -> bool {
    let bounds = machine.bounds;
    machine.last_token <= TOKEN_VALUE_MAX
        // Otherwise no token to come would pass in the register.
        && machine.marks.floor() <= machine.passed()
        && machine.raised_above <= machine.passed()
        && counts.node_ids <= NODE_IDS_MAX as u64
        && counts.settled <= u64::from(bounds.settled_ids_max)
        && counts.grants <= bounds.live_grants_max
        && counts.waiters <= u64::from(bounds.waiters_max)
        && counts.marks <= bounds.marks_max
}
