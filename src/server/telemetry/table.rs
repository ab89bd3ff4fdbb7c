//! The one table of the metrics. `docs/monitoring.md` is compared with it by a test.

/// What kind of number a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It only rises, and starts at 0 with the process.
    Counter,
    /// It goes up and down.
    Gauge,
    /// A distribution: `_bucket`, `_sum` and `_count`.
    Histogram,
}

/// One metric.
#[derive(Debug)]
pub struct Metric {
    /// Its name as it is scraped; a counter ends in `_total`.
    pub name: &'static str,
    /// Its kind.
    pub kind: MetricKind,
    /// Its labels, by name.
    pub labels: &'static [&'static str],
    /// What it counts, in which unit, in one sentence.
    pub help: &'static str,
}

const fn counter(name: &'static str, help: &'static str) -> Metric {
    labelled(name, &[], help)
}

const fn labelled(
    name: &'static str,
    labels: &'static [&'static str],
    help: &'static str,
) -> Metric {
    Metric {
        name,
        kind: MetricKind::Counter,
        labels,
        help,
    }
}

const fn gauge(name: &'static str, help: &'static str) -> Metric {
    Metric {
        name,
        kind: MetricKind::Gauge,
        labels: &[],
        help,
    }
}

const fn histogram(name: &'static str, help: &'static str) -> Metric {
    Metric {
        name,
        kind: MetricKind::Histogram,
        labels: &[],
        help,
    }
}

