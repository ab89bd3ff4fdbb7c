//! The smallest parts: numbers, texts and flags, written to and read from bytes.
//!
//! Numbers of fixed width are big-endian. A varint takes seven bits a byte, low bits first, the high
//! bit saying that more follow; only the shortest form is accepted, so that equal values have equal
//! bytes and reading followed by writing gives the same bytes again.

use super::DecodeError;

/// Appends to a buffer that the caller keeps.
pub(crate) trait Put {
    fn put(&mut self, bytes: &[u8]);

    fn put_u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    fn put_u64(&mut self, value: u64) {
        self.put(&value.to_be_bytes());
    }

    fn put_u128(&mut self, value: u128) {
        self.put(&value.to_be_bytes());
    }

    fn put_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.put_u8((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        #[expect(clippy::cast_possible_truncation, reason = "less than 0x80")]
        self.put_u8(value as u8);
    }

    fn put_text(&mut self, text: &str) {
        self.put_varint(text.len() as u64);
        self.put(text.as_bytes());
    }
}

impl Put for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Reads from the front of a slice. Nothing it can be given makes it panic or allocate.
#[derive(Debug)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (taken, rest) = self
            .rest
            .split_first_chunk()
            .ok_or(DecodeError::Truncated)?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn u128(&mut self) -> Result<u128, DecodeError> {
        self.array().map(u128::from_be_bytes)
    }

    pub(crate) fn varint(&mut self) -> Result<u64, DecodeError> {
        let mut value = 0_u64;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.u8()?;
            let bits = u64::from(byte & 0x7f);
            if (bits << shift) >> shift != bits || (byte == 0 && shift > 0) {
                return Err(DecodeError::Field { field: "varint" });
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(DecodeError::Field { field: "varint" })
    }

    pub(crate) fn varint_u32(&mut self, field: &'static str) -> Result<u32, DecodeError> {
        u32::try_from(self.varint()?).map_err(|_| DecodeError::Field { field })
    }

    /// A number of elements to come; each takes at least `least` bytes, so that a number which the
    /// rest cannot hold is refused before anything is allocated for it.
    pub(crate) fn count(&mut self, least: usize) -> Result<usize, DecodeError> {
        let count = usize::try_from(self.varint()?).map_err(|_| DecodeError::Truncated)?;
        if count > self.rest.len() / least.max(1) {
            return Err(DecodeError::Truncated);
        }
        Ok(count)
    }

    pub(crate) fn text(&mut self, field: &'static str) -> Result<&'a str, DecodeError> {
        let length = self.count(1)?;
        std::str::from_utf8(self.take(length)?).map_err(|_| DecodeError::Field { field })
    }

    /// Nothing may be left over.
    pub(crate) fn end(self) -> Result<(), DecodeError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(DecodeError::Trailing)
        }
    }
}
