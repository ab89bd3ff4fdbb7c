//! How openraft and the peer server are set up, each with its reason.

use std::time::Duration;

use openraft::{Config, SnapshotPolicy};
use tonic::transport::Server;

use crate::server::port::Patience;

use super::{FatalError, FatalKind, RaftConfig};

/// Entries in one message to a follower. Bytes bound it as well: see `log`.
const APPEND_ENTRIES_MAX: u64 = 4_096;

/// Entries kept behind a snapshot, at most, for followers that were away for a moment.
const ENTRIES_KEPT_MAX: u64 = 10_000;

/// Entries removed from the log at a time: each removal is a write.
const PURGE_ENTRIES: u64 = 1_000;

/// Flow control windows of incoming streams: several of the largest messages.
const WINDOW_BYTES: u32 = 8 << 20;

/// Connections at the peer port: a member has a handful, and a node that comes back may have opened new
/// ones before its old ones are known to be gone.
pub(super) const PEER_CONNECTIONS_MAX: usize = 256;

/// A peer begins with the preface of HTTP/2 and a frame of settings, or is none.
pub(super) const PEER_BEGIN: Patience = Patience::Begin {
    bytes: 24 + 9,
    within: Duration::from_secs(5),
};

/// openraft's configuration.
pub(super) fn openraft(config: &RaftConfig) -> Result<Config, FatalError> {
    let timing = config.timing;
    let election_max = millis(timing.election_max);
    let settings = Config {
        cluster_name: config.issuer.to_string(),
        heartbeat_interval: millis(timing.heartbeat),
        election_timeout_min: millis(timing.election_min),
        election_timeout_max: election_max,
        max_payload_entries: APPEND_ENTRIES_MAX,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(config.snapshots.entries),
        max_in_snapshot_log_to_keep: (config.snapshots.entries / 4).min(ENTRIES_KEPT_MAX),
        purge_batch_size: PURGE_ENTRIES.min(config.snapshots.entries / 4).max(1),
        // A follower that lags this far gets a snapshot although the log would still serve: more
        // than a snapshot's distance, so that one always helps.
        replication_lag_threshold: config.snapshots.entries.saturating_mul(4),
        // A node that returns must not depose a healthy leader.
        enable_pre_vote: Some(true),
        // A restarted leader asks for votes like everybody else: what it had promised is forgotten.
        enable_leader_restore: Some(false),
        // A leader without a quorum falls silent for long enough that the others can elect one, even
        // if it still reaches some of them (openraft#2080).
        quorum_loss_probe_interval: Some(election_max * 2),
        // A log that went back is a wiped or copied directory, and never comes to order by itself.
        allow_log_reversion: Some(false),
        ..Config::default()
    };
    settings.validate().map_err(|error| FatalError {
        kind: FatalKind::Raft,
        message: format!("Raft cannot run with this timing: {error}"),
    })
}

/// The peer server's transport.
pub(super) fn peer_server(server: Server) -> Server {
    server
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .http2_keepalive_interval(Some(Duration::from_secs(1)))
        .http2_keepalive_timeout(Some(Duration::from_secs(2)))
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
