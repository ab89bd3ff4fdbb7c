//! The packed log: how entries rest in sled's `log` tree.
//!
//! One record an entry is what made sled slow: insert and later delete cost 12-14 us of CPU on
//! each node. So the consecutive entries of a group commit are packed into *runs* of up to 4 KiB.
//! Values must stay small for another reason: sled keeps up to 16 of them in a leaf, and a leaf
//! that passes 128 KiB becomes a blob file that is never synced. An entry over 4 KiB (only a
//! membership can be one) is therefore split over several records.
//!
//! ```text
//! key                            value
//! index (u64, big-endian)        01 crc32c count:u16 (term:u64 length:u32 payload)*   a run
//! index                          02 crc32c parts:u16  term:u64 length:u32 bytes       first of a split entry
//! index part (u16, big-endian)   03 crc32c bytes                                      the others, from part 1
//! ```
//!
//! Numbers in values are little-endian. The checksum covers the key and everything behind it, so
//! that a record in a wrong place is found as well as a changed one.

use bytes::{Buf, Bytes};

use super::ENTRY_BYTES_MAX;
use super::entry::{Entry, LogId};

/// The largest value that is ever written to sled, in bytes.
pub(super) const RECORD_BYTES_MAX: usize = 4096;

const RUN: u8 = 1;
const SPLIT: u8 = 2;
const PART: u8 = 3;
const RECORD_HEAD: usize = 1 + 4;
const ENTRY_HEAD: usize = 8 + 4;
const RUN_HEAD: usize = RECORD_HEAD + 2;

/// A key in the `log` tree.
pub(super) type Key = Vec<u8>;

/// What is written to the `log` tree for one run; more than one record only for a split entry.
pub(super) type Records = Vec<(Key, Vec<u8>)>;

/// Which entries a run holds, and in how many records it rests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) first: u64,
    pub(super) last: u64,
    /// Records besides the one under `first`.
    pub(super) parts: u16,
}

impl Run {
    /// Every key of the run.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key> {
        let first = self.first;
        (0..=self.parts).map(move |part| key(first, part))
    }
}

fn key(first: u64, part: u16) -> Key {
    let mut key = first.to_be_bytes().to_vec();
    if part > 0 {
        key.extend_from_slice(&part.to_be_bytes());
    }
    key
}

/// Index of the first entry under a key, and the part number (0 for the head of a run).
pub(super) fn parse_key(key: &[u8]) -> Option<(u64, u16)> {
    let (first, part) = key.split_first_chunk::<8>()?;
    let part = match part {
        [] => 0,
        [high, low] => u16::from_be_bytes([*high, *low]),
        _ => return None,
    };
    Some((u64::from_be_bytes(*first), part))
}

/// Packs the first of some consecutive entries into one run of at most `record_bytes_max`, and
/// returns what is left of them. With a limit of 0 every entry becomes a run of its own.
pub(super) fn pack(entries: &[Entry], record_bytes_max: usize) -> Option<(Run, Records, &[Entry])> {
    let head = entries.first()?;
    if RUN_HEAD + ENTRY_HEAD + head.payload.len() > RECORD_BYTES_MAX {
        let (run, records) = split(head);
        return Some((run, records, &entries[1..]));
    }
    let (packed, behind) = entries.split_at(fitting(entries, record_bytes_max));
    let last = packed.last().map_or(head.index, |entry| entry.index);
    let run = Run {
        first: head.index,
        last,
        parts: 0,
    };
    Some((run, vec![(key(head.index, 0), encode_run(packed))], behind))
}

/// How many of the entries fit into one record, at least one.
fn fitting(entries: &[Entry], record_bytes_max: usize) -> usize {
    let mut bytes = RUN_HEAD;
    let fits = |entry: &&Entry| {
        bytes += ENTRY_HEAD + entry.payload.len();
        bytes <= record_bytes_max
    };
    entries
        .iter()
        .take(usize::from(u16::MAX))
        .take_while(fits)
        .count()
        .max(1)
}

