//! What a node sees of itself: role, progress, and its own end.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use openraft::{
    Instant as _, RaftMetrics, ServerState, async_runtime::watch::WatchReceiver, errors::Fatal,
    metrics::RaftServerMetrics,
};
use tokio::sync::{Notify, watch};

use super::{
    FatalError, FatalKind, LeaderHint, Leadership, MemberStatus, Role, Roster, Standing, Status,
    fate::Fate,
    node::{Inner, Raft},
    types::{Types, ours},
};
use crate::server::store::{Addition, Failure, SharedStore};

/// Why Raft ended: the store knows best, then the state machine, then Raft itself.
pub(super) fn why(fatal: &Fatal<Types>, fate: &Fate, store: &SharedStore) -> FatalError {
    if let Some(failure) = store.failure().borrow().clone() {
        let kind = storage_kind(failure.kind);
        return FatalError {
            kind,
            message: failure.to_string(),
        };
    }
    if let Some(sealed) = fate.now() {
        return sealed;
    }
    let message = match fatal {
        Fatal::StorageError(error) => format!("Raft stopped itself: {error}"),
        Fatal::Panicked => "Raft stopped itself: a task of it panicked".to_owned(),
        Fatal::Stopped => "Raft stopped".to_owned(),
    };
    FatalError {
        kind: FatalKind::Raft,
        message,
    }
}

fn storage_kind(failure: Failure) -> FatalKind {
    match failure {
        Failure::DiskFull => FatalKind::DiskFull,
        Failure::Damaged | Failure::Io | Failure::Closed => FatalKind::StorageDamaged,
        // The store works on, but Raft asked for what it must never ask.
        Failure::Invalid | Failure::Superseded => FatalKind::Raft,
    }
}

/// Seals the node's fate when Raft or the store end, or when it was removed from its cluster.
pub(super) async fn guard(
    raft: Raft,
    fate: Fate,
    store: SharedStore,
    mut roster: watch::Receiver<Arc<Roster>>,
) {
    // It changes seldom, and closes when Raft ends.
    let mut raft_ends = raft.server_metrics();
    let mut failure = store.failure();
    let identity = store.identity();
    loop {
        let standing = roster
            .borrow_and_update()
            .standing(identity.node_id, identity.instance);
        // A leader that removed itself hands its office over first.
        if standing == Standing::Removed
            && raft_ends.borrow_and_update().state != ServerState::Leader
        {
            let id = identity.node_id;
            let why = "was removed from its cluster, and node ids are never used again";
            return fate.identity(format!("node {id} {why}: {Addition}"));
        }
        tokio::select! {
            changed = raft_ends.changed() => if changed.is_err() {
                let fatal = raft.metrics().borrow_watched().running_state.clone().err();
                let error = why(&fatal.unwrap_or(Fatal::Stopped), &fate, &store);
                return fate.seal(error.kind, error.message);
            },
            Ok(_) = failure.wait_for(Option::is_some) => {
                let error = why(&Fatal::Stopped, &fate, &store);
                return fate.seal(error.kind, error.message);
            }
            // The machine lives as long as Raft does.
            _ = roster.changed() => {}
        }
    }
}

/// Asks Raft for a snapshot whenever the log has grown by enough bytes.
pub(super) async fn fold(raft: Raft, full: Arc<Notify>) {
    loop {
        full.notified().await;
        if raft.trigger().snapshot().await.is_err() {
            return;
        }
    }
}

/// Keeps the watched leadership up to date, and counts terms.
pub(super) async fn follow(
    raft: Raft,
    leadership: watch::Sender<Leadership>,
    elections: Arc<AtomicU64>,
) {
    let mut metrics = raft.server_metrics();
    while metrics.changed().await.is_ok() {
        // From what has just changed, and not from `raft.metrics()`: openraft sends that one a moment
        // later, and whoever read it too early would not be woken again.
        let now = seen(&metrics.borrow_watched());
        leadership.send_if_modified(|before| {
            if *before == now {
                return false;
            }
            if now.term > before.term {
                elections.fetch_add(1, Ordering::Relaxed);
            }
            tell(before, &now);
            *before = now.clone();
            true
        });
    }
}

/// One line for each change that people look for.
fn tell(before: &Leadership, now: &Leadership) {
    let leader = now.leader.as_ref().map(|leader| leader.node_id);
    if leader != before.leader.as_ref().map(|leader| leader.node_id) || now.term != before.term {
        let role = now.role.as_str();
        match leader {
            Some(leader) => tracing::info!(term = now.term, leader, role, "a leader is known"),
            None => tracing::info!(term = now.term, role, "no leader is known"),
        }
    } else if now.role != before.role {
        tracing::info!(
            term = now.term,
            role = now.role.as_str(),
            "the role changed"
        );
    }
}

/// Who leads, from what Raft shows.
pub(super) fn leadership(raft: &Raft) -> Leadership {
    seen(&raft.server_metrics().borrow_watched())
}

fn seen(metrics: &RaftServerMetrics<Types>) -> Leadership {
    let membership = metrics.membership_config.membership();
    let leader = metrics.current_leader.map(|id| {
        let record = membership.get_node(&id);
        record.map_or_else(
            || LeaderHint::unknown(id),
            |record| LeaderHint::new(id, record),
        )
    });
    Leadership {
        term: metrics.vote.leader_id.term,
        role: role(metrics),
        leader,
    }
}

fn role(metrics: &RaftServerMetrics<Types>) -> Role {
    if metrics.membership_config.log_id().is_none() {
        return Role::Forming;
    }
    match metrics.state {
        ServerState::Learner => Role::Learner,
        ServerState::Follower => Role::Follower,
        ServerState::Candidate => Role::Candidate,
        ServerState::Leader => Role::Leader,
        ServerState::Shutdown => Role::Follower,
    }
}

/// Everything that a node tells about itself.
pub(super) fn collect(inner: &Inner) -> Status {
    let leadership = leadership(&inner.raft);
    let metrics = inner.raft.metrics();
    let metrics = metrics.borrow_watched();
    let membership = metrics.membership_config.membership();
    let voters: Vec<u64> = membership.voter_ids().collect();
    let members = membership.nodes().map(|(id, record)| MemberStatus {
        node_id: *id,
        record: record.clone(),
        voter: voters.contains(id),
        matched: matched(&metrics, *id).map(ours),
        last_contact: last_contact(&metrics, *id),
    });
    Status {
        cluster: inner.local.cluster(),
        node_id: inner.local.node_id,
        instance: inner.local.instance,
        boots: inner.local.boot,
        leadership,
        last_log_index: metrics.last_log_index,
        committed: metrics.local_committed.map(ours),
        applied: metrics.last_applied.map(ours),
        snapshot: metrics.snapshot.map(ours),
        purged: metrics.purged.map(ours),
        members: members.collect(),
        elections: inner.elections.load(Ordering::Relaxed),
        proposals_in_flight: inner.admission.under_way(),
    }
}

/// What the leader knows that a member has.
pub(super) fn matched(
    metrics: &RaftMetrics<Types>,
    id: u64,
) -> Option<openraft::alias::LogIdOf<Types>> {
    metrics.replication.as_ref()?.get(&id).copied().flatten()
}

/// How long ago the leader sent what a member last answered. The leader answers itself.
pub(super) fn last_contact(metrics: &RaftMetrics<Types>, id: u64) -> Option<std::time::Duration> {
    let heartbeats = metrics.heartbeat.as_ref()?;
    if id == metrics.id {
        return Some(std::time::Duration::ZERO);
    }
    let sent = (*heartbeats.get(&id)?)?.into_inner();
    Some(sent.elapsed())
}
