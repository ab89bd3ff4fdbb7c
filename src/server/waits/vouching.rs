//! Telling the leader who waits here, and giving up when it does not hear.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::stream::{FuturesUnordered, StreamExt};

use super::Waits;
use crate::server::{
    clock,
    raft::{Attached, RaftNode, Touch},
};

/// How often a node vouches for its waiting calls.
const VOUCH_EVERY: Duration = Duration::from_millis(500);

/// A node that the leader has not acknowledged for so long ends its waiting calls: in half the time after
/// which the leader gives their places up, so that their callers come back elsewhere in time.
const UNATTENDED_AFTER: Duration = Duration::from_secs(1);

/// How often that is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Messages under way at once, so that a slow leader is not swamped with what it has not read yet.
const UNDER_WAY_MAX: usize = 2;

/// Vouches for as long as this node runs.
pub async fn vouch(raft: RaftNode, waits: Arc<Waits>) {
    let mut leadership = raft.leadership();
    let mut leader = leader_id(&raft);
    let mut under_way = FuturesUnordered::new();
    let mut acknowledged: Option<Instant> = None;
    let mut next = clock::now();
    loop {
        let now = clock::now();
        if now >= next && under_way.len() < UNDER_WAY_MAX {
            let places = waits.calls().attached();
            if !places.is_empty() {
                under_way.push(send(&raft, places, now));
            }
            next = now + VOUCH_EVERY;
        }
        let ended = (waits.calls()).end_unattended(acknowledged, UNATTENDED_AFTER, clock::now());
        if ended > 0 {
            tracing::info!(
                calls = ended,
                "the leader acknowledges nobody who waits here: their calls end, to be made elsewhere"
            );
        }
        tokio::select! {
            changed = leadership.changed() => {
                if changed.is_err() {
                    return;
                }
                let now_leads = leader_id(&raft);
                if now_leads != leader {
                    // A new leader counts afresh: the sooner it hears, the better.
                    leader = now_leads;
                    next = clock::now();
                }
            }
            // A node that hears from no leader applies nothing, so it would never learn of a grant: the
            // acknowledgement does not count.
            Some(sent) = under_way.next() => if raft.touch_closely(clock::now()) == Touch::InTouch {
                acknowledged = acknowledged.max(sent);
            },
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

fn leader_id(raft: &RaftNode) -> Option<u64> {
    let leadership = raft.leadership();
    let leadership = leadership.borrow();
    leadership.leader.as_ref().map(|leader| leader.node_id)
}

/// Vouches once. Returns when it was sent, if the leader has noted it: what counts is how the calls stood
/// then.
async fn send(raft: &RaftNode, places: Vec<Attached>, sent: Instant) -> Option<Instant> {
    match raft.vouch(&places, sent + UNATTENDED_AFTER).await {
        Ok(()) => Some(sent),
        Err(error) => {
            tracing::debug!(%error, places = places.len(), "nobody noted who waits here");
            None
        }
    }
}