fn encode_run(entries: &[Entry]) -> Vec<u8> {
    let payloads: usize = entries.iter().map(|entry| entry.payload.len()).sum();
    let mut value = Vec::with_capacity(RUN_HEAD + entries.len() * ENTRY_HEAD + payloads);
    value.extend_from_slice(&[RUN, 0, 0, 0, 0]);
    let count = u16::try_from(entries.len()).expect("`fitting` takes no more than fit a u16");
    value.extend_from_slice(&count.to_le_bytes());
    for entry in entries {
        put_entry_head(&mut value, entry);
        value.extend_from_slice(&entry.payload);
    }
    seal(&key(entries[0].index, 0), value)
}

fn put_entry_head(value: &mut Vec<u8>, entry: &Entry) {
    value.extend_from_slice(&entry.term.to_le_bytes());
    let length = u32::try_from(entry.payload.len()).expect("a payload is at most 64 KiB");
    value.extend_from_slice(&length.to_le_bytes());
}

/// Spreads one large entry over several records, which must be written in one batch.
fn split(entry: &Entry) -> (Run, Records) {
    let (head, tail) = entry
        .payload
        .split_at(RECORD_BYTES_MAX - RUN_HEAD - ENTRY_HEAD);
    let chunks = tail.chunks(RECORD_BYTES_MAX - RECORD_HEAD);
    let parts = u16::try_from(chunks.len()).expect("a payload of 64 KiB makes 17 parts at most");
    let mut value = vec![SPLIT, 0, 0, 0, 0];
    value.extend_from_slice(&parts.to_le_bytes());
    put_entry_head(&mut value, entry);
    value.extend_from_slice(head);
    let mut records = vec![(key(entry.index, 0), value)];
    for (part, chunk) in (1..=parts).zip(chunks) {
        let mut value = vec![PART, 0, 0, 0, 0];
        value.extend_from_slice(chunk);
        records.push((key(entry.index, part), value));
    }
    for (key, value) in &mut records {
        *value = seal(key, std::mem::take(value));
    }
    (
        Run {
            first: entry.index,
            last: entry.index,
            parts,
        },
        records,
    )
}

fn checksum(key: &[u8], value: &[u8]) -> u32 {
    let crc = crc32c::crc32c(key);
    let crc = crc32c::crc32c_append(crc, &value[..1]);
    crc32c::crc32c_append(crc, &value[RECORD_HEAD..])
}

fn seal(key: &[u8], mut value: Vec<u8>) -> Vec<u8> {
    debug_assert!(
        value.len() <= RECORD_BYTES_MAX,
        "a record grew over its limit"
    );
    let crc = checksum(key, &value);
    value[1..RECORD_HEAD].copy_from_slice(&crc.to_le_bytes());
    value
}

/// Gathers records in key order into runs and their entries.
#[derive(Debug, Default)]
pub(super) struct Unpacker {
    /// A split entry whose parts are still to come: its run, entry, full length and next part.
    open: Option<(Run, Entry, Vec<u8>, usize)>,
}

impl Unpacker {
    /// Takes the next record. Returns a run once it is complete; an `Err` says what is damaged.
    pub(super) fn take(
        &mut self,
        key: &[u8],
        value: &[u8],
    ) -> Result<Option<(Run, Vec<Entry>)>, String> {
        let (first, part) =
            parse_key(key).ok_or_else(|| format!("a record has a key of {} bytes", key.len()))?;
        let crc = value
            .get(1..RECORD_HEAD)
            .and_then(|bytes| bytes.try_into().ok());
        if crc.map(u32::from_le_bytes) != Some(checksum_of(key, value)) {
            return Err(format!(
                "the record of entry {first} does not match its checksum"
            ));
        }
        let body = Bytes::copy_from_slice(&value[RECORD_HEAD..]);
        match (value[0], part, self.open.is_some()) {
            (RUN, 0, false) => decode_run(first, body).map(Some),
            (SPLIT, 0, false) => self.begin(first, body),
            (PART, 1.., true) => self.go_on(first, part, &body),
            (RUN | SPLIT, 0, true) => Err(format!("an entry before entry {first} lacks a part")),
            (PART, 1.., false) => Err(format!("a part of entry {first} stands alone")),
            (format, ..) => Err(format!(
                "the record of entry {first} has unknown format {format}"
            )),
        }
        .map_err(|what| format!("{what} (key {first}.{part})"))
    }

    /// Says whether a split entry was left without its last parts.
    pub(super) fn finish(&self) -> Result<(), String> {
        match &self.open {
            Some((run, ..)) => Err(format!("entry {} lacks its last parts", run.first)),
            None => Ok(()),
        }
    }

