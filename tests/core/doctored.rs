//! Snapshots with something done to them: how a bug is planted in a state that has no door for it.

use fencepost::issuer::Machine;

/// The record of a place in a queue, and the one that ends a snapshot.
const PLACE: u8 = 8;
const END: u8 = 5;
/// The record of a mark.
const MARK: u8 = 9;

/// A snapshot in which every queue stands the other way round.
pub(crate) fn with_queues_reversed(machine: &Machine) -> Vec<u8> {
    let bytes = machine.snapshot().concat();
    let mut records = records(&bytes);
    let first = records.iter().position(|record| record[0] == PLACE);
    let Some(first) = first else {
        return bytes;
    };
    records.pop();
    let places = records.iter().rposition(|record| record[0] == PLACE);
    let end = places.unwrap() + 1;
    // Places come by the name of the resource; those of one queue stay together.
    let places = &mut records[first..end];
    let mut start = 0;
    while start < places.len() {
        let name = name(&places[start]).to_vec();
        let of_it = places[start..]
            .iter()
            .take_while(|place| self::name(place) == name);
        let count = of_it.count();
        places[start..start + count].reverse();
        start += count;
    }
    written(&records)
}

/// A snapshot that has forgotten every mark of the register.
pub(crate) fn without_marks(machine: &Machine) -> Vec<u8> {
    let mut records = records(&machine.snapshot().concat());
    records.retain(|record| ![MARK, END].contains(&record[0]));
    let count = records[0].len() - 8;
    records[0][count..].fill(0);
    written(&records)
}

/// A snapshot as a restore seeds it: every mark counts as `floor` at least, and so do all tokens to come.
pub(crate) fn restored_to(machine: &Machine, floor: u64) -> Vec<u8> {
    let mut records = records(&machine.snapshot().concat());
    records.pop();
    // From the end: five counts, what is forgotten, the chain, the floor of the marks, what the floor
    // was raised above, the floor of the tokens.
    let of_marks = records[0].len() - (5 * 8 + 8 + 32 + 8);
    records[0][of_marks..of_marks + 8].copy_from_slice(&floor.to_be_bytes());
    let sum = machine.applied().term * 65_536 + machine.applied().index;
    with_token_floor(&written(&records), floor - sum)
}

/// A snapshot in which tokens have another floor.
pub(crate) fn with_token_floor(snapshot: &[u8], floor: u64) -> Vec<u8> {
    let mut records = records(snapshot);
    records.pop();
    let at = records[0].len() - (5 * 8 + 8 + 32 + 8 + 8 + 8);
    records[0][at..at + 8].copy_from_slice(&floor.to_be_bytes());
    written(&records)
}

/// The records of a snapshot, without their lengths.
pub(crate) fn records(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut records = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk() {
        let (record, rest) = rest.split_at(usize::from(u16::from_be_bytes(*length)));
        records.push(record.to_vec());
        bytes = rest;
    }
    records
}

/// The resource of a place. Names here are short, so their length takes one byte.
fn name(place: &[u8]) -> &[u8] {
    &place[2..2 + usize::from(place[1])]
}

fn written(records: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let push = |bytes: &mut Vec<u8>, record: &[u8]| {
        bytes.extend(u16::try_from(record.len()).unwrap().to_be_bytes());
        bytes.extend(record);
    };
    records.iter().for_each(|record| push(&mut bytes, record));
    let digest = blake3::hash(&bytes);
    push(&mut bytes, &[&[END], &digest.as_bytes()[..]].concat());
    bytes
}
