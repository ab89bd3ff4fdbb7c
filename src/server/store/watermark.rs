//! `WATERMARK`: the least that the database must still hold.
//!
//! Damage can make sled open *short or empty without an error*. The watermark is a second, tiny
//! witness: the storage thread notes in it what it has flushed, and a start compares.
//!
//! Two slots in blocks of their own, each with a checksum and a sequence number. A write goes into
//! the slot that is not the durable one, so that a torn write never takes the last good statement
//! with it. Each names the instance that it speaks for, so that the file of another directory, whole as
//! it may be, does not pass for this one's. It is raised only after the flush of what it states, and lowered durably *before* a
//! truncation; so at every instant it states no more than what the disk holds.
//!
//! Raising it costs no fdatasync of its own beside each group commit. It is written at once, which
//! survives the death of the process, and synced at every vote, boot and truncation and at least
//! every second. What is left: after a power cut, damage to the database that takes away no more
//! than the last second before the cut may go unnoticed.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::entry::{LogId, StoredVote};
use super::files;
use super::identity::InstanceId;

pub(super) const NAME: &str = "WATERMARK";

const FORMAT: u8 = 2;
/// As it was before a slot named the instance. Still read, never written.
const FORMAT_WITHOUT_INSTANCE: u8 = 1;
const MAGIC: &[u8; 4] = b"FPWM";
const SLOT_BYTES: usize = 96;
const SLOT_DISTANCE: u64 = 4096;

/// What the watermark states.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Mark {
    /// Starts of this directory so far.
    pub(super) boots: u64,
    /// The newest durable vote.
    pub(super) vote: Option<StoredVote>,
    /// The newest of last entry, purge marker and snapshot.
    pub(super) tip: Option<LogId>,
    /// The purge marker.
    pub(super) purged: Option<LogId>,
}

/// The open file.
#[derive(Debug)]
pub(super) struct Watermark {
    file: File,
    instance: InstanceId,
    sequence: u64,
    durable_slot: u64,
    unsynced: bool,
    mark: Mark,
    /// The other slot is not whole: torn by a power cut, or damaged since.
    fell_back: bool,
}

/// One whole slot.
struct Slot {
    sequence: u64,
    /// Whom it speaks for; `None` in the older format.
    instance: Option<InstanceId>,
    mark: Mark,
}

/// Why a file that is there cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unfit {
    /// Reading it failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Neither slot is what was written.
    #[error("WATERMARK does not match its checksums")]
    Void,
    /// It speaks for another data directory.
    #[error("WATERMARK belongs to another data directory, of instance {0}, not to this one")]
    OtherInstance(InstanceId),
}

impl Watermark {
    /// Makes the file of a new directory, durably.
    pub(super) fn create(dir: &Path, instance: InstanceId, mark: Mark) -> io::Result<Self> {
        let mut content = vec![0; 2 * usize::try_from(SLOT_DISTANCE).unwrap_or(4096)];
        content[..SLOT_BYTES].copy_from_slice(&encode(1, instance, &mark));
        files::replace(dir, NAME, &content)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(dir.join(NAME))?;
        Ok(Self {
            file,
            instance,
            sequence: 1,
            durable_slot: 0,
            unsynced: false,
            mark,
            fell_back: false,
        })
    }

    /// Opens the file of `instance`; `Ok(None)` if there is none.
    pub(super) fn open(dir: &Path, instance: InstanceId) -> Result<Option<Self>, Unfit> {
        let file = match OpenOptions::new()
            .read(true)
            .write(true)
            .open(dir.join(NAME))
        {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e.into()),
        };
        let mut newest: Option<(u64, Slot)> = None;
        let mut fell_back = false;
        for number in 0..2 {
            let bytes = read_slot(&file, number * SLOT_DISTANCE)?;
            let Some(slot) = decode(&bytes) else {
                // A new file has one slot that was never written.
                fell_back |= bytes.iter().any(|byte| *byte != 0);
                continue;
            };
            if newest
                .as_ref()
                .is_none_or(|(_, other)| other.sequence < slot.sequence)
            {
                newest = Some((number, slot));
            }
        }
        let (durable_slot, newest) = newest.ok_or(Unfit::Void)?;
        if let Some(other) = newest.instance.filter(|found| *found != instance) {
            return Err(Unfit::OtherInstance(other));
        }
        // After a kill the newest slot may be in the page cache only; the next write goes into the
        // other one, which until now is the durable one.
        file.sync_data()?;
        Ok(Some(Self {
            file,
            instance,
            sequence: newest.sequence,
            durable_slot,
            unsynced: false,
            mark: newest.mark,
            fell_back,
        }))
    }

    /// What it states now.
    pub(super) fn mark(&self) -> &Mark {
        &self.mark
    }

    /// Whether only one of two written slots was whole when the file was opened: what it states may
    /// then be an older statement than the last.
    pub(super) fn fell_back(&self) -> bool {
        self.fell_back
    }

    /// Whether something was stated that a power cut would take back.
    pub(super) fn unsynced(&self) -> bool {
        self.unsynced
    }

    /// States `mark`, surviving the process at once and a power cut after the next [`Self::sync`].
    pub(super) fn state(&mut self, mark: Mark) -> io::Result<()> {
        if mark == self.mark {
            return Ok(());
        }
        let slot = 1 - self.durable_slot;
        let bytes = encode(self.sequence + 1, self.instance, &mark);
        self.file.write_all_at(&bytes, slot * SLOT_DISTANCE)?;
        self.sequence += 1;
        self.mark = mark;
        self.unsynced = true;
        Ok(())
    }

    /// Makes durable what was stated.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        if self.unsynced {
            self.file.sync_data()?;
            self.durable_slot = 1 - self.durable_slot;
            self.unsynced = false;
        }
        Ok(())
    }
}

