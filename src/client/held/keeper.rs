//! The background: one task a client keeps all of its leases alive, and gives back what is let go.
//!
//! The task runs while there is something to keep, on the runtime that the first lease was acquired on. If
//! that runtime shuts down, every lease is told lost at that moment: none is silently unrenewed.

use super::lease::Lease;
use super::lost::LostHow;
use super::schedule::{Batch, LeaseId, Schedule, Turn};
use crate::client::clock::BootInstant;
use crate::client::{Client, Error, ReleaseOutcome, RenewOutcome, Renewal};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};
use tokio::task::JoinSet;

/// How many releases are on their way at once; a storm of dropped handles waits in line behind them.
const RELEASES_AT_ONCE: usize = 64;

/// What the handles of one client and its background task share.
#[derive(Default)]
pub(in crate::client) struct Keeper {
    desk: Mutex<Desk>,
    changed: Notify,
}

#[derive(Default)]
struct Desk {
    schedule: Schedule,
    releases: VecDeque<Release>,
    /// A task is at work.
    running: bool,
}

/// A grant to be given back.
struct Release {
    grant: Renewal,
    /// Whoever waits for the outcome.
    answer: Option<oneshot::Sender<Result<ReleaseOutcome, Error>>>,
}

/// A call that has come back.
enum Done {
    Renewed(Batch, Result<Vec<RenewOutcome>, Option<Arc<Error>>>),
    Released,
}

impl Keeper {
    fn desk(&self) -> MutexGuard<'_, Desk> {
        // Each change under the lock is complete in itself, so a panic elsewhere leaves it whole.
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps `lease` alive from now on.
    pub(super) fn keep(client: &Client, lease: Arc<Lease>) -> LeaseId {
        let now = client.now();
        let mut desk = client.keeper.desk();
        let id = desk.schedule.insert(now, lease);
        Self::run(client, &mut desk);
        id
    }

    /// Starts the task, or tells it that there is something new.
    fn run(client: &Client, desk: &mut Desk) {
        if !std::mem::replace(&mut desk.running, true) {
            let shift = Shift {
                keeper: Arc::clone(&client.keeper),
                over: false,
            };
            tokio::spawn(work(client.clone(), shift));
        }
        client.keeper.changed.notify_one();
    }

    /// Lets a lease go in the background. Never waits; without a task there is nobody left to do it, and
    /// the lease ends with its time.
    pub(super) fn let_go(&self, id: LeaseId) {
        let mut desk = self.desk();
        if let Some(lease) = desk.schedule.remove(id) {
            lease.lose(LostHow::Released);
            desk.releases.push_back(Release {
                grant: lease.acquired.renewal(),
                answer: None,
            });
            self.changed.notify_one();
        }
    }

    /// Gives a lease back, whatever became of it, and tells how that came out.
    pub(super) fn give_back(
        client: &Client,
        id: LeaseId,
        lease: &Lease,
    ) -> oneshot::Receiver<Result<ReleaseOutcome, Error>> {
        let (sender, receiver) = oneshot::channel();
        let mut desk = client.keeper.desk();
        desk.schedule.remove(id);
        lease.lose(LostHow::Released);
        desk.releases.push_back(Release {
            grant: lease.acquired.renewal(),
            answer: Some(sender),
        });
        Self::run(client, &mut desk);
        receiver
    }

    /// What is to be done at `now`; `None` when there is nothing any more, and the task is to end.
    fn turn(&self, now: BootInstant, idle: bool) -> Option<(Turn, Option<BootInstant>)> {
        let mut desk = self.desk();
        let turn = desk.schedule.turn(now);
        let late = turn.ran_out.iter().cloned();
        desk.releases.extend(late.map(unasked));
        if idle && desk.schedule.is_empty() && desk.releases.is_empty() {
            desk.running = false;
            return None;
        }
        Some((turn, desk.schedule.next()))
    }

    fn next_release(&self) -> Option<Release> {
        self.desk().releases.pop_front()
    }

    fn settle(
        &self,
        now: BootInstant,
        batch: &Batch,
        outcomes: Result<Vec<RenewOutcome>, Option<Arc<Error>>>,
    ) {
        let mut desk = self.desk();
        let late = desk.schedule.settle(now, batch, outcomes);
        desk.releases.extend(late.into_iter().map(unasked));
    }
}

fn unasked(grant: Renewal) -> Release {
    Release {
        grant,
        answer: None,
    }
}

/// The task's time at work. However it ends without having finished, no lease is left untold.
struct Shift {
    keeper: Arc<Keeper>,
    /// The desk was left empty, and another task may be at work by now.
    over: bool,
}

impl Drop for Shift {
    fn drop(&mut self) {
        if self.over {
            return;
        }
        let mut desk = self.keeper.desk();
        desk.running = false;
        desk.schedule.abandon();
        // Whoever waits for a release learns that it will not come.
        desk.releases.clear();
    }
}

/// The background task.
async fn work(client: Client, mut shift: Shift) {
    let keeper = Arc::clone(&client.keeper);
    let mut calls = JoinSet::new();
    let mut releasing: usize = 0;
    while let Some((turn, next)) = keeper.turn(client.now(), calls.is_empty()) {
        for batch in turn.batches {
            calls.spawn(renew(client.clone(), batch));
        }
        while releasing < RELEASES_AT_ONCE
            && let Some(job) = keeper.next_release()
        {
            releasing += 1;
            calls.spawn(release(client.clone(), job));
        }
        let clock = Arc::clone(&client.shared.clock);
        let due = async {
            match next {
                Some(next) => clock.sleep_until(next).await,
                None => std::future::pending().await,
            }
        };
        let done = tokio::select! {
            // After a sleep of the machine or a pause of the process, what ran out meanwhile comes first.
            biased;
            () = due => continue,
            () = keeper.changed.notified() => continue,
            Some(done) = calls.join_next() => done,
        };
        match done {
            Ok(Done::Renewed(batch, outcomes)) => keeper.settle(client.now(), &batch, outcomes),
            // A call that panicked leaves its leases unrenewed: they are told lost when they run out.
            Ok(Done::Released) | Err(_) => releasing = releasing.saturating_sub(1),
        }
    }
    shift.over = true;
}

async fn renew(client: Client, batch: Batch) -> Done {
    let clock = Arc::clone(&client.shared.clock);
    let outcomes = tokio::select! {
        outcomes = client.renew_in_haste(&batch.renewals, batch.first_send, batch.within) => outcomes.map_err(|error| Some(Arc::new(error))),
        // None of them is alive any more.
        () = clock.sleep_until(batch.until) => Err(None),
    };
    Done::Renewed(batch, outcomes)
}

async fn release(client: Client, job: Release) -> Done {
    let grant = &job.grant;
    let outcome = client
        .release(&grant.resource, &grant.holder, grant.token)
        .await;
    match job.answer {
        // Whoever waited may have gone.
        Some(answer) => drop(answer.send(outcome)),
        None => {
            if let Err(error) = outcome {
                let (resource, token) = (grant.resource.as_str(), grant.token.get());
                tracing::debug!(resource, token, %error, "a release in the background failed; the lease ends with its time");
            }
        }
    }
    Done::Released
}
