//! What happened lately, in order, within a number of bytes.

use std::{collections::VecDeque, mem::size_of, sync::Arc};

use crate::issuer::{Event, LogId};

/// What an `Arc` of a text costs beside the text, and what the ring spends on one moment.
const NAME_HEAD_BYTES: usize = 16;
const SLOT_BYTES: usize = size_of::<Arc<Moment>>() + NAME_HEAD_BYTES;

/// All that one log entry changed.
#[derive(Debug, PartialEq, Eq)]
pub struct Moment {
    /// The entry.
    pub at: LogId,
    /// The leader's wall clock when it proposed the entry, milliseconds since 1970. For people.
    pub at_ms: u64,
    /// What happened, in order. Never empty.
    pub events: Box<[Event]>,
}

impl Moment {
    /// What it occupies. Names are counted in full, although a live grant shares its own with them:
    /// once it has ended, the history alone keeps them.
    fn bytes(&self) -> usize {
        let names: usize = self.events.iter().map(names_bytes).sum();
        SLOT_BYTES + size_of::<Moment>() + self.events.len() * size_of::<Event>() + names
    }
}

fn names_bytes(event: &Event) -> usize {
    let text = |text: &str| NAME_HEAD_BYTES + text.len();
    let reason = match event {
        Event::Ended { reason, .. } => reason.as_ref(),
        _ => None,
    };
    event.resource().map_or(0, |name| text(name.as_str()))
        + event.holder().map_or(0, |name| text(name.as_str()))
        + reason.map_or(0, |reason| text(reason.as_str()))
}

/// The newest moments, as many as fit.
#[derive(Debug)]
pub(super) struct Ring {
    moments: VecDeque<Arc<Moment>>,
    bytes: usize,
    bytes_max: usize,
    /// Nothing after this index has been dropped: the oldest cursor that one can go on from.
    oldest: u64,
}

impl Ring {
    pub(super) fn new(bytes_max: usize) -> Self {
        Ring {
            moments: VecDeque::new(),
            bytes: 0,
            bytes_max,
            oldest: 0,
        }
    }

    /// Takes in the next moment, and drops the oldest ones beyond the bound. The newest one stays
    /// whatever it occupies: a reader that keeps up must be able to go on.
    pub(super) fn push(&mut self, moment: Arc<Moment>) {
        self.bytes += moment.bytes();
        self.moments.push_back(moment);
        while self.bytes > self.bytes_max && self.moments.len() > 1 {
            let Some(dropped) = self.moments.pop_front() else {
                return;
            };
            self.bytes -= dropped.bytes();
            self.oldest = dropped.at.index;
        }
    }

    /// Begins anew behind an index: what was before it is not known here.
    pub(super) fn restart(&mut self, at: u64) {
        self.moments.clear();
        self.bytes = 0;
        self.oldest = at;
    }

    pub(super) fn oldest(&self) -> u64 {
        self.oldest
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The moments after an index.
    pub(super) fn after(&self, index: u64) -> impl Iterator<Item = &Arc<Moment>> {
        let first = self
            .moments
            .partition_point(|moment| moment.at.index <= index);
        self.moments.range(first..)
    }
}
