//! The way from the callers to the storage thread.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::contract::{Completion, NewSnapshot};
use super::entry::{Entry, LogId, StoredVote};

/// One write, in the order in which it was handed over.
pub(super) enum Job {
    Append {
        entries: Vec<Entry>,
        truncations: u64,
        done: Completion,
    },
    Vote {
        vote: StoredVote,
        done: Completion,
    },
    Truncate {
        last: Option<LogId>,
        done: Completion,
    },
    Purge {
        upto: LogId,
        done: Completion,
    },
    Snapshot {
        snapshot: NewSnapshot,
        done: Completion,
    },
}

impl Job {
    pub(super) fn into_completion(self) -> Completion {
        match self {
            Self::Append { done, .. }
            | Self::Vote { done, .. }
            | Self::Truncate { done, .. }
            | Self::Purge { done, .. }
            | Self::Snapshot { done, .. } => done,
        }
    }
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    closed: bool,
    /// Whether the storage thread sleeps, so that a busy one costs no system call to wake.
    asleep: bool,
}

/// Many callers put, one thread takes everything there is.
#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    wake: Condvar,
}

/// What the storage thread finds when it looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Taken {
    /// Go on; there may be jobs or not.
    Open,
    /// No more jobs will come than those just taken.
    Closed,
}

impl Queue {
    /// Hands over a job, or gives it back if the queue is closed.
    pub(super) fn put(&self, job: Job) -> Result<(), Job> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return Err(job);
        }
        state.jobs.push_back(job);
        let asleep = std::mem::take(&mut state.asleep);
        drop(state);
        if asleep {
            self.wake.notify_one();
        }
        Ok(())
    }

    /// Moves all jobs into `jobs`, waiting up to `patience` for the first.
    pub(super) fn take(&self, jobs: &mut VecDeque<Job>, patience: Duration) -> Taken {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.jobs.is_empty() && !state.closed && !patience.is_zero() {
            state.asleep = true;
            let woken = self
                .wake
                .wait_timeout_while(state, patience, |state| state.asleep);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
            state.asleep = false;
        }
        jobs.append(&mut state.jobs);
        if state.closed {
            Taken::Closed
        } else {
            Taken::Open
        }
    }

    /// Takes no more jobs; those handed over are still done.
    pub(super) fn close(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.closed = true;
        state.asleep = false;
        drop(state);
        self.wake.notify_one();
    }
}
