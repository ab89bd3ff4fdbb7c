//! The metrics of a node, as values that the parts of it count on.
//!
//! Each part gets the handles it needs, resolved once, so that counting on the way of a call is an
//! atomic addition and no lookup.

use std::{
    sync::{Mutex, atomic::AtomicU64},
    time::Duration,
};

use prometheus_client::{
    encoding::text::encode,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::{Metric as Registrable, Registry},
};

use super::table::{METRICS, MetricKind};

/// One label with a value known at compile time.
pub(super) type Label = [(&'static str, &'static str); 1];
pub(super) type Counters = Family<Label, Counter>;

/// A counter, as the rest of the server knows it.
#[derive(Clone, Debug, Default)]
pub struct Count(Counter);

impl Count {
    /// One more.
    pub fn inc(&self) {
        self.0.inc();
    }

    /// So many more.
    pub fn add(&self, more: u64) {
        self.0.inc_by(more);
    }
}

/// A distribution, as the rest of the server knows it.
#[derive(Clone, Debug)]
pub struct Spread(Histogram);

impl Spread {
    /// Something took so long.
    pub fn took(&self, time: Duration) {
        self.0.observe(time.as_secs_f64());
    }

    /// Something had so many.
    pub fn had(&self, count: usize) {
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        self.0.observe(f64::from(count));
    }
}

/// A number that goes up and down, as the rest of the server knows it.
#[derive(Clone, Debug, Default)]
pub struct Level(Gauge);

impl Level {
    /// It is so high now; returns how high it was.
    pub fn set(&self, value: u64) -> u64 {
        let before = self.0.set(i64::try_from(value).unwrap_or(i64::MAX));
        u64::try_from(before).unwrap_or(0)
    }
}

/// Every metric that is counted as things happen. What is a plain state of the node is looked up when
/// somebody scrapes: see [`Snapshot`](super::Snapshot).
#[derive(Debug)]
pub struct Metrics {
    registry: Mutex<Registry>,
    /// `fencepost_leader_changes_total`.
    pub leader_changes: Count,
    /// `fencepost_pauses_total`.
    pub pauses: Count,
    /// `fencepost_grants_total`.
    pub grants: Count,
    renewals: Counters,
    releases: Counters,
    expiries: Counters,
    refusals: Counters,
    admissions: Counters,
    tokens_ahead: Counters,
    /// `fencepost_highest_token_ahead`.
    pub highest_token_ahead: Level,
    /// `fencepost_queued_total`.
    pub queued: Count,
    hand_overs: Counters,
    places_left: Counters,
    failures: Counters,
    calls: Counters,
    call_seconds: Family<Label, Histogram, fn() -> Histogram>,
    /// `fencepost_forwarded_calls_total`.
    pub forwarded: Count,
    /// `fencepost_forwarded_in_total`.
    pub forwarded_in: Count,
    proposals: Counters,
    /// `fencepost_commit_seconds`.
    pub commit_seconds: Spread,
    /// `fencepost_renewal_batch_size`.
    pub renewal_batch: Spread,
    /// `fencepost_read_barriers_total`.
    pub read_barriers: Count,
    /// `fencepost_fsync_seconds`.
    pub fsync_seconds: Spread,
    /// `fencepost_group_entries`.
    pub group_entries: Spread,
    /// `fencepost_storage_bytes`.
    pub storage_bytes: Level,
    /// `fencepost_storage_free_bytes`.
    pub free_bytes: Level,
    /// `fencepost_storage_space_low`.
    pub space_low: Level,
    /// `fencepost_audit_failures_total`.
    pub audit_failures: Count,
    /// `fencepost_watch_events_total`.
    pub watch_events: Count,
    /// `fencepost_watches_lost_total`.
    pub watches_lost: Count,
    pub(super) connections: Family<Label, Gauge>,
    pub(super) connections_refused: Counters,
    pub(super) accept_failures: Counters,
    pub(super) roles: Family<Label, Gauge>,
    pub(super) levels: Levels,
}

/// Gauges that are set when somebody scrapes.
#[derive(Debug, Default)]
pub(super) struct Levels {
    pub(super) elections: Counter,
    pub(super) in_flight: Gauge,
    pub(super) calls_in_flight: Gauge,
    pub(super) term: Gauge,
    pub(super) leader_id: Gauge,
    pub(super) voters: Gauge,
    pub(super) learners: Gauge,
    pub(super) last_log_index: Gauge,
    pub(super) committed_index: Gauge,
    pub(super) applied_index: Gauge,
    pub(super) snapshot_index: Gauge,
    pub(super) purged_index: Gauge,
    pub(super) ready: Gauge,
    pub(super) live_leases: Gauge,
    pub(super) due_leases: Gauge,
    pub(super) waiters: Gauge,
    pub(super) waiting_calls: Gauge,
    pub(super) register_marks: Gauge,
    pub(super) last_token: Gauge,
    pub(super) watchers: Gauge,
    pub(super) history_bytes: Gauge,
    pub(super) history_oldest_index: Gauge,
    pub(super) resident_bytes: Gauge,
    pub(super) cpu_seconds: Counter<f64, AtomicU64>,
    pub(super) uptime_seconds: Counter<f64, AtomicU64>,
}