/// The bytes at `offset`, with zeros for what lies beyond the end of the file.
fn read_slot(file: &File, offset: u64) -> io::Result<[u8; SLOT_BYTES]> {
    let mut bytes = [0; SLOT_BYTES];
    match file.read_exact_at(&mut bytes, offset) {
        Ok(()) => Ok(bytes),
        Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => Ok([0; SLOT_BYTES]),
        Err(e) => Err(e),
    }
}

fn encode(sequence: u64, instance: InstanceId, mark: &Mark) -> [u8; SLOT_BYTES] {
    let vote = mark.vote.unwrap_or(StoredVote {
        term: 0,
        node_id: None,
        committed: false,
    });
    let tip = mark.tip.unwrap_or(LogId { term: 0, index: 0 });
    let purged = mark.purged.unwrap_or(LogId { term: 0, index: 0 });
    let flags = u8::from(mark.vote.is_some())
        | u8::from(vote.node_id.is_some()) << 1
        | u8::from(vote.committed) << 2
        | u8::from(mark.tip.is_some()) << 3
        | u8::from(mark.purged.is_some()) << 4;
    let numbers = [
        sequence,
        mark.boots,
        vote.term,
        vote.node_id.unwrap_or(0),
        tip.term,
        tip.index,
        purged.term,
        purged.index,
    ];
    let mut bytes = [0; SLOT_BYTES];
    bytes[..4].copy_from_slice(MAGIC);
    bytes[4] = FORMAT;
    bytes[5] = flags;
    for (slot, number) in bytes[8..72].chunks_exact_mut(8).zip(numbers) {
        slot.copy_from_slice(&number.to_le_bytes());
    }
    bytes[72..88].copy_from_slice(&instance.to_bytes());
    let crc = crc32c::crc32c(&bytes[..88]);
    bytes[88..92].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8; SLOT_BYTES]) -> Option<Slot> {
    let instance = match bytes[4] {
        FORMAT => Some(InstanceId::from_bytes(bytes[72..88].try_into().ok()?)),
        FORMAT_WITHOUT_INSTANCE => None,
        _ => return None,
    };
    let (summed, sum) = bytes.split_at(if instance.is_some() { 88 } else { 72 });
    let crc = u32::from_le_bytes(sum[..4].try_into().ok()?);
    if bytes[..4] != *MAGIC || crc32c::crc32c(summed) != crc {
        return None;
    }
    let mut numbers = [0; 8];
    for (number, slot) in numbers.iter_mut().zip(bytes[8..72].chunks_exact(8)) {
        *number = u64::from_le_bytes(slot.try_into().ok()?);
    }
    let [
        sequence,
        boots,
        term,
        node_id,
        tip_term,
        tip_index,
        purged_term,
        purged_index,
    ] = numbers;
    let flag = |bit: u8| bytes[5] & (1 << bit) != 0;
    let vote = StoredVote {
        term,
        node_id: flag(1).then_some(node_id),
        committed: flag(2),
    };
    let mark = Mark {
        boots,
        vote: flag(0).then_some(vote),
        tip: flag(3).then_some(LogId {
            term: tip_term,
            index: tip_index,
        }),
        purged: flag(4).then_some(LogId {
            term: purged_term,
            index: purged_index,
        }),
    };
    Some(Slot {
        sequence,
        instance,
        mark,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: InstanceId = InstanceId::new(0x0a0b_0c0d);

    fn open(dir: &Path) -> Watermark {
        Watermark::open(dir, HERE).unwrap().unwrap()
    }

    fn some_mark() -> Mark {
        Mark {
            boots: 3,
            vote: Some(StoredVote {
                term: 7,
                node_id: Some(2),
                committed: true,
            }),
            tip: Some(LogId {
                term: 7,
                index: 0x0102,
            }),
            purged: None,
        }
    }

    /// The numbers of a slot with sequence 9 and [`some_mark`], as hexadecimal digits.
    const NUMBERS: &str = "0900000000000000\
                           0300000000000000\
                           0700000000000000\
                           0200000000000000\
                           0700000000000000\
                           0201000000000000\
                           0000000000000000\
                           0000000000000000";

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    #[test]
    fn the_bytes_of_a_slot_are_these_for_ever() {
        let bytes = encode(9, HERE, &some_mark());
        let expected =
            format!("4650574d020f0000{NUMBERS}0000000000000000000000000a0b0c0de391830700000000");
        assert_eq!(hex(&bytes), expected);
        let slot = decode(&bytes).unwrap();
        assert_eq!((slot.sequence, slot.instance), (9, Some(HERE)));
        assert_eq!(slot.mark, some_mark());
    }

    /// A slot as it was written before it named an instance.
    fn older_slot() -> [u8; SLOT_BYTES] {
        let text = format!("4650574d010f0000{NUMBERS}f23202ad");
        let mut bytes = [0; SLOT_BYTES];
        for (byte, at) in bytes.iter_mut().zip((0..text.len()).step_by(2)) {
            *byte = u8::from_str_radix(&text[at..at + 2], 16).unwrap();
        }
        bytes
    }

    #[test]
    fn a_file_from_before_instances_were_named_is_read_and_then_names_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut content = vec![0; 8192];
        content[4096..][..SLOT_BYTES].copy_from_slice(&older_slot());
        std::fs::write(dir.path().join(NAME), content).unwrap();
        let mut watermark = open(dir.path());
        assert_eq!(*watermark.mark(), some_mark());
        watermark.state(Mark::default()).unwrap();
        let other = Watermark::open(dir.path(), InstanceId::new(1));
        assert!(matches!(other, Err(Unfit::OtherInstance(HERE))));
        assert_eq!(*open(dir.path()).mark(), Mark::default());
    }

    #[test]
    fn a_flipped_bit_makes_a_slot_void() {
        let (new, old) = (encode(9, HERE, &some_mark()), older_slot());
        for (good, bytes) in [(new, 92), (old, 76)] {
            for bit in 0..bytes * 8 {
                let mut bytes = good;
                bytes[bit / 8] ^= 1 << (bit % 8);
                assert!(decode(&bytes).is_none(), "bit {bit}");
            }
        }
    }

    #[test]
    fn a_torn_write_leaves_the_last_durable_statement() {
        let dir = tempfile::tempdir().unwrap();
        let first = Mark {
            boots: 1,
            ..Mark::default()
        };
        let mut watermark = Watermark::create(dir.path(), HERE, first).unwrap();
        watermark.state(some_mark()).unwrap();
        watermark.sync().unwrap();
        // Two more statements, neither synced: both go into the slot that may be torn.
        watermark
            .state(Mark {
                boots: 4,
                ..some_mark()
            })
            .unwrap();
        watermark
            .state(Mark {
                boots: 5,
                ..some_mark()
            })
            .unwrap();
        drop(watermark);
        assert!(!open(dir.path()).fell_back());
        let path = dir.path().join(NAME);
        let mut content = std::fs::read(&path).unwrap();
        content[40] ^= 0xff;
        std::fs::write(&path, content).unwrap();
        let reopened = open(dir.path());
        assert_eq!(*reopened.mark(), some_mark());
        assert!(reopened.fell_back(), "it may state less than it did");
    }

    #[test]
    fn a_killed_process_leaves_its_last_statement() {
        let dir = tempfile::tempdir().unwrap();
        let mut watermark = Watermark::create(dir.path(), HERE, Mark::default()).unwrap();
        for boots in 1..10 {
            watermark
                .state(Mark {
                    boots,
                    ..some_mark()
                })
                .unwrap();
            if boots % 4 == 0 {
                watermark.sync().unwrap();
            }
            let reopened = open(dir.path());
            assert_eq!(reopened.mark().boots, boots);
        }
    }

    #[test]
    fn two_void_slots_are_an_error_and_not_a_fresh_start() {
        let dir = tempfile::tempdir().unwrap();
        drop(Watermark::create(dir.path(), HERE, some_mark()).unwrap());
        std::fs::write(dir.path().join(NAME), vec![0; 8192]).unwrap();
        let opened = Watermark::open(dir.path(), HERE);
        assert!(matches!(opened, Err(Unfit::Void)));
    }
}
