//! What the leader does for the queues: it proposes, the log decides.
//!
//! Places whose callers are gone and places whose wait is over end in batches, a few at a time, so that a
//! node that dies with ten thousand waiters stands in nobody's way. A free resource that has a queue is
//! granted to its head, one entry each, because an entry makes one token at most. All of that only catches
//! up: the entry that ends a single grant has granted to the head already.

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;

use super::{Waits, attendance::Attendance};
use crate::{
    grant::LeftHow,
    issuer::{Command, Leaving, Outcome, Promote, Replica, RequestKey, Withdraw, WithdrawOutcome},
    limits::WITHDRAWALS_PER_COMMAND_MAX,
    resource::ResourceName,
    server::{
        clock::{self, GapDetector},
        raft::{Attached, Leadership, ProposeError, RaftNode, Role, Touch},
        telemetry::Metrics,
    },
};

/// How often the queues are looked at, at least: how late a wait may run out. What frees a resource wakes
/// the office at once.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// How often all places are compared with who was vouched for.
const COUNT_EVERY: Duration = Duration::from_millis(250);

/// With very many places it is done less often, so that it takes a twentieth of the time at most.
const COUNT_SHARE: u32 = 20;

/// A leader whose own tick came so late counts afresh: it cannot know who vouched meanwhile.
const GAP_MAX: Duration = Duration::from_millis(500);

/// Entries under way at once that end places.
const WITHDRAWALS_UNDER_WAY_MAX: usize = 4;

/// Entries under way at once that grant to the head of a queue: they share group commits.
const PROMOTIONS_UNDER_WAY_MAX: usize = 64;

/// How long an entry may be under way before what it names is proposed again.
const PROPOSAL_MAX: Duration = Duration::from_secs(5);

/// After a proposal that went wrong, so that a leader without a quorum does not spin.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Looks after the queues for as long as this node runs; only while it leads is there anything to do.
pub async fn lead(raft: RaftNode, waits: Arc<Waits>, metrics: Arc<Metrics>) {
    let mut leadership = raft.leadership();
    while leads(&mut leadership).await {
        Office::new(&raft, &waits, &metrics)
            .hold(&mut leadership)
            .await;
    }
}

/// Waits until this node leads; `false` when it never will again.
async fn leads(leadership: &mut watch::Receiver<Leadership>) -> bool {
    let leads = leadership.wait_for(|now| now.role == Role::Leader).await;
    leads.is_ok()
}

/// What one entry is about.
#[derive(Debug, Clone)]
enum Duty {
    Withdraw(Vec<Leaving>, LeftHow),
    Promote(ResourceName),
}

/// What became of one entry.
struct Done {
    duty: Duty,
    result: Result<Outcome, ProposeError>,
}

/// One time of leading.
struct Office<'a> {
    raft: &'a RaftNode,
    waits: &'a Waits,
    metrics: &'a Metrics,
    /// Whom nobody had vouched for at the last count, and who was not proposed yet.
    absent: Vec<Attached>,
    /// Named in an entry under way: not to be named in another one.
    leaving: BTreeSet<RequestKey>,
    withdrawals: usize,
    promoting: BTreeSet<ResourceName>,
    next_count: Instant,
    gaps: GapDetector,
}

impl Drop for Office<'_> {
    fn drop(&mut self) {
        self.waits.counted.lead(false);
        *self.waits.attendance() = None;
    }
}

impl<'a> Office<'a> {
    fn new(raft: &'a RaftNode, waits: &'a Waits, metrics: &'a Metrics) -> Self {
        let now = clock::now();
        waits.counted.lead(true);
        Office {
            raft,
            waits,
            metrics,
            absent: Vec::new(),
            leaving: BTreeSet::new(),
            withdrawals: 0,
            promoting: BTreeSet::new(),
            next_count: now,
            gaps: GapDetector::new(now, GAP_MAX),
        }
    }