/// From a tenth of a millisecond to about 13 seconds, doubling.
fn latency() -> Histogram {
    Histogram::new((0..18).map(|step| 0.0001 * f64::from(1 << step)))
}

/// From 1 to 512, doubling.
fn batch() -> Histogram {
    Histogram::new((0..10).map(|step| f64::from(1 << step)))
}

/// Registers a metric under its row in the table, so that name and help have one home.
fn listed<M: Registrable + Clone>(registry: &mut Registry, name: &str, metric: M) -> M {
    let row = METRICS
        .iter()
        .find(|row| row.name == name)
        .expect("every metric is in the table, a test makes all of them");
    let name = match row.kind {
        // The encoder adds it again.
        MetricKind::Counter => name.trim_end_matches("_total"),
        _ => name,
    };
    registry.register(name, row.help.trim_end_matches('.'), metric.clone());
    metric
}

fn count(registry: &mut Registry, name: &str) -> Count {
    Count(listed(registry, name, Counter::default()))
}

impl Metrics {
    /// All at zero.
    pub fn new(issuer: &str, node_id: u64) -> Self {
        let mut registry = Registry::default();
        let r = &mut registry;
        let build = Family::<Vec<(&'static str, String)>, Gauge>::default();
        build
            .get_or_create(&vec![
                ("version", env!("CARGO_PKG_VERSION").to_owned()),
                ("issuer", issuer.to_owned()),
                ("node_id", node_id.to_string()),
            ])
            .set(1);
        listed(r, "fencepost_build_info", build);
        let levels = Levels::registered(r);
        Metrics {
            leader_changes: count(r, "fencepost_leader_changes_total"),
            pauses: count(r, "fencepost_pauses_total"),
            grants: count(r, "fencepost_grants_total"),
            renewals: listed(r, "fencepost_renewals_total", Counters::default()),
            releases: listed(r, "fencepost_releases_total", Counters::default()),
            expiries: listed(r, "fencepost_expiries_total", Counters::default()),
            refusals: listed(r, "fencepost_refusals_total", Counters::default()),
            admissions: listed(r, "fencepost_admissions_total", Counters::default()),
            tokens_ahead: listed(r, "fencepost_tokens_ahead_total", Counters::default()),
            highest_token_ahead: Level(listed(
                r,
                "fencepost_highest_token_ahead",
                Gauge::default(),
            )),
            queued: count(r, "fencepost_queued_total"),
            hand_overs: listed(r, "fencepost_hand_overs_total", Counters::default()),
            places_left: listed(r, "fencepost_places_left_total", Counters::default()),
            failures: listed(r, "fencepost_failures_total", Counters::default()),
            calls: listed(r, "fencepost_calls_total", Counters::default()),
            call_seconds: listed(
                r,
                "fencepost_call_seconds",
                Family::new_with_constructor(latency),
            ),
            forwarded: count(r, "fencepost_forwarded_calls_total"),
            forwarded_in: count(r, "fencepost_forwarded_in_total"),
            proposals: listed(r, "fencepost_proposals_total", Counters::default()),
            commit_seconds: Spread(listed(r, "fencepost_commit_seconds", latency())),
            renewal_batch: Spread(listed(r, "fencepost_renewal_batch_size", batch())),
            read_barriers: count(r, "fencepost_read_barriers_total"),
            fsync_seconds: Spread(listed(r, "fencepost_fsync_seconds", latency())),
            group_entries: Spread(listed(r, "fencepost_group_entries", batch())),
            storage_bytes: Level(listed(r, "fencepost_storage_bytes", Gauge::default())),
            free_bytes: Level(listed(r, "fencepost_storage_free_bytes", Gauge::default())),
            space_low: Level(listed(r, "fencepost_storage_space_low", Gauge::default())),
            audit_failures: count(r, "fencepost_audit_failures_total"),
            watch_events: count(r, "fencepost_watch_events_total"),
            watches_lost: count(r, "fencepost_watches_lost_total"),
            connections: listed(r, "fencepost_connections", Family::default()),
            connections_refused: listed(
                r,
                "fencepost_connections_refused_total",
                Counters::default(),
            ),
            accept_failures: listed(r, "fencepost_accept_failures_total", Counters::default()),
            roles: listed(r, "fencepost_role", Family::default()),
            levels,
            registry: Mutex::new(registry),
        }
    }

    /// A counter of `fencepost_renewals_total`.
    pub fn renewals(&self, outcome: &'static str) -> Count {
        Count(self.renewals.get_or_create_owned(&[("outcome", outcome)]))
    }

    /// A counter of `fencepost_releases_total`.
    pub fn releases(&self, outcome: &'static str) -> Count {
        Count(self.releases.get_or_create_owned(&[("outcome", outcome)]))
    }

    /// A counter of `fencepost_expiries_total`.
    pub fn expiries(&self, outcome: &'static str) -> Count {
        Count(self.expiries.get_or_create_owned(&[("outcome", outcome)]))
    }

    /// A counter of `fencepost_refusals_total`.
    pub fn refusals(&self, reason: &'static str) -> Count {
        Count(self.refusals.get_or_create_owned(&[("reason", reason)]))
    }

    /// A counter of `fencepost_admissions_total`.
    pub fn admissions(&self, verdict: &'static str) -> Count {
        Count(self.admissions.get_or_create_owned(&[("verdict", verdict)]))
    }

    /// A counter of `fencepost_tokens_ahead_total`.
    pub fn tokens_ahead(&self, via: &'static str) -> Count {
        Count(self.tokens_ahead.get_or_create_owned(&[("via", via)]))
    }

    /// A counter of `fencepost_hand_overs_total`.
    pub fn hand_overs(&self, by: &'static str) -> Count {
        Count(self.hand_overs.get_or_create_owned(&[("by", by)]))
    }

    /// A counter of `fencepost_places_left_total`.
    pub fn places_left(&self, how: &'static str) -> Count {
        Count(self.places_left.get_or_create_owned(&[("how", how)]))
    }

    /// A counter of `fencepost_failures_total`.
    pub fn failures(&self, reason: &'static str) -> Count {
        Count(self.failures.get_or_create_owned(&[("reason", reason)]))
    }

    /// A counter of `fencepost_proposals_total`.
    pub fn proposals(&self, command: &'static str) -> Count {
        Count(self.proposals.get_or_create_owned(&[("command", command)]))
    }

    /// The two metrics of one method.
    pub fn call(&self, method: &'static str) -> CallMetrics {
        CallMetrics {
            calls: self.calls.get_or_create_owned(&[("method", method)]),
            seconds: self.call_seconds.get_or_create_owned(&[("method", method)]),
        }
    }

    /// Everything in the OpenMetrics text format.
    pub fn encode(&self) -> String {
        let registry = self
            .registry
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut text = String::new();
        encode(&mut text, &registry).expect("writing to a string does not fail");
        text
    }
}

impl Levels {
    fn registered(r: &mut Registry) -> Self {
        let mut level = |name| listed(r, name, Gauge::default());
        let levels = Levels {
            in_flight: level("fencepost_proposals_in_flight"),
            calls_in_flight: level("fencepost_calls_in_flight"),
            term: level("fencepost_term"),
            leader_id: level("fencepost_leader_id"),
            voters: level("fencepost_voters"),
            learners: level("fencepost_learners"),
            last_log_index: level("fencepost_last_log_index"),
            committed_index: level("fencepost_committed_index"),
            applied_index: level("fencepost_applied_index"),
            snapshot_index: level("fencepost_snapshot_index"),
            purged_index: level("fencepost_purged_index"),
            ready: level("fencepost_ready"),
            live_leases: level("fencepost_live_leases"),
            due_leases: level("fencepost_due_leases"),
            waiters: level("fencepost_waiters"),
            waiting_calls: level("fencepost_waiting_calls"),
            register_marks: level("fencepost_register_marks"),
            last_token: level("fencepost_last_token"),
            watchers: level("fencepost_watchers"),
            history_bytes: level("fencepost_history_bytes"),
            history_oldest_index: level("fencepost_history_oldest_index"),
            resident_bytes: level("fencepost_process_resident_bytes"),
            ..Levels::default()
        };
        listed(r, "fencepost_elections_total", levels.elections.clone());
        listed(
            r,
            "fencepost_process_cpu_seconds_total",
            levels.cpu_seconds.clone(),
        );
        listed(
            r,
            "fencepost_process_uptime_seconds_total",
            levels.uptime_seconds.clone(),
        );
        levels
    }
}

/// The metrics of one method of the API.
#[derive(Clone, Debug)]
pub struct CallMetrics {
    calls: Counter,
    seconds: Histogram,
}

impl CallMetrics {
    /// A call took so long.
    pub fn observe(&self, took: Duration) {
        self.calls.inc();
        self.seconds.observe(took.as_secs_f64());
    }
}