/// Every metric of a node.
pub const METRICS: &[Metric] = &[
    Metric {
        name: "fencepost_build_info",
        kind: MetricKind::Gauge,
        labels: &["version", "issuer", "node_id"],
        help: "Always 1; the labels say what runs here.",
    },
    Metric {
        name: "fencepost_role",
        kind: MetricKind::Gauge,
        labels: &["role"],
        help: "1 for the role that this node has, 0 for the others: leader, follower, candidate, \
               learner, forming.",
    },
    gauge("fencepost_term", "The Raft term of this node."),
    gauge(
        "fencepost_leader_id",
        "The node id of the leader as this node knows it; 0 when it knows none.",
    ),
    gauge(
        "fencepost_voters",
        "How many voters the membership of this node has.",
    ),
    gauge(
        "fencepost_learners",
        "How many learners the membership of this node has.",
    ),
    gauge(
        "fencepost_last_log_index",
        "The index of the last entry in the log of this node.",
    ),
    gauge(
        "fencepost_committed_index",
        "The highest log index that this node knows to be committed.",
    ),
    gauge(
        "fencepost_applied_index",
        "The log index of the last entry that the state of this node contains.",
    ),
    gauge(
        "fencepost_snapshot_index",
        "The last log index that the newest snapshot of this node contains; 0 when there is none.",
    ),
    gauge(
        "fencepost_purged_index",
        "The last log index that was dropped from the log behind a snapshot.",
    ),
    counter(
        "fencepost_elections_total",
        "How often the term rose while this node watched: elections, won or not, by anybody.",
    ),
    counter(
        "fencepost_leader_changes_total",
        "How often this node saw another leader than before.",
    ),
    counter(
        "fencepost_pauses_total",
        "How often this process stood still for more than 500 ms: a stop, a frozen machine, or too \
         little CPU.",
    ),
    gauge(
        "fencepost_ready",
        "1 when /readyz answers 200, otherwise 0.",
    ),
    gauge(
        "fencepost_calls_in_flight",
        "Calls of clients that are under way at this node, each operation of a Pipeline counted, waits in \
         line aside.",
    ),
    Metric {
        name: "fencepost_connections",
        kind: MetricKind::Gauge,
        labels: &["port"],
        help: "Connections that are open at a port of this node: client, peer, http.",
    },
    labelled(
        "fencepost_connections_refused_total",
        &["port"],
        "Connections that this node closed at once, because the port had as many as it may have.",
    ),
    labelled(
        "fencepost_accept_failures_total",
        &["port"],
        "Times that no connection could be let in, for instance without a file descriptor left.",
    ),
    gauge(
        "fencepost_live_leases",
        "Live grants in the state of this node.",
    ),
    gauge(
        "fencepost_due_leases",
        "Leases whose deadline has passed here and whose end is not committed yet; more than a moment \
         above 0 on a leader means that expiry lags.",
    ),
    gauge(
        "fencepost_waiters",
        "Who waits in line, in the state of this node.",
    ),
    gauge(
        "fencepost_waiting_calls",
        "Calls that wait in line at this node, and for which it vouches to the leader.",
    ),
    counter(
        "fencepost_queued_total",
        "Places that were taken in queues while this node led.",
    ),
    labelled(
        "fencepost_hand_overs_total",
        &["by"],
        "Grants to the head of a queue while this node led: by the end of the grant before, or by a \
         promotion, where several grants ended together.",
    ),
    labelled(
        "fencepost_places_left_total",
        &["how"],
        "Places in queues that ended without a grant while this node led: withdrawn, waited_out, \
         superseded, detached.",
    ),
    gauge(
        "fencepost_register_marks",
        "Resources that have a mark in the guard register, in the state of this node; at most 1,000,000.",
    ),
    labelled(
        "fencepost_admissions_total",
        &["verdict"],
        "What this node's guard register said to presented tokens: admitted, stale, foreign, ahead.",
    ),
    labelled(
        "fencepost_tokens_ahead_total",
        &["via"],
        "Times that this node was told of a token above everything that was issued, by report or to \
         admit it: a restore gone wrong, or a token made up.",
    ),
    gauge(
        "fencepost_highest_token_ahead",
        "The highest such token since this process started; 0 when there was none.",
    ),
    gauge(
        "fencepost_last_token",
        "The value of the last token issued; 0 when there is none.",
    ),
    counter(
        "fencepost_grants_total",
        "Grants that this node answered at once as the leader; for those after waiting see \
         fencepost_hand_overs_total.",
    ),
    labelled(
        "fencepost_renewals_total",
        &["outcome"],
        "Renewals that this node answered as the leader: renewed, ended, unknown.",
    ),
    labelled(
        "fencepost_releases_total",
        &["outcome"],
        "Releases that this node answered as the leader: released, ended, unknown.",
    ),
    labelled(
        "fencepost_expiries_total",
        &["outcome"],
        "Leases whose end this node proposed as the leader: expired, or void because a renewal or a \
         release came first.",
    ),
    labelled(
        "fencepost_refusals_total",
        &["reason"],
        "Acquires that the rules refused, answered by this node as the leader: held, ended.",
    ),
    labelled(
        "fencepost_failures_total",
        &["reason"],
        "Calls that could not be carried out, by the reason that the caller was given.",
    ),
    labelled(
        "fencepost_calls_total",
        &["method"],
        "Calls that clients made to this node.",
    ),
    Metric {
        name: "fencepost_call_seconds",
        kind: MetricKind::Histogram,
        labels: &["method"],
        help: "How long the calls of clients took on this node, forwarding included, in seconds.",
    },
    counter(
        "fencepost_forwarded_calls_total",
        "Calls that this node passed on to the leader, each attempt counted.",
    ),
    counter(
        "fencepost_forwarded_in_total",
        "Calls that other nodes passed on to this one.",
    ),
    labelled(
        "fencepost_proposals_total",
        &["command"],
        "Commands that this node proposed as the leader.",
    ),
    gauge(
        "fencepost_proposals_in_flight",
        "Proposals of this node that are not committed yet.",
    ),
    histogram(
        "fencepost_commit_seconds",
        "From a proposal to its outcome on the leader, in seconds: replication, fsync and apply.",
    ),
    histogram(
        "fencepost_renewal_batch_size",
        "How many renewals went into one log entry.",
    ),
    counter(
        "fencepost_read_barriers_total",
        "Rounds to the quorum that made reads linearizable; many reads share one.",
    ),
    histogram(
        "fencepost_fsync_seconds",
        "How long the flush of one group commit took, fdatasync included, in seconds.",
    ),
    histogram(
        "fencepost_group_entries",
        "How many log entries one group commit made durable.",
    ),
    gauge("fencepost_storage_bytes", "Bytes of the database file."),
    gauge(
        "fencepost_storage_free_bytes",
        "Bytes that may still be written under the data directory.",
    ),
    gauge(
        "fencepost_storage_space_low",
        "1 while free space is below the floor and new grants are refused.",
    ),
    counter(
        "fencepost_audit_failures_total",
        "Writes to the audit log that failed; its lines are missing.",
    ),
    gauge("fencepost_watchers", "Watches that are open on this node."),
    counter(
        "fencepost_watch_events_total",
        "Events that the watches of this node were told.",
    ),
    counter(
        "fencepost_watches_lost_total",
        "Watches that could not begin or go on because the history no longer reaches back to their \
         cursor.",
    ),
    gauge(
        "fencepost_history_bytes",
        "Memory of what happened lately, kept for watches.",
    ),
    gauge(
        "fencepost_history_oldest_index",
        "The oldest cursor from which a watch can go on at this node.",
    ),
    gauge(
        "fencepost_process_resident_bytes",
        "Memory of this process that is in RAM.",
    ),
    counter(
        "fencepost_process_cpu_seconds_total",
        "CPU time of this process, user and system, in seconds.",
    ),
    counter(
        "fencepost_process_uptime_seconds_total",
        "Seconds since this process started.",
    ),
];
