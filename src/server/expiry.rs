//! Ending leases whose time ran out: the leader proposes it, the log decides.
//!
//! Every node keeps the deadlines (see [`LeaseClock`](crate::issuer::LeaseClock)), so a new leader has
//! nothing to catch up with, and a deposed one cannot end a lease that was renewed elsewhere: each
//! proposal names the number of renewals that its deadline was computed for.
//!
//! Leases that come due together go out in batches, a few at a time, so that a hundred thousand of them
//! neither take minutes nor stand in the way of renewals (etcd#9496).

use std::{
    collections::BTreeSet,
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::watch;

use crate::{
    issuer::{Command, DueLease, Expire, Outcome},
    limits::EXPIRIES_PER_COMMAND_MAX,
    server::{
        clock,
        raft::{Leadership, ProposeError, RaftNode, Role},
        telemetry::Metrics,
    },
    token::TokenValue,
};

/// How often the deadlines are looked at, at least: a lease may be granted that ends before the one
/// that is waited for. A small part of the 500 ms that a lease may end late.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// Entries under way at once.
const UNDER_WAY_MAX: usize = 4;

/// How long an entry may be under way before its leases are proposed again.
const PROPOSAL_MAX: Duration = Duration::from_secs(5);

/// After a proposal that went wrong, so that a leader without a quorum does not spin.
const RETRY_AFTER: Duration = Duration::from_millis(100);

/// Ends leases for as long as this node runs; only while it leads is there anything to do.
pub async fn run(raft: RaftNode, metrics: Arc<Metrics>) {
    let mut leadership = raft.leadership();
    // Seen at 0 until the first one, which is a rise then.
    for outcome in ["expired", "void"] {
        metrics.expiries(outcome);
    }
    while leads(&mut leadership).await {
        Office::new(&raft, &metrics).hold(&mut leadership).await;
    }
}

/// Waits until this node leads; `false` when it never will again.
async fn leads(leadership: &mut watch::Receiver<Leadership>) -> bool {
    leadership
        .wait_for(|now| now.role == Role::Leader)
        .await
        .is_ok()
}

/// One time of leading.
struct Office<'a> {
    raft: &'a RaftNode,
    metrics: &'a Metrics,
    /// Named in an entry under way: not to be named in another one.
    claimed: BTreeSet<TokenValue>,
}

/// What became of one entry.
struct Done {
    leases: Vec<DueLease>,
    result: Result<u32, ProposeError>,
}

impl<'a> Office<'a> {
    fn new(raft: &'a RaftNode, metrics: &'a Metrics) -> Self {
        Office {
            raft,
            metrics,
            claimed: BTreeSet::new(),
        }
    }

    /// Works until this node does not lead any more.
    async fn hold(mut self, leadership: &mut watch::Receiver<Leadership>) {
        let mut under_way = FuturesUnordered::new();
        loop {
            while under_way.len() < UNDER_WAY_MAX {
                let leases = self.due(clock::now());
                if leases.is_empty() {
                    break;
                }
                self.claimed.extend(leases.iter().map(|lease| lease.token));
                under_way.push(propose(self.raft, self.metrics, leases));
            }
            let next = self.next_look(clock::now());
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
                () = tokio::time::sleep_until(next.into()) => {}
            }
        }
    }

    /// Leases that are due and that nobody named yet, as many as one entry takes.
    fn due(&self, now: Instant) -> Vec<DueLease> {
        let look_at = self.claimed.len() + EXPIRIES_PER_COMMAND_MAX;
        let due = self.raft.state().read(|replica| replica.due(now, look_at));
        let due = due.unwrap_or_default().into_iter();
        due.filter(|lease| !self.claimed.contains(&lease.token))
            .take(EXPIRIES_PER_COMMAND_MAX)
            .collect()
    }

    fn next_look(&self, now: Instant) -> Instant {
        let latest = now + LOOK_EVERY;
        if !self.claimed.is_empty() {
            return latest;
        }
        let next = self.raft.state().read(|replica| replica.next_deadline());
        next.flatten().map_or(latest, |next| next.min(latest))
    }

    /// Takes an entry's result in; `false` when this node does not lead any more.
    fn settle(&mut self, done: &Done) -> bool {
        for lease in &done.leases {
            self.claimed.remove(&lease.token);
        }
        match &done.result {
            Ok(ended) => {
                let named = u64::try_from(done.leases.len()).unwrap_or(u64::MAX);
                let ended = u64::from(*ended);
                self.metrics.expiries("expired").add(ended);
                let void = named.saturating_sub(ended);
                self.metrics.expiries("void").add(void);
                true
            }
            Err(ProposeError::NotLeader { .. } | ProposeError::Stopped) => false,
            // The leases are still due if it came to nothing, and are named again.
            Err(_) => true,
        }
    }
}

async fn propose(raft: &RaftNode, metrics: &Metrics, leases: Vec<DueLease>) -> Done {
    metrics.proposals("expire").inc();
    let command = Command::Expire(Expire {
        leases: leases.clone(),
        stamped_at_ms: clock::wall_ms(),
    });
    let result = raft.propose(&command, clock::now() + PROPOSAL_MAX).await;
    let result = result.map(|committed| match committed.outcome {
        Outcome::Expire { ended } => ended,
        _ => 0,
    });
    if let Err(error) = &result {
        tracing::debug!(%error, leases = leases.len(), "an expiry was not committed");
        tokio::time::sleep(RETRY_AFTER).await;
    }
    Done { leases, result }
}
