//! How many may watch.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// All places are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full {
    /// How many there are.
    pub max: usize,
}

#[derive(Debug)]
pub(super) struct Seats {
    taken: Arc<AtomicUsize>,
    max: usize,
}

/// One watcher's place; it is free again when this is dropped.
#[derive(Debug)]
pub struct Seat(Arc<AtomicUsize>);

impl Seats {
    pub(super) fn new(max: usize) -> Self {
        Seats {
            taken: Arc::default(),
            max,
        }
    }

    pub(super) fn take(&self) -> Result<Seat, Full> {
        let more = |taken| (taken < self.max).then_some(taken + 1);
        match self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, more)
        {
            Ok(_) => Ok(Seat(Arc::clone(&self.taken))),
            Err(_) => Err(Full { max: self.max }),
        }
    }

    pub(super) fn taken(&self) -> usize {
        self.taken.load(Ordering::Relaxed)
    }

    pub(super) fn max(&self) -> usize {
        self.max
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
