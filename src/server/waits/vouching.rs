//! Telling the leader who waits here, and giving up when it does not hear.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::stream::{FuturesUnordered, StreamExt};

use super::Waits;
use crate::server::{
    clock::{self, GapDetector},
    raft::{Attached, RaftNode, Touch},
};

/// How often a node vouches for its waiting calls.
const VOUCH_EVERY: Duration = Duration::from_millis(500);

/// How soon it tries again when the leader has not noted it: several times before it gives up.
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(100);

/// A node that the leader has not acknowledged for so long ends its waiting calls: in half the time after
/// which the leader gives their places up, so that their callers come back elsewhere in time.
const UNATTENDED_AFTER: Duration = Duration::from_secs(1);

/// How often that is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A look that comes so late means that this node itself stood still: no fault of the leader's.
const GAP_MAX: Duration = Duration::from_millis(300);

/// Messages under way at once, so that a slow leader is not swamped with what it has not read yet.
const UNDER_WAY_MAX: usize = 3;

/// Vouches for as long as this node runs.
pub async fn vouch(raft: RaftNode, waits: Arc<Waits>) {
    let mut leadership = raft.leadership();
    let mut leader = leader_id(&raft);
    let mut under_way = FuturesUnordered::new();
    let mut next = clock::now();
    // When that was sent which the leader has acknowledged; or when there was no telling.
    let mut known: Option<Instant> = None;
    let mut gaps = GapDetector::new(next, GAP_MAX);
    loop {
        let now = clock::now();
        if gaps.tick(now).is_some() {
            (known, next) = (Some(now), now);
        }
        if now >= next && under_way.len() < UNDER_WAY_MAX {
            let places = waits.calls().attached();
            if !places.is_empty() {
                under_way.push(send(&raft, places, now));
            }
            next = now + VOUCH_EVERY;
        }
        let ended = waits.calls().end_unattended(known, UNATTENDED_AFTER, now);
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
            Some(noted) = under_way.next() => match noted {
                Some(sent) => known = known.max(Some(sent)),
                None => next = next.min(clock::now() + TRY_AGAIN_AFTER),
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
    if let Err(error) = raft.vouch(&places, sent + UNATTENDED_AFTER).await {
        tracing::debug!(%error, places = places.len(), "nobody noted who waits here");
        return None;
    }
    // A node that hears from no leader applies nothing, so it would never learn of a grant: that it can
    // still speak to one does not count.
    (raft.touch_closely(clock::now()) == Touch::InTouch).then_some(sent)
}
