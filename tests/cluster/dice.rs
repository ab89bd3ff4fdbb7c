//! Random numbers that a printed seed replays, on every machine and for ever: SplitMix64, from Steele,
//! Lea and Flood, "Fast splittable pseudorandom number generators" (2014). Small, and good enough to
//! choose commands and faults.
//!
//! More than one test binary takes this file in by its path, and none of them rolls in every way.
#![allow(
    dead_code,
    reason = "each binary that includes this rolls in some ways only"
)]

use std::time::Duration;

#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Dice of their own for one part of a run, which do not depend on how often others rolled.
    pub(crate) fn fork(&self, part: u64) -> Self {
        let mut fork = Self(self.0 ^ part.wrapping_mul(0xd1b5_4a32_d192_ed03));
        fork.next();
        fork
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 up to, and without, `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    /// True once in `times`.
    pub(crate) fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    pub(crate) fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[usize::try_from(self.below(from.len() as u64)).unwrap()]
    }

    /// True in so many of a hundred cases.
    pub(crate) fn percent(&mut self, of_a_hundred: u64) -> bool {
        self.below(100) < of_a_hundred
    }

    pub(crate) fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from + 1))
    }

    pub(crate) fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = usize::try_from(self.below(last as u64 + 1)).unwrap();
            items.swap(last, other);
        }
    }
}

#[test]
fn the_same_seed_rolls_the_same() {
    let rolls = |mut dice: Dice| (0..5).map(|_| dice.next()).collect::<Vec<_>>();
    assert_eq!(rolls(Dice::new(7)), rolls(Dice::new(7)));
    assert_ne!(rolls(Dice::new(7)), rolls(Dice::new(8)));
    assert_ne!(rolls(Dice::new(7).fork(1)), rolls(Dice::new(7).fork(2)));
}