    fn begin(&mut self, first: u64, mut body: Bytes) -> Result<Option<(Run, Vec<Entry>)>, String> {
        let parts = body.try_get_u16_le().map_err(|_| short(first))?;
        let (term, length) = entry_head(first, &mut body)?;
        if parts == 0 || length > ENTRY_BYTES_MAX {
            return Err(format!(
                "split entry {first} states {parts} parts and {length} bytes"
            ));
        }
        let run = Run {
            first,
            last: first,
            parts,
        };
        let entry = Entry {
            index: first,
            term,
            payload: Bytes::new(),
        };
        self.open = Some((run, entry, body.to_vec(), length));
        Ok(None)
    }

    fn go_on(
        &mut self,
        first: u64,
        part: u16,
        body: &[u8],
    ) -> Result<Option<(Run, Vec<Entry>)>, String> {
        let Some((run, mut entry, mut bytes, length)) = self.open.take() else {
            return Err(short(first));
        };
        let filled = bytes
            .len()
            .saturating_sub(RECORD_BYTES_MAX - RUN_HEAD - ENTRY_HEAD);
        let expected = filled / (RECORD_BYTES_MAX - RECORD_HEAD) + 1;
        if run.first != first || usize::from(part) != expected {
            return Err(format!("entry {} lacks part {expected}", run.first));
        }
        bytes.extend_from_slice(body);
        if part < run.parts {
            self.open = Some((run, entry, bytes, length));
            return Ok(None);
        }
        if bytes.len() != length {
            return Err(format!(
                "entry {first} has {} bytes instead of {length}",
                bytes.len()
            ));
        }
        entry.payload = bytes.into();
        Ok(Some((run, vec![entry])))
    }
}

fn checksum_of(key: &[u8], value: &[u8]) -> u32 {
    if value.len() < RECORD_HEAD {
        0
    } else {
        checksum(key, value)
    }
}

fn short(first: u64) -> String {
    format!("the record of entry {first} ends too early")
}

fn entry_head(first: u64, body: &mut Bytes) -> Result<(u64, usize), String> {
    let term = body.try_get_u64_le().map_err(|_| short(first))?;
    let length = body.try_get_u32_le().map_err(|_| short(first))?;
    Ok((term, usize::try_from(length).unwrap_or(usize::MAX)))
}

fn decode_run(first: u64, mut body: Bytes) -> Result<(Run, Vec<Entry>), String> {
    let count = body.try_get_u16_le().map_err(|_| short(first))?;
    let last = u64::from(count)
        .checked_sub(1)
        .and_then(|more| first.checked_add(more));
    let last = last.ok_or_else(|| format!("the run at entry {first} states {count} entries"))?;
    let mut entries = Vec::with_capacity(usize::from(count));
    for index in first..=last {
        let (term, length) = entry_head(first, &mut body)?;
        if length > body.len() {
            return Err(short(first));
        }
        entries.push(Entry {
            index,
            term,
            payload: body.split_to(length),
        });
    }
    if body.is_empty() {
        Ok((
            Run {
                first,
                last,
                parts: 0,
            },
            entries,
        ))
    } else {
        Err(format!(
            "the record of entry {first} is longer than its entries"
        ))
    }
}

