//! What became of places, as metrics.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::{
    grant::LeftHow,
    issuer::{Command, Event},
    server::telemetry::{Count, Metrics},
};

/// Counts, looked up once, and seen at 0 until something happens, so that a first one is a rise.
pub(super) struct Counted {
    /// Only the leader counts, so that a cluster counts everything once.
    leads: AtomicBool,
    queued: Count,
    handed_over: Count,
    promoted: Count,
    withdrawn: Count,
    waited_out: Count,
    superseded: Count,
    detached: Count,
}

impl Counted {
    pub(super) fn new(metrics: &Metrics) -> Self {
        let left = |how: LeftHow| metrics.places_left(how.as_str());
        Counted {
            leads: AtomicBool::new(false),
            queued: metrics.queued.clone(),
            handed_over: metrics.hand_overs("end"),
            promoted: metrics.hand_overs("promotion"),
            withdrawn: left(LeftHow::Withdrawn),
            waited_out: left(LeftHow::WaitedOut),
            superseded: left(LeftHow::Superseded),
            detached: left(LeftHow::Detached),
        }
    }

    pub(super) fn lead(&self, leads: bool) {
        self.leads.store(leads, Ordering::Relaxed);
    }

    /// An entry was applied.
    pub(super) fn count(&self, command: &Command, events: &[Event]) {
        if !self.leads.load(Ordering::Relaxed) {
            return;
        }
        for event in events {
            match event {
                Event::Queued { .. } => self.queued.inc(),
                Event::Granted {
                    after_wait: true, ..
                } => match command {
                    Command::Promote(_) => self.promoted.inc(),
                    _ => self.handed_over.inc(),
                },
                Event::Left { how, .. } => self.left(*how).inc(),
                Event::Granted { .. }
                | Event::Renewed { .. }
                | Event::Ended { .. }
                | Event::FloorRaised { .. }
                | Event::Admitted { .. } => {}
            }
        }
    }

    fn left(&self, how: LeftHow) -> &Count {
        match how {
            LeftHow::Withdrawn => &self.withdrawn,
            LeftHow::WaitedOut => &self.waited_out,
            LeftHow::Superseded => &self.superseded,
            LeftHow::Detached => &self.detached,
        }
    }
}
