//! What a node knows about its own health, and whom it tells: probes, metrics, the gRPC health service.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use tonic_health::{ServingStatus, server::HealthReporter};

use crate::{
    issuer::Replica,
    server::{
        api::{Api, HEALTH_NAMES},
        clock::{self, GapDetector},
        history::History,
        port::Entrance,
        raft::RaftNode,
        store::SharedStore,
        telemetry::{Metrics, Probe, Snapshot},
        waits::Waits,
    },
};

/// How often readiness is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A tick that comes later than this means that the process stood still.
const GAP_MAX: Duration = Duration::from_millis(500);

/// A node that is further behind what it knows to be committed is still catching up.
const BEHIND_MAX: u64 = 1_000;

/// Due leases are counted up to here: beyond it the number says enough.
const DUE_COUNTED_MAX: usize = 100_000;

/// Answers the probes.
pub(super) struct Watchdog {
    pub(super) raft: RaftNode,
    pub(super) store: SharedStore,
    pub(super) history: Arc<History>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) waits: Arc<Waits>,
    pub(super) api: Api,
    pub(super) client_entrance: Entrance,
    pub(super) http_entrance: Entrance,
    pub(super) started: Instant,
    pub(super) stopping: AtomicBool,
}

impl Watchdog {
    /// From here on the node is not ready.
    pub(super) fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Keeps the gRPC health service and the log up to date.
    pub(super) async fn run(self: Arc<Self>, health: HealthReporter) {
        let mut leadership = self.raft.leadership();
        let mut leader = leadership
            .borrow()
            .leader
            .as_ref()
            .map(|leader| leader.node_id);
        let mut gaps = GapDetector::new(clock::now(), GAP_MAX);
        let mut served = None;
        loop {
            let ready = self.ready();
            if served != Some(ready.is_ok()) {
                served = Some(ready.is_ok());
                report(&health, ready.as_ref().err()).await;
            }
            tokio::select! {
                changed = leadership.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(LOOK_EVERY) => {}
            }
            if let Some(gap) = gaps.tick(clock::now()) {
                self.metrics.pauses.inc();
                tracing::warn!(gap_ms = gap.as_millis(), "this process stood still");
            }
            self.api.tell_of_tokens_ahead(clock::now());
            let now = leadership.borrow_and_update().clone();
            let leads = now.leader.as_ref().map(|leader| leader.node_id);
            if leads.is_some() && leads != leader {
                leader = leads;
                self.metrics.leader_changes.inc();
                tracing::info!(
                    leader,
                    term = now.term,
                    role = now.role.as_str(),
                    "a new leader"
                );
            }
        }
    }

    fn snapshot(&self) -> Snapshot {
        let status = self.raft.status();
        let now = clock::now();
        let count = |replica: &Replica| {
            let machine = replica.machine();
            (
                machine.live_grants(),
                replica.due(now, DUE_COUNTED_MAX).len(),
                machine.waiters_len(),
                machine.high_water_marks(),
                machine.last_token().map_or(0, |token| token.get()),
            )
        };
        let counted = self.raft.state().read(count).unwrap_or_default();
        let (live, due, waiters, marks, last_token) = counted;
        let history = self.history.facts();
        let voters = status.members.iter().filter(|member| member.voter).count();
        Snapshot {
            role: status.leadership.role.as_str(),
            term: status.leadership.term,
            leader_id: status.leadership.leader.map_or(0, |leader| leader.node_id),
            voters: number(voters),
            learners: number(status.members.len() - voters),
            last_log_index: status.last_log_index.unwrap_or(0),
            committed_index: status.committed.map_or(0, |id| id.index),
            applied_index: status.applied.map_or(0, |id| id.index),
            snapshot_index: status.snapshot.map_or(0, |id| id.index),
            purged_index: status.purged.map_or(0, |id| id.index),
            ready: self.ready().is_ok(),
            live_leases: number(live),
            due_leases: number(due),
            waiters: number(waiters),
            waiting_calls: number(self.waits.calls().count()),
            register_marks: number(marks),
            last_token,
            watchers: history.watchers,
            history_bytes: history.bytes,
            history_oldest_index: history.oldest,
            calls_in_flight: number(self.api.calls_under_way()),
            ports: vec![
                ("client", self.client_entrance.counts()),
                ("peer", self.raft.peer_connections()),
                ("http", self.http_entrance.counts()),
            ],
            elections: status.elections,
            in_flight: number(status.proposals_in_flight),
            uptime: now.saturating_duration_since(self.started),
        }
    }
}

fn number(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}

/// The names under which health is told: all of the node, and each service.
const NAMES: [&str; 4] = ["", HEALTH_NAMES[0], HEALTH_NAMES[1], HEALTH_NAMES[2]];

async fn report(health: &HealthReporter, why: Option<&String>) {
    let status = match why {
        None => {
            tracing::info!("ready");
            ServingStatus::Serving
        }
        Some(why) => {
            tracing::info!(%why, "not ready");
            ServingStatus::NotServing
        }
    };
    for name in NAMES {
        health.set_service_status(name, status).await;
    }
}

/// Tells those who watch this node's health that it does not serve, and ends their calls: they would
/// last as long as the node, and it could not stop before them.
pub(super) async fn hang_up(health: &HealthReporter) {
    for name in NAMES {
        health
            .set_service_status(name, ServingStatus::NotServing)
            .await;
    }
    let mut health = health.clone();
    for name in NAMES {
        health.clear_service_status(name).await;
    }
}

impl Probe for Watchdog {
    fn metrics(&self) -> String {
        self.metrics.set(&self.snapshot());
        self.metrics.encode()
    }

    fn healthy(&self) -> Result<(), String> {
        match self.store.failure().borrow().as_ref() {
            None => Ok(()),
            Some(failure) => Err(failure.to_string()),
        }
    }

    fn ready(&self) -> Result<(), String> {
        self.healthy()?;
        if self.stopping.load(Ordering::Relaxed) {
            return Err("this node is stopping".to_owned());
        }
        let leadership = self.raft.leadership();
        let leadership = leadership.borrow();
        if let Some(what) = self.raft.waits_for() {
            return Err(format!(
                "this node belongs to no cluster yet; it waits for {what}"
            ));
        }
        if leadership.leader.is_none() {
            return Err("no leader is known".to_owned());
        }
        self.raft.touch(clock::now()).check()?;
        let status = self.raft.status();
        let index = |id: Option<crate::issuer::LogId>| id.map_or(0, |id| id.index);
        let behind = index(status.committed).saturating_sub(index(status.applied));
        if behind > BEHIND_MAX {
            return Err(format!("{behind} committed entries are not applied yet"));
        }
        Ok(())
    }
}