/// Checks that indexes have no hole and that terms do not fall, from entry to entry.
pub(super) fn check_next(last: Option<LogId>, entry: &Entry) -> Result<(), String> {
    let Some(last) = last else { return Ok(()) };
    if last.index.checked_add(1) != Some(entry.index) {
        return Err(format!(
            "entry {} is followed by entry {}",
            last.index, entry.index
        ));
    }
    if entry.term < last.term {
        let (index, term) = (entry.index, entry.term);
        return Err(format!(
            "entry {index} has term {term} after term {}",
            last.term
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(index: u64, bytes: usize) -> Entry {
        let byte = u8::try_from(index % 251).unwrap();
        Entry {
            index,
            term: 3,
            payload: vec![byte; bytes].into(),
        }
    }

    fn pack_all(entries: &[Entry], record_bytes_max: usize) -> (Vec<Run>, Records) {
        let (mut runs, mut records, mut rest) = (Vec::new(), Vec::new(), entries);
        while let Some((run, more, behind)) = pack(rest, record_bytes_max) {
            runs.push(run);
            records.extend(more);
            rest = behind;
        }
        (runs, records)
    }

    fn unpack(records: &Records) -> Result<(Vec<Run>, Vec<Entry>), String> {
        let (mut unpacker, mut runs, mut entries) = (Unpacker::default(), Vec::new(), Vec::new());
        for (key, value) in records {
            if let Some((run, more)) = unpacker.take(key, value)? {
                runs.push(run);
                entries.extend(more);
            }
        }
        unpacker.finish().map(|()| (runs, entries))
    }

    #[test]
    fn the_bytes_of_a_run_are_these_for_ever() {
        let entries = [entry(258, 2), entry(259, 0)];
        let (runs, records) = pack_all(&entries, RECORD_BYTES_MAX);
        assert_eq!(
            runs,
            [Run {
                first: 258,
                last: 259,
                parts: 0
            }]
        );
        let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
        assert_eq!(hex(&records[0].0), "0000000000000102");
        assert_eq!(
            hex(&records[0].1),
            "01072cd7850200\
             0300000000000000020000000707\
             030000000000000000000000"
        );
    }

    #[test]
    fn what_was_packed_is_unpacked_at_every_size() {
        let edge = RECORD_BYTES_MAX - RUN_HEAD - ENTRY_HEAD;
        let sizes = [
            0,
            1,
            100,
            edge - 1,
            edge,
            edge + 1,
            2 * edge,
            20_000,
            ENTRY_BYTES_MAX,
        ];
        for bytes in sizes {
            let entries: Vec<_> = (7..20).map(|index| entry(index, bytes)).collect();
            for limit in [0, 512, RECORD_BYTES_MAX] {
                let (runs, records) = pack_all(&entries, limit);
                assert!(
                    records
                        .iter()
                        .all(|(_, value)| value.len() <= RECORD_BYTES_MAX)
                );
                assert!(records.is_sorted_by_key(|(key, _)| key.clone()));
                let keys: Vec<_> = runs.iter().flat_map(Run::keys).collect();
                assert!(keys.iter().eq(records.iter().map(|(key, _)| key)));
                assert_eq!(
                    unpack(&records),
                    Ok((runs, entries.clone())),
                    "{bytes} {limit}"
                );
            }
        }
        let (runs, _) = pack_all(&(0..100).map(|i| entry(i, 100)).collect::<Vec<_>>(), 4096);
        assert_eq!(runs.len(), 3, "36 entries of 112 bytes fit into a record");
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_found() {
        let entries = [entry(0, 3), entry(1, 9_000), entry(2, 5)];
        let (_, good) = pack_all(&entries, RECORD_BYTES_MAX);
        for record in 0..good.len() {
            let bits = good[record].1.len() * 8;
            for bit in (0..bits).step_by(if bits > 2_000 { 37 } else { 1 }) {
                let mut records = good.clone();
                records[record].1[bit / 8] ^= 1 << (bit % 8);
                assert!(unpack(&records).is_err(), "record {record} bit {bit}");
            }
            for bit in 0..good[record].0.len() * 8 {
                let mut records = good.clone();
                records[record].0[bit / 8] ^= 1 << (bit % 8);
                assert!(unpack(&records).is_err(), "key {record} bit {bit}");
            }
            for cut in (0..good[record].1.len()).step_by(11) {
                let mut records = good.clone();
                records[record].1.truncate(cut);
                assert!(unpack(&records).is_err(), "record {record} cut at {cut}");
            }
            if good[record].0.len() > 8 || good.get(record + 1).is_some_and(|(k, _)| k.len() > 8) {
                let mut records = good.clone();
                records.remove(record);
                assert!(
                    unpack(&records).is_err(),
                    "record {record} of a split entry is missing"
                );
            }
        }
    }

    #[test]
    fn a_hole_and_a_falling_term_are_found() {
        let last = Some(LogId { term: 3, index: 6 });
        assert!(check_next(last, &entry(7, 0)).is_ok());
        assert!(check_next(last, &entry(8, 0)).is_err());
        assert!(check_next(last, &entry(6, 0)).is_err());
        let fallen = Entry {
            term: 2,
            ..entry(7, 0)
        };
        assert!(check_next(last, &fallen).is_err());
    }
}
