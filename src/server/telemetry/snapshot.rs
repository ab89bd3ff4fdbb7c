//! What is looked up when somebody scrapes: the state of the node, and of its process.

use std::{sync::atomic::Ordering, time::Duration};

use prometheus_client::metrics::gauge::Gauge;

use super::Metrics;
use crate::server::port::EntranceCounts;

/// The roles that a node can have, as the metric names them.
pub const ROLES: [&str; 5] = ["leader", "follower", "candidate", "learner", "forming"];

/// The state of a node at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// One of [`ROLES`].
    pub role: &'static str,
    /// Raft's term.
    pub term: u64,
    /// 0: none known.
    pub leader_id: u64,
    /// In this node's membership.
    pub voters: u64,
    /// In this node's membership.
    pub learners: u64,
    /// Log indexes; 0: none.
    pub last_log_index: u64,
    /// Known to be committed.
    pub committed_index: u64,
    /// In the state.
    pub applied_index: u64,
    /// In the newest snapshot.
    pub snapshot_index: u64,
    /// Dropped from the log.
    pub purged_index: u64,
    /// Whether the node is ready.
    pub ready: bool,
    /// Live grants.
    pub live_leases: u64,
    /// Past their deadline.
    pub due_leases: u64,
    /// In the queues of the state.
    pub waiters: u64,
    /// That wait at this node.
    pub waiting_calls: u64,
    /// Marks in the guard register.
    pub register_marks: u64,
    /// Value of the last token.
    pub last_token: u64,
    /// Watches that are open.
    pub watchers: u64,
    /// Memory of the history.
    pub history_bytes: u64,
    /// The oldest cursor that it reaches back to.
    pub history_oldest_index: u64,
    /// Calls of clients that are under way, waits in line aside.
    pub calls_in_flight: u64,
    /// What went through each port, by its name.
    pub ports: Vec<(&'static str, EntranceCounts)>,
    /// Terms that began since the process started.
    pub elections: u64,
    /// Proposals that have not come back.
    pub in_flight: u64,
    /// Since the process started.
    pub uptime: Duration,
}

impl Metrics {
    /// Takes over what a node looks like now, and its process.
    pub fn set(&self, now: &Snapshot) {
        let levels = &self.levels;
        levels
            .elections
            .inner()
            .store(now.elections, Ordering::Relaxed);
        set(&levels.in_flight, now.in_flight);
        set(&levels.term, now.term);
        set(&levels.leader_id, now.leader_id);
        set(&levels.voters, now.voters);
        set(&levels.learners, now.learners);
        set(&levels.last_log_index, now.last_log_index);
        set(&levels.committed_index, now.committed_index);
        set(&levels.applied_index, now.applied_index);
        set(&levels.snapshot_index, now.snapshot_index);
        set(&levels.purged_index, now.purged_index);
        set(&levels.ready, u64::from(now.ready));
        set(&levels.live_leases, now.live_leases);
        set(&levels.due_leases, now.due_leases);
        set(&levels.waiters, now.waiters);
        set(&levels.waiting_calls, now.waiting_calls);
        set(&levels.register_marks, now.register_marks);
        set(&levels.last_token, now.last_token);
        set(&levels.watchers, now.watchers);
        set(&levels.history_bytes, now.history_bytes);
        set(&levels.history_oldest_index, now.history_oldest_index);
        for role in ROLES {
            let has = u64::from(role == now.role);
            set(&self.roles.get_or_create(&[("role", role)]), has);
        }
        set(&levels.calls_in_flight, now.calls_in_flight);
        for (port, counts) in &now.ports {
            let port = [("port", *port)];
            set(&self.connections.get_or_create(&port), counts.open);
            for (family, count) in [
                (&self.connections_refused, counts.refused),
                (&self.accept_failures, counts.failures),
            ] {
                let counter = family.get_or_create(&port);
                counter.inner().store(count, Ordering::Relaxed);
            }
        }
        set(&levels.resident_bytes, resident_bytes().unwrap_or(0));
        let counters = [
            (&levels.cpu_seconds, cpu_seconds()),
            (&levels.uptime_seconds, now.uptime.as_secs_f64()),
        ];
        for (counter, seconds) in counters {
            counter.inner().store(seconds.to_bits(), Ordering::Relaxed);
        }
    }
}

/// Gauges are signed; what a node counts stays far below.
fn set(gauge: &Gauge, value: u64) {
    gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
}

/// Resident memory from `/proc`; elsewhere unknown.
fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kibibytes: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kibibytes * 1_024)
}

fn cpu_seconds() -> f64 {
    let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Duration::try_from(used).map_or(0.0, |used| used.as_secs_f64())
}
