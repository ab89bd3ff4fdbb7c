//! One call: send, and send again where that is safe, until an answer comes or time is up.

use super::address::Address;
use super::backoff;
use super::clock::{BootInstant, Clock};
use super::error::{Cause, Error, ErrorKind};
use super::learn;
use super::method::Method;
use super::nodes::Nodes;
use super::options::Options;
use super::pipeline::Missed;
use super::random::Dice;
use super::route::Route;
use super::seen::{Mismatch, Seen};
use super::trial::{Fault, Trial};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio_util::task::TaskTracker;

/// Two timers of one length that were started together may fire this far apart.
const TIMER_SLACK: Duration = Duration::from_millis(2);

/// What all clones of one client share.
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) dice: Dice,
    pub(crate) nodes: Nodes,
    pub(crate) resends: AtomicU64,
    /// All endpoints that could be asked belong to one cluster.
    pub(crate) verified: AtomicBool,
    /// One task verifies, the others wait for it.
    pub(crate) verifying: tokio::sync::Mutex<()>,
    /// What goes on after its caller has gone. It is closed from the start, so that whoever waits for it
    /// waits for no more than what is under way.
    pub(crate) background: TaskTracker,
    known: Mutex<Known>,
}

/// What the answers so far have taught.
pub(crate) struct Known {
    pub(crate) route: Route,
    pub(crate) seen: Option<Seen>,
    /// Two clusters among the endpoints: every further call is refused.
    pub(crate) mismatch: Option<Box<Mismatch>>,
}

/// An answer, and when the send that it belongs to left.
pub(crate) struct Answer<R> {
    pub(crate) response: R,
    pub(crate) sent: BootInstant,
}

impl Shared {
    pub(crate) fn new(
        options: Options,
        clock: Arc<dyn Clock>,
        dice: Dice,
        nodes: Nodes,
        route: Route,
    ) -> Self {
        let background = TaskTracker::new();
        background.close();
        Self {
            options,
            clock,
            dice,
            nodes,
            resends: AtomicU64::new(0),
            verified: AtomicBool::new(false),
            verifying: tokio::sync::Mutex::new(()),
            background,
            known: Mutex::new(Known {
                route,
                seen: None,
                mismatch: None,
            }),
        }
    }

    pub(crate) fn known(&self) -> MutexGuard<'_, Known> {
        // Each change under the lock is complete in itself, so a panic elsewhere leaves it whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn trial<M: Method>(&self) -> Trial {
        Trial::new(M::NAME, M::REPEAT, self.clock.now(), self.options.timeout)
    }

    /// A trial of another call that takes its time out of `trial`'s.
    pub(crate) fn trial_within<M: Method>(&self, trial: &Trial) -> Trial {
        let now = self.clock.now();
        Trial::new(M::NAME, M::REPEAT, now, trial.remaining(now))
    }

    /// Carries `M` out. `prepare` makes the request of each send and is told when it leaves.
    ///
    /// # Errors
    ///
    /// After the trial's time, or at once when a failure is final.
    pub(crate) async fn call<M: Method>(
        self: &Arc<Self>,
        trial: &mut Trial,
        mut prepare: impl FnMut(BootInstant) -> M::Request + Send,
    ) -> Result<Answer<M::Response>, Error> {
        self.verify(trial).await?;
        loop {
            let sent = self.clock.now();
            let limit = trial.limit(self.options.attempt_timeout, sent);
            if limit.is_zero() || !trial.is_worth_a_send(sent) {
                return Err(self.out_of_time(trial));
            }
            let next = self.known().route.next(&trial.tried, sent);
            let Some(address) = next else {
                self.pause(trial).await?;
                continue;
            };
            trial.attempts += 1;
            if trial.attempts > 1 {
                self.resends.fetch_add(1, Ordering::Relaxed);
            }
            match self.once::<M>(&address, prepare(sent), limit).await {
                Ok(response) => return Ok(Answer { response, sent }),
                Err(fault) => {
                    if let Some(kind) = trial.take(address, fault) {
                        return Err(self.end(trial, kind));
                    }
                }
            }
            if trial.must_wait() {
                self.pause(trial).await?;
            }
        }
    }

    /// Sends `request` to `address` once and waits for at most `limit`.
    pub(crate) async fn once<M: Method>(
        &self,
        address: &Address,
        request: M::Request,
        limit: Duration,
    ) -> Result<M::Response, Fault> {
        let sent_at = self.clock.now();
        let answer = M::send(&self.nodes, address, request, limit).await;
        let now = self.clock.now();
        let (mut fault, sent) = match answer {
            Ok(response) => {
                self.accept(M::header(&response), address, now)?;
                return Ok(response);
            }
            // Timers of tonic's own, here and at the node, run beside ours and may be the first to say it.
            Err(Missed::Failed { status, sent })
                if learn::ran_out(&status) && now.since(sent_at) + TIMER_SLACK >= limit =>
            {
                (self.silent(address, limit, now), sent)
            }
            Err(Missed::Failed { status, sent }) => (self.failed(&status, address, now), sent),
            Err(Missed::Silent { sent }) => (self.silent(address, limit, now), sent),
        };
        // What never left can have had no effect, whatever became of its connection.
        fault.open &= sent;
        Err(fault)
    }

    /// Waits between two rounds, within the trial's time.
    pub(crate) async fn pause(&self, trial: &mut Trial) -> Result<(), Error> {
        let (wait, round) = trial.new_round();
        let delay = backoff::delay(wait, round, self.dice.fraction());
        let now = self.clock.now();
        if trial.remaining(now) <= delay || !trial.is_worth_a_send(now.plus(delay)) {
            // Nothing can come of waiting until the end: say now what is known. The trial remembers
            // what the wait was for.
            trial.restore(wait);
            return Err(self.out_of_time(trial));
        }
        tokio::time::sleep(delay).await;
        Ok(())
    }

    /// Refuses when the endpoints are known to belong to different clusters.
    pub(crate) fn refuse_mismatch(&self, trial: &Trial) -> Result<(), Error> {
        let mismatch = self.known().mismatch.clone();
        mismatch.map_or(Ok(()), |mismatch| {
            Err(self.end(trial, ErrorKind::ClusterMismatch(mismatch)))
        })
    }

    pub(crate) fn end(&self, trial: &Trial, kind: ErrorKind) -> Error {
        let leader = self.known().route.leader().cloned();
        trial.end(kind, leader, self.clock.now())
    }

    /// The error of a call whose answer has come, and breaks the contract beyond its header.
    pub(crate) fn unreadable(&self, trial: &Trial, detail: String) -> Error {
        let open = trial.changes_things();
        let cause = Cause::Unreadable { detail };
        self.end(trial, ErrorKind::BadAnswer)
            .with_effect(open)
            .because(Some(cause), None)
    }

    pub(crate) fn out_of_time(&self, trial: &Trial) -> Error {
        let leader = self.known().route.leader().cloned();
        trial.out_of_time(leader, self.clock.now())
    }
}
