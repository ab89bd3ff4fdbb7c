//! One watch: a cursor that moves along the history.

use std::{pin::Pin, sync::Arc, time::Duration};

use tokio::{
    sync::watch::Receiver,
    time::{Instant, Sleep, sleep_until},
};
use tonic::Status;

use super::{WatchAsked, asked::Filter, ended, event, lost};
use crate::{
    server::{
        api::{Parts, failed, leader},
        clock,
        history::{Ending, History, Moment, Pulse, Seat},
        raft::Leadership,
        telemetry::Metrics,
    },
    wire::{
        failure::{Failure, Reason},
        v1,
    },
};

/// How long a node that is behind a watcher's cursor may take to get there.
const CATCH_UP_MAX: Duration = Duration::from_secs(5);

/// Moments looked at in one go while none of them is wanted, at most.
const LOOK_MAX: usize = 256;

/// A watch that is open. It holds on to nothing that a node must give back when it stops: a reader
/// that does not read could keep it for ever.
pub(super) struct Watcher {
    history: Arc<History>,
    metrics: Arc<Metrics>,
    leadership: Receiver<Leadership>,
    /// What stays the same in the header of every message.
    header: v1::ResponseHeader,
    filter: Filter,
    /// Everything up to here has been delivered, or was not wanted. The cursor of the next mark.
    through: u64,
    /// The first message says where the watch begins.
    begun: bool,
    over: bool,
    /// Doubles while nothing wanted is found, so that a narrow watch skips quickly, and a wide one
    /// takes what it can deliver.
    look: usize,
    progress: Duration,
    /// When a mark of progress is due.
    due: Pin<Box<Sleep>>,
    /// By then this node must have applied what the cursor says.
    caught_up_by: Instant,
    pulse: Receiver<Pulse>,
    _seat: Seat,
}

impl Watcher {
    pub(super) fn new(api: &Parts, asked: WatchAsked, after: u64, seat: Seat) -> Self {
        let now = Instant::from_std(clock::now());
        Watcher {
            history: Arc::clone(&api.history),
            metrics: Arc::clone(&api.metrics),
            leadership: api.leadership.clone(),
            header: api.header(after),
            pulse: api.history.pulse(),
            filter: asked.filter,
            through: after,
            begun: false,
            over: false,
            look: 1,
            progress: asked.progress,
            due: Box::pin(sleep_until(now + asked.progress)),
            caught_up_by: now + CATCH_UP_MAX,
            _seat: seat,
        }
    }

    /// The next message. `None` once the watch is over.
    pub(super) async fn next(&mut self) -> Option<Result<v1::WatchResponse, Status>> {
        if self.over {
            return None;
        }
        let told = self.message().await;
        self.over = told.is_err();
        if told.is_ok() {
            let now = Instant::from_std(clock::now());
            self.due.as_mut().reset(now + self.progress);
        }
        Some(told.map_err(|failure| failed(&self.metrics, failure)))
    }

    async fn message(&mut self) -> Result<v1::WatchResponse, Failure> {
        if !self.begun {
            self.begun = true;
            return Ok(self.told(Vec::new()));
        }
        loop {
            // Before the history is read, so that what comes in between wakes us again.
            let pulse = *self.pulse.borrow_and_update();
            if let Some(ending) = pulse.ending {
                return Err(ended(ending));
            }
            let behind = match self.look()? {
                Looked::Found(events) => return Ok(self.told(events)),
                Looked::More => {
                    tokio::task::yield_now().await;
                    continue;
                }
                Looked::End { applied } => applied < self.through,
            };
            tokio::select! {
                changed = self.pulse.changed() => if changed.is_err() {
                    return Err(ended(Ending::Stopping));
                },
                () = self.due.as_mut() => return Ok(self.told(Vec::new())),
                () = sleep_until(self.caught_up_by), if behind => return Err(lags()),
            }
        }
    }

    /// Looks for the next moment that is wanted, and moves the cursor past what is not.
    fn look(&mut self) -> Result<Looked, Failure> {
        let read = self
            .history
            .read(self.through, self.filter.renewals, self.look);
        let read = read.map_err(|gone| {
            self.metrics.watches_lost.inc();
            let what = "the history here has moved on without this watch, which would have a gap";
            lost(self.header.cluster_id.clone(), gone, what)
        })?;
        let more = read.moments.len() >= self.look;
        for moment in read.moments {
            let events = self.wanted(&moment);
            if !events.is_empty() {
                self.through = moment.at.index;
                self.look = 1;
                return Ok(Looked::Found(events));
            }
        }
        self.through = read.through;
        self.look = (self.look * 2).min(LOOK_MAX);
        Ok(if more {
            Looked::More
        } else {
            Looked::End {
                applied: read.applied,
            }
        })
    }

    fn wanted(&self, moment: &Moment) -> Vec<v1::WatchEvent> {
        let wanted = moment
            .events
            .iter()
            .filter(|event| self.filter.admits(event));
        wanted
            .filter_map(|event| event::told(event, moment.at_ms))
            .collect()
    }

    fn told(&self, events: Vec<v1::WatchEvent>) -> v1::WatchResponse {
        let count = u64::try_from(events.len()).unwrap_or(u64::MAX);
        self.metrics.watch_events.add(count);
        v1::WatchResponse {
            cursor: Some(v1::Cursor {
                cluster_id: self.header.cluster_id.clone(),
                index: self.through,
            }),
            header: Some(v1::ResponseHeader {
                // No further than the cursor: whoever takes this for a mark must not skip anything.
                applied_index: self.through,
                leader: leader(&self.leadership.borrow()),
                ..self.header.clone()
            }),
            events,
        }
    }
}

/// What a look into the history found.
enum Looked {
    /// What is wanted of one moment.
    Found(Vec<v1::WatchEvent>),
    /// Nothing so far.
    More,
    /// Nothing.
    End {
        /// The last index applied here.
        applied: u64,
    },
}

fn lags() -> Failure {
    Failure::new(
        Reason::NoLeader,
        "this node has not come as far as the cursor: go on from it at another node",
    )
}
