//! `WATERMARK`: the least that the database must still hold.
//!
//! Damage can make sled open *short or empty without an error*. The watermark is a second, tiny
//! witness: the storage thread notes in it what it has flushed, and a start compares.
//!
//! Two slots in blocks of their own, each with a checksum and a sequence number. A write goes into
//! the slot that is not the durable one, so that a torn write never takes the last good statement
//! with it. It is raised only after the flush of what it states, and lowered durably *before* a
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

pub(super) const NAME: &str = "WATERMARK";

const FORMAT: u8 = 1;
const MAGIC: &[u8; 4] = b"FPWM";
const SLOT_BYTES: usize = 80;
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
    sequence: u64,
    durable_slot: u64,
    unsynced: bool,
    mark: Mark,
}

impl Watermark {
    /// Makes the file of a new directory, durably.
    pub(super) fn create(dir: &Path, mark: Mark) -> io::Result<Self> {
        let mut content = vec![0; 2 * usize::try_from(SLOT_DISTANCE).unwrap_or(4096)];
        content[..SLOT_BYTES].copy_from_slice(&encode(1, &mark));
        files::replace(dir, NAME, &content)?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(dir.join(NAME))?;
        Ok(Self {
            file,
            sequence: 1,
            durable_slot: 0,
            unsynced: false,
            mark,
        })
    }

    /// Opens the file; `Ok(None)` if there is none, `InvalidData` if neither slot is whole.
    pub(super) fn open(dir: &Path) -> io::Result<Option<Self>> {
        let file = match OpenOptions::new()
            .read(true)
            .write(true)
            .open(dir.join(NAME))
        {
            Ok(file) => file,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(e),
        };
        let slots = (0..2).filter_map(|slot| {
            let mut bytes = [0; SLOT_BYTES];
            file.read_exact_at(&mut bytes, slot * SLOT_DISTANCE).ok()?;
            decode(&bytes).map(|(sequence, mark)| (sequence, slot, mark))
        });
        let Some((sequence, slot, mark)) = slots.max_by_key(|(sequence, ..)| *sequence) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "neither slot is whole",
            ));
        };
        // After a kill the newest slot may be in the page cache only; the next write goes into the
        // other one, which until now is the durable one.
        file.sync_data()?;
        Ok(Some(Self {
            file,
            sequence,
            durable_slot: slot,
            unsynced: false,
            mark,
        }))
    }

    /// What it states now.
    pub(super) fn mark(&self) -> &Mark {
        &self.mark
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
        self.file
            .write_all_at(&encode(self.sequence + 1, &mark), slot * SLOT_DISTANCE)?;
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

fn encode(sequence: u64, mark: &Mark) -> [u8; SLOT_BYTES] {
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
    let crc = crc32c::crc32c(&bytes[..72]);
    bytes[72..76].copy_from_slice(&crc.to_le_bytes());
    bytes
}

fn decode(bytes: &[u8; SLOT_BYTES]) -> Option<(u64, Mark)> {
    let crc = u32::from_le_bytes(bytes[72..76].try_into().ok()?);
    if bytes[..4] != *MAGIC || bytes[4] != FORMAT || crc32c::crc32c(&bytes[..72]) != crc {
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
    Some((sequence, mark))
}

#[cfg(test)]
mod tests {
    use super::*;

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

    #[test]
    fn the_bytes_of_a_slot_are_these_for_ever() {
        let bytes = encode(9, &some_mark());
        let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(
            hex,
            "4650574d010f0000\
             0900000000000000\
             0300000000000000\
             0700000000000000\
             0200000000000000\
             0700000000000000\
             0201000000000000\
             0000000000000000\
             0000000000000000\
             f23202ad00000000"
        );
        assert_eq!(decode(&bytes), Some((9, some_mark())));
    }

    #[test]
    fn a_flipped_bit_makes_a_slot_void() {
        let good = encode(9, &some_mark());
        for bit in 0..76 * 8 {
            let mut bytes = good;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(decode(&bytes), None, "bit {bit}");
        }
    }

    #[test]
    fn a_torn_write_leaves_the_last_durable_statement() {
        let dir = tempfile::tempdir().unwrap();
        let first = Mark {
            boots: 1,
            ..Mark::default()
        };
        let mut watermark = Watermark::create(dir.path(), first).unwrap();
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
        let path = dir.path().join(NAME);
        let mut content = std::fs::read(&path).unwrap();
        content[40] ^= 0xff;
        std::fs::write(&path, content).unwrap();
        let reopened = Watermark::open(dir.path()).unwrap().unwrap();
        assert_eq!(*reopened.mark(), some_mark());
    }

    #[test]
    fn a_killed_process_leaves_its_last_statement() {
        let dir = tempfile::tempdir().unwrap();
        let mut watermark = Watermark::create(dir.path(), Mark::default()).unwrap();
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
            let reopened = Watermark::open(dir.path()).unwrap().unwrap();
            assert_eq!(reopened.mark().boots, boots);
        }
    }

    #[test]
    fn two_void_slots_are_an_error_and_not_a_fresh_start() {
        let dir = tempfile::tempdir().unwrap();
        drop(Watermark::create(dir.path(), some_mark()).unwrap());
        std::fs::write(dir.path().join(NAME), vec![0; 8192]).unwrap();
        let error = Watermark::open(dir.path()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
