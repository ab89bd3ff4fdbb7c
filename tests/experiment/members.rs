//! The value of a register: a set of numbers, one bit each.
//!
//! Every update adds a number of its own, so that an update that was lost shows as its missing number, and
//! is counted exactly. As bits, a hundred thousand updates are a value of twelve kilobytes.

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Members(Vec<u8>);

impl Members {
    /// As it was stored.
    pub(crate) fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The set with one number more.
    #[must_use]
    pub(crate) fn with(mut self, number: u64) -> Self {
        let (byte, bit) = place(number);
        if self.0.len() <= byte {
            self.0.resize(byte + 1, 0);
        }
        self.0[byte] |= bit;
        self
    }

    pub(crate) fn contains(&self, number: u64) -> bool {
        let (byte, bit) = place(number);
        self.0.get(byte).is_some_and(|found| found & bit != 0)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u64> {
        let end = self.0.len() as u64 * 8;
        (0..end).filter(|number| self.contains(*number))
    }
}

fn place(number: u64) -> (usize, u8) {
    let byte = usize::try_from(number / 8).expect("a test makes no 2^64 updates");
    (byte, 1 << (number % 8))
}

#[test]
fn a_set_holds_what_was_added_and_nothing_else() {
    let numbers = [0, 7, 8, 9, 1_000];
    let set = numbers
        .iter()
        .fold(Members::default(), |set, &n| set.with(n));
    assert_eq!(set.iter().collect::<Vec<_>>(), numbers);
    assert_eq!(Members::from_bytes(set.as_bytes().to_vec()), set);
    assert!(!set.contains(6) && !set.contains(1_000_000));
}
