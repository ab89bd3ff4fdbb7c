//! The client's one source of random numbers: request ids, and the jitter of waits.

use std::sync::{Mutex, MutexGuard, PoisonError};

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};

/// A generator that the tasks of one client share.
pub(crate) struct Dice(Mutex<StdRng>);

impl Dice {
    /// Seeds it from the operating system; or from a number, so that a simulation can be replayed.
    pub(crate) fn new(seed: Option<u64>) -> Self {
        let generator = seed.map_or_else(rand::make_rng, StdRng::seed_from_u64);
        Self(Mutex::new(generator))
    }

    /// 128 random bits: no two requests of the world share them.
    pub(crate) fn request_id(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        self.generator().fill_bytes(&mut bytes);
        bytes
    }

    /// A number from 0 to 1, 1 excluded.
    pub(crate) fn fraction(&self) -> f64 {
        self.generator().random()
    }

    /// An index below `count`, which is at least 1.
    pub(crate) fn below(&self, count: usize) -> usize {
        self.generator().random_range(0..count.max(1))
    }

    fn generator(&self) -> MutexGuard<'_, StdRng> {
        // A generator has no state that a panic elsewhere could have left half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_and_the_system_does_not() {
        assert_eq!(
            Dice::new(Some(7)).request_id(),
            Dice::new(Some(7)).request_id()
        );
        assert_ne!(Dice::new(None).request_id(), Dice::new(None).request_id());
    }

    #[test]
    fn draws_stay_within_their_bounds() {
        let dice = Dice::new(Some(1));
        assert!((0..100).all(|_| dice.below(3) < 3));
        assert_eq!(dice.below(0), 0);
        assert!((0..100).all(|_| (0.0..1.0).contains(&dice.fraction())));
    }
}
