//! How long and how hard the kit tries.

use std::time::Duration;

/// How long and how hard the kit tries. The defaults take seconds on a database of one's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    pub(super) seed: u64,
    pub(super) case_bound: Duration,
    pub(super) patience: Duration,
    pub(super) writers: usize,
    pub(super) rounds: usize,
    pub(super) writes_each: usize,
    pub(super) interleavings_max: usize,
    pub(super) resources: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            seed: 1,
            case_bound: Duration::from_secs(60),
            patience: Duration::from_millis(20),
            writers: 5,
            rounds: 12,
            writes_each: 6,
            interleavings_max: 80,
            resources: 100,
        }
    }
}

impl Settings {
    /// Where the random choices start; 1 unless set. The report prints it. The same seed makes the
    /// same choices; which of two writers that race is first remains the machine's.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// The longest that one case may take; 60 s unless set. Beyond it, it is reported as failed.
    #[must_use]
    pub fn case_bound(mut self, bound: Duration) -> Self {
        self.case_bound = bound;
        self
    }

    /// How long a step may take before it counts as waiting for the other holder; 20 ms unless set.
    /// Only which interleavings are met depends on it, never what is found right or wrong.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// How many handles write at once; 5 unless set, at least 2.
    #[must_use]
    pub fn writers(mut self, writers: usize) -> Self {
        self.writers = writers.max(2);
        self
    }

    /// How many races are run, each on a resource of its own; 12 unless set, at least 1.
    #[must_use]
    pub fn rounds(mut self, rounds: usize) -> Self {
        self.rounds = rounds.max(1);
        self
    }

    /// How many grants each writer takes in a race; 6 unless set, at least 1.
    #[must_use]
    pub fn writes_each(mut self, writes: usize) -> Self {
        self.writes_each = writes.max(1);
        self
    }

    /// How many interleavings of two writes are tried; 80 unless set, at least 1. Where there are
    /// more, the seed chooses among them.
    #[must_use]
    pub fn interleavings_max(mut self, interleavings: usize) -> Self {
        self.interleavings_max = interleavings.max(1);
        self
    }

    /// How many resources are kept apart in one place; 100 unless set, at least 2.
    #[must_use]
    pub fn resources(mut self, resources: usize) -> Self {
        self.resources = resources.max(2);
        self
    }
}
