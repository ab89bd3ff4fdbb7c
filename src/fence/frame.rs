//! A value and its mark in one piece of bytes, for stores that can replace a piece atomically.
//!
//! ```text
//! fencepost-value 1 5 9a71bb4c prod:account/1:131 e960c3a2\n
//! hello
//! ```
//!
//! One line of text, then the value as it is. The line's words: what it is, the format, the bytes of
//! the value, the value's CRC-32C, the sequencer of the last write, and the CRC-32C of the line up to
//! there. So `head -1` shows a person the mark, and damage to either half is an error and never
//! "no mark". The mark is *inside* the bytes so that an S3 `ETag`, which is a hash of the bytes alone,
//! changes whenever the mark does.

use std::fmt::Write as _;

use crate::{resource::ResourceName, sequencer::Sequencer};

use super::Mark;

/// The first word of each line.
const MAGIC: &str = "fencepost-value";
/// The format that is written; a reader refuses any other.
const FORMAT: &str = "1";
/// No line is longer: names of 80 and 160 characters of four bytes each, percent-encoded, are 2,880
/// bytes, and the rest of the line is under 100.
pub(super) const LINE_BYTES_MAX: usize = 4096;

/// What is known of a value from its line alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// Of the last admitted write.
    pub(super) sequencer: Sequencer,
    /// Bytes of the value.
    value_bytes: u64,
    value_crc: u32,
    /// Bytes of the line itself, its end included.
    pub(super) bytes: usize,
}

/// Why bytes are no value with a mark.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Damage {
    /// It begins otherwise: something else wrote it, or its beginning is lost.
    #[error("it does not begin with a mark; something else than this guard wrote it")]
    NoMark,
    /// A later version of fencepost wrote it.
    #[error("its format is \"{found}\", and this version reads {FORMAT}")]
    Format {
        /// The format's word, cut to 20 characters.
        found: String,
    },
    /// The line does not agree with its own checksum, or its words are not what they should be.
    #[error("its first line, which holds the mark, is damaged")]
    Line,
    /// Bytes are missing, or too many.
    #[error("the value should have {expected} bytes, and {found} are there")]
    Length {
        /// As written in the line.
        expected: u64,
        /// What follows the line.
        found: u64,
    },
    /// The value does not agree with its checksum.
    #[error("the value does not agree with its checksum")]
    Value,
    /// It is the value of another resource: copied or renamed by hand, or two names that differ only
    /// in case on a file system that does not tell them apart.
    #[error("it holds the value of resource \"{found}\"")]
    Resource {
        /// The resource that it names.
        found: ResourceName,
    },
}

/// The line that goes before a value.
pub(super) fn line(sequencer: &Sequencer, value: &[u8]) -> String {
    let (bytes, crc) = (value.len(), crc32c::crc32c(value));
    let mut line = format!("{MAGIC} {FORMAT} {bytes} {crc:08x} {sequencer}");
    let own = crc32c::crc32c(line.as_bytes());
    writeln!(line, " {own:08x}").expect("a String takes everything");
    line
}

impl Line {
    /// Reads the line at the beginning of `head`, which holds the whole value or at least its first
    /// [`LINE_BYTES_MAX`] bytes, and checks that it belongs to `resource`.
    pub(super) fn read(head: &[u8], resource: &ResourceName) -> Result<Self, Damage> {
        if !head.starts_with(MAGIC.as_bytes()) {
            return Err(Damage::NoMark);
        }
        let window = &head[..head.len().min(LINE_BYTES_MAX)];
        let end = window.iter().position(|byte| *byte == b'\n');
        let text = end.and_then(|end| std::str::from_utf8(&window[..end]).ok());
        let text = text.ok_or(Damage::Line)?;
        let mut words = text.split(' ').skip(1);
        let format = words.next().ok_or(Damage::Line)?;
        if format != FORMAT {
            let found = format.chars().take(20).collect();
            return Err(Damage::Format { found });
        }
        let line = Self::words(text, words).ok_or(Damage::Line)?;
        if line.sequencer.resource != *resource {
            return Err(Damage::Resource {
                found: line.sequencer.resource,
            });
        }
        Ok(line)
    }

