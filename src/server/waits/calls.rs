//! The calls that wait at this node, by the key of their request id.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::oneshot;

use crate::{
    grant::{EndedHow, LeftHow, Ttl},
    issuer::{LogId, RequestKey},
    limits::WAITING_CALLS_MAX,
    server::raft::Attached,
    token::Token,
};

/// How a wait ends for a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// It has its grant, by the entry at `at`.
    Granted {
        /// Where in the log; of a snapshot that tells it, the last entry.
        at: LogId,
        /// Its token.
        token: Token,
        /// The lease that the grant starts with.
        lease: Ttl,
        /// Whether it came after waiting.
        after_wait: bool,
    },
    /// It had its grant, and that has ended. Only a snapshot tells this.
    Ended {
        /// The snapshot's last entry.
        at: LogId,
        /// The token that it had.
        token: Token,
        /// How it ended.
        how: EndedHow,
    },
    /// Its place ended without a grant, by the entry at `at`.
    Left {
        /// Where in the log; of a snapshot that tells it, the last entry.
        at: LogId,
        /// How.
        how: LeftHow,
    },
    /// The leader has not acknowledged for too long that the call is there: its place may be given up.
    Unattended,
    /// This node is stopping.
    Stopping,
}

/// Why a call cannot wait here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// So many wait already.
    #[error("{max} calls wait at this node, as many as may")]
    TooMany {
        /// The limit.
        max: usize,
    },
    /// This node is stopping.
    #[error("this node is stopping")]
    Stopping,
}

/// All calls that wait here. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Calls(Arc<Mutex<Open>>);

#[derive(Debug, Default)]
struct Open {
    by_key: HashMap<RequestKey, Vec<Call>>,
    count: usize,
    next_number: u64,
    stopping: bool,
    /// Those whose callers have gone since this node last vouched. They are vouched for once more, so that
    /// a caller has the whole time to come back in.
    gone: Vec<Attached>,
}

#[derive(Debug)]
struct Call {
    number: u64,
    attempt: u32,
    since: Instant,
    turn: oneshot::Sender<Turn>,
}

/// A call that waits. Dropping it only ends the vouching.
#[derive(Debug)]
pub struct Waiting {
    calls: Calls,
    request: RequestKey,
    number: u64,
    turn: oneshot::Receiver<Turn>,
}

impl Waiting {
    /// Waits until it is its turn, or the wait ends in another way. It may be awaited in parts.
    pub async fn turn(&mut self) -> Turn {
        // The sender is only dropped unused together with everything here.
        (&mut self.turn).await.unwrap_or(Turn::Stopping)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.calls.gone(self.request, self.number);
    }
}

impl Calls {
    fn open(&self) -> MutexGuard<'_, Open> {
        // Nothing in here panics between two changes that belong together.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a call wait. This comes before its Acquire is proposed, so that nothing is missed.
    ///
    /// # Errors
    ///
    /// When it cannot wait here; nothing has happened then.
    pub fn wait(
        &self,
        request: RequestKey,
        attempt: u32,
        now: Instant,
    ) -> Result<Waiting, NotTaken> {
        let mut open = self.open();
        if open.stopping {
            return Err(NotTaken::Stopping);
        }
        if open.count >= WAITING_CALLS_MAX {
            let max = WAITING_CALLS_MAX;
            return Err(NotTaken::TooMany { max });
        }
        let (sender, turn) = oneshot::channel();
        let number = open.next_number;
        open.next_number += 1;
        open.count += 1;
        open.by_key.entry(request).or_default().push(Call {
            number,
            attempt,
            since: now,
            turn: sender,
        });
        Ok(Waiting {
            calls: self.clone(),
            request,
            number,
            turn,
        })
    }

    /// How many wait.
    #[must_use]
    pub fn count(&self) -> usize {
        self.open().count
    }

    /// Ends all waits and lets nobody wait any more.
    pub fn stop(&self) {
        let mut open = self.open();
        open.stopping = true;
        open.end(|_| Some(Turn::Stopping));
    }

    /// Whoever waits under one of the keys is told how it came out.
    pub(super) fn tell(&self, turns: impl IntoIterator<Item = (RequestKey, Turn)>) {
        let mut open = self.open();
        for (request, turn) in turns {
            open.tell(&request, turn);
        }
    }

    /// Asks for each key how it stands, and tells those who wait under it if it came out.
    pub(super) fn look_up(&self, mut standing: impl FnMut(&RequestKey) -> Option<Turn>) {
        let mut open = self.open();
        let keys: Vec<_> = open.by_key.keys().copied().collect();
        for request in keys {
            if let Some(turn) = standing(&request) {
                open.tell(&request, turn);
            }
        }
    }

    /// Everybody to vouch for: who waits, and who was still here the last time.
    pub(super) fn attached(&self) -> Vec<Attached> {
        let mut open = self.open();
        let mut all = std::mem::take(&mut open.gone);
        all.extend(open.by_key.iter().filter_map(|(request, calls)| {
            let attempt = calls.iter().map(|call| call.attempt).max()?;
            Some(Attached {
                request: *request,
                attempt,
            })
        }));
        all.truncate(WAITING_CALLS_MAX);
        all
    }

    /// Ends the waits that were not acknowledged for longer than `longest`: `known` is when that was last
    /// sent which the leader has acknowledged. A call that came later counts from when it came.
    pub(super) fn end_unattended(
        &self,
        known: Option<Instant>,
        longest: Duration,
        now: Instant,
    ) -> usize {
        if known.is_some_and(|at| now.saturating_duration_since(at) <= longest) {
            return 0;
        }
        self.open().end(|call| {
            let since = known.map_or(call.since, |at| at.max(call.since));
            (now.saturating_duration_since(since) > longest).then_some(Turn::Unattended)
        })
    }

    /// The caller is gone, or has its answer.
    fn gone(&self, request: RequestKey, number: u64) {
        let mut open = self.open();
        let Some(calls) = open.by_key.get_mut(&request) else {
            return;
        };
        let Some(at) = calls.iter().position(|call| call.number == number) else {
            return;
        };
        let attempt = calls.swap_remove(at).attempt;
        if calls.is_empty() {
            open.by_key.remove(&request);
        }
        open.count -= 1;
        if open.gone.len() < WAITING_CALLS_MAX {
            open.gone.push(Attached { request, attempt });
        }
    }
}

impl Open {
    fn tell(&mut self, request: &RequestKey, turn: Turn) {
        let calls = self.by_key.remove(request).unwrap_or_default();
        self.count -= calls.len();
        for call in calls {
            // A caller that is gone does not want it.
            let _ = call.turn.send(turn);
        }
    }

    /// Ends each call for which `judge` says how; returns how many.
    fn end(&mut self, judge: impl Fn(&Call) -> Option<Turn>) -> usize {
        let before = self.count;
        let count = &mut self.count;
        self.by_key.retain(|_, calls| {
            for call in std::mem::take(calls) {
                match judge(&call) {
                    Some(turn) => {
                        *count -= 1;
                        let _ = call.turn.send(turn);
                    }
                    None => calls.push(call),
                }
            }
            !calls.is_empty()
        });
        before - self.count
    }
}