    /// Works until this node does not lead any more.
    async fn hold(mut self, leadership: &mut watch::Receiver<Leadership>) {
        let mut under_way = FuturesUnordered::new();
        loop {
            let now = clock::now();
            self.count(now);
            while let Some(duty) = self.next(now) {
                self.claim(&duty);
                under_way.push(propose(self.raft, self.metrics, duty));
            }
            let waits = self.waits;
            tokio::select! {
                changed = leadership.changed() => {
                    if changed.is_err() || leadership.borrow().role != Role::Leader {
                        return;
                    }
                }
                Some(done) = under_way.next() => {
                    if !self.settle(&done) {
                        return;
                    }
                }
                () = waits.freed.notified() => {}
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
        }
    }

    /// Compares all places with who was vouched for. Begins the count afresh when this leader cannot know.
    fn count(&mut self, now: Instant) {
        let paused = self.gaps.tick(now).is_some();
        if self.raft.touch_closely(now) != Touch::InTouch {
            // It may be that somebody else leads, and counts.
            *self.waits.attendance() = None;
            self.absent.clear();
            return;
        }
        let mut attendance = self.waits.attendance();
        if paused || attendance.is_none() {
            *attendance = Some(Attendance::default());
            self.absent.clear();
        }
        if now < self.next_count {
            return;
        }
        let places = |replica: &Replica| {
            let places = replica.machine().places();
            places
                .map(|(request, attempt)| Attached { request, attempt })
                .collect::<Vec<_>>()
        };
        let places = self.raft.state().read(places).unwrap_or_default();
        if let Some(attendance) = attendance.as_mut() {
            self.absent = attendance.absent(places, now);
        }
        let took = clock::now().saturating_duration_since(now);
        self.next_count = now + COUNT_EVERY.max(took * COUNT_SHARE);
    }

    /// What is to be proposed now, if there is room for it.
    fn next(&mut self, now: Instant) -> Option<Duty> {
        if self.promoting.len() < PROMOTIONS_UNDER_WAY_MAX
            && let Some(resource) = self.free()
        {
            return Some(Duty::Promote(resource));
        }
        if self.withdrawals >= WITHDRAWALS_UNDER_WAY_MAX {
            return None;
        }
        let waited_out = self.waited_out(now);
        if !waited_out.is_empty() {
            return Some(Duty::Withdraw(waited_out, LeftHow::WaitedOut));
        }
        let detached = self.detached();
        (!detached.is_empty()).then_some(Duty::Withdraw(detached, LeftHow::Detached))
    }

    fn free(&self) -> Option<ResourceName> {
        let look_at = self.promoting.len() + 1;
        let free = |replica: &Replica| replica.machine().promotable(look_at);
        let free = self.raft.state().read(free)?;
        free.into_iter().find(|name| !self.promoting.contains(name))
    }

    /// Those whose wait is over, as many as one entry takes.
    fn waited_out(&self, now: Instant) -> Vec<Leaving> {
        let look_at = self.leaving.len() + WITHDRAWALS_PER_COMMAND_MAX;
        let due = |replica: &Replica| replica.due_waits(now, look_at);
        let due = self.raft.state().read(due).unwrap_or_default();
        due.into_iter()
            .filter(|request| !self.leaving.contains(request))
            .take(WITHDRAWALS_PER_COMMAND_MAX)
            // A wait is over however often it was asked for.
            .map(|request| Leaving {
                request,
                attempt: 0,
            })
            .collect()
    }

    /// Those who are gone, as many as one entry takes.
    fn detached(&mut self) -> Vec<Leaving> {
        let leaving = &self.leaving;
        self.absent
            .retain(|place| !leaving.contains(&place.request));
        let count = self.absent.len().min(WITHDRAWALS_PER_COMMAND_MAX);
        let gone = self.absent.drain(..count);
        gone.map(|Attached { request, attempt }| Leaving { request, attempt })
            .collect()
    }

    fn claim(&mut self, duty: &Duty) {
        match duty {
            Duty::Withdraw(places, _) => {
                self.leaving
                    .extend(places.iter().map(|place| place.request));
                self.withdrawals += 1;
            }
            Duty::Promote(resource) => {
                self.promoting.insert(resource.clone());
            }
        }
    }

    /// Takes an entry's result in; `false` when this node does not lead any more.
    fn settle(&mut self, done: &Done) -> bool {
        match &done.duty {
            Duty::Withdraw(places, how) => {
                self.withdrawals -= 1;
                for place in places {
                    self.leaving.remove(&place.request);
                }
                if *how == LeftHow::Detached
                    && let Ok(Outcome::Withdraw(each)) = &done.result
                {
                    told(each);
                }
            }
            Duty::Promote(resource) => {
                self.promoting.remove(resource);
            }
        }
        // Otherwise, what came to nothing is still due, and is named again.
        !matches!(
            done.result,
            Err(ProposeError::NotLeader { .. } | ProposeError::Stopped)
        )
    }
}

fn told(each: &[WithdrawOutcome]) {
    let left = |outcome: &&WithdrawOutcome| matches!(outcome, WithdrawOutcome::Left { .. });
    let places = each.iter().filter(left).count();
    if places > 0 {
        tracing::info!(places, "gave up places that nobody waits in any more");
    }
}

async fn propose(raft: &RaftNode, metrics: &Metrics, duty: Duty) -> Done {
    let stamped_at_ms = clock::wall_ms();
    let command = match duty.clone() {
        Duty::Withdraw(places, how) => Command::Withdraw(Withdraw {
            places,
            how,
            stamped_at_ms,
        }),
        Duty::Promote(resource) => Command::Promote(Promote {
            resource,
            stamped_at_ms,
        }),
    };
    metrics.proposals(command.name()).inc();
    let result = raft.propose(&command, clock::now() + PROPOSAL_MAX).await;
    let result = result.map(|committed| committed.outcome);
    if let Err(error) = &result {
        tracing::debug!(%error, command = command.name(), "an entry for the queues was not committed");
        tokio::time::sleep(RETRY_AFTER).await;
    }
    Done { duty, result }
}