    /// The words after the format, if they are right.
    fn words<'t>(text: &'t str, mut words: impl Iterator<Item = &'t str>) -> Option<Self> {
        let value_bytes = words.next()?.parse().ok()?;
        let value_crc = u32::from_str_radix(words.next()?, 16).ok()?;
        let sequencer = words.next()?.parse().ok()?;
        let own = words.next()?;
        let before = text.len() - own.len() - 1;
        let right = format!("{:08x}", crc32c::crc32c(&text.as_bytes()[..before]));
        (own == right && words.next().is_none()).then_some(Self {
            sequencer,
            value_bytes,
            value_crc,
            bytes: text.len() + 1,
        })
    }

    /// Checks that a piece of `total` bytes, this line included, can hold the value.
    pub(super) fn fits(&self, total: u64) -> Result<(), Damage> {
        let found = total.saturating_sub(self.bytes as u64);
        if found == self.value_bytes {
            return Ok(());
        }
        Err(Damage::Length {
            expected: self.value_bytes,
            found,
        })
    }

    /// Checks the value itself.
    pub(super) fn agrees(&self, value: &[u8]) -> Result<(), Damage> {
        self.fits(self.bytes as u64 + value.len() as u64)?;
        if crc32c::crc32c(value) == self.value_crc {
            Ok(())
        } else {
            Err(Damage::Value)
        }
    }

    /// The mark.
    pub(super) fn mark(self) -> Mark {
        Mark {
            issuer: self.sequencer.issuer,
            token: self.sequencer.token,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: &[u8] = b"fencepost-value 1 5 9a71bb4c prod:account/1:131 e960c3a2\nhello";

    fn account() -> ResourceName {
        "account/1".parse().unwrap()
    }

    #[test]
    fn the_bytes_are_for_ever() {
        let sequencer = "prod:account/1:131".parse().unwrap();
        let written = [line(&sequencer, b"hello").as_bytes(), b"hello"].concat();
        assert_eq!(
            String::from_utf8_lossy(&written),
            String::from_utf8_lossy(GOLDEN)
        );
        let read = Line::read(GOLDEN, &account()).unwrap();
        assert_eq!(read.sequencer, sequencer);
        assert_eq!(read.fits(GOLDEN.len() as u64), Ok(()));
        assert_eq!(read.agrees(&GOLDEN[read.bytes..]), Ok(()));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let whole = |bytes: &[u8]| -> Result<(), Damage> {
            let line = Line::read(bytes, &account())?;
            line.agrees(&bytes[line.bytes..])
        };
        assert_eq!(whole(GOLDEN), Ok(()));
        for at in 0..GOLDEN.len() {
            for bit in 0..8 {
                let mut damaged = GOLDEN.to_vec();
                damaged[at] ^= 1 << bit;
                assert!(whole(&damaged).is_err(), "byte {at}, bit {bit}");
            }
            assert!(whole(&GOLDEN[..at]).is_err(), "cut at {at}");
        }
        assert!(whole(&[GOLDEN, b"!"].concat()).is_err());
    }

    #[test]
    fn the_longest_names_fit_into_a_line() {
        let sequencer = Sequencer {
            issuer: "🦀".repeat(80).parse().unwrap(),
            resource: "🦀".repeat(160).parse().unwrap(),
            token: crate::token::TokenValue::new(i64::MAX as u64).unwrap(),
        };
        let line = line(&sequencer, &[]);
        assert!(line.len() < LINE_BYTES_MAX, "{}", line.len());
        let read = Line::read(line.as_bytes(), &sequencer.resource).unwrap();
        assert_eq!(read.sequencer, sequencer);
    }

    #[test]
    fn each_kind_of_damage_has_its_words() {
        let read = |bytes: &[u8]| Line::read(bytes, &account()).unwrap_err();
        assert_eq!(read(b""), Damage::NoMark);
        assert_eq!(read(b"hello"), Damage::NoMark);
        let later = b"fencepost-value 2 whatever comes\n";
        assert!(read(later).to_string().contains("format is \"2\""));
        assert_eq!(read(b"fencepost-value 1 5\n"), Damage::Line);
        let other = Line::read(GOLDEN, &"account/2".parse().unwrap()).unwrap_err();
        assert!(other.to_string().contains("\"account/1\""));
        let line = Line::read(GOLDEN, &account()).unwrap();
        let cut = line.agrees(b"hell").unwrap_err();
        assert_eq!(
            cut.to_string(),
            "the value should have 5 bytes, and 4 are there"
        );
        assert_eq!(line.agrees(b"hullo"), Err(Damage::Value));
    }
}
