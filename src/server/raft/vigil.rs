//! Attending the leader, to notice a dead process before its lease runs out.
//!
//! When a leader's process dies, the kernel closes its connections and refuses new ones. Every other node
//! keeps a call open to the leader that lives as long as the leader's process. When it breaks, the node
//! tries to connect; if that is refused, it lifts the leader's lease *on itself* and asks for pre-votes.
//! Each of the others looks for itself, and grants only if it found the same. So a broken cable, a busy
//! machine or one node's mistake changes nothing: no quorum agrees, and the term stays as it is. A stopped
//! process or a lost machine refuses nothing, and its lease runs out as usual.
//!
//! openraft lifts a lease only on the way of a leadership transfer, so that message is what a follower
//! sends to itself here, with nobody as the one to lead.

use std::{io, time::Duration};

use openraft::{async_runtime::watch::WatchReceiver, raft::TransferLeaderRequest};
use tokio::{net::TcpStream, sync::watch};

use super::{Leadership, NodeRecord, network::Dialer, node::Raft, types::Vote};

/// When to look again after the call broke: a dying process closes its sockets one by one, so its
/// listener may outlive its connections by a moment.
const LOOKS_MS: [u64; 5] = [0, 2, 8, 30, 100];

/// How long one look may take.
const LOOK_MAX: Duration = Duration::from_millis(100);

/// Followers stand one after the other, so that they do not split the vote.
const STAGGER: Duration = Duration::from_millis(40);

/// How long followers give each other to notice before the first one stands.
const NOTICE: Duration = Duration::from_millis(5);

/// How often a follower that found the leader dead asks for votes before it leaves the rest to the
/// ordinary election timer.
const ROUNDS: u32 = 5;

/// How long to wait before a leader that lives, but could not be attended, is tried again.
const AGAIN: Duration = Duration::from_millis(200);

/// Nobody: node ids begin with 1.
const NOBODY: u64 = 0;

/// Attends whoever leads, until the node stops.
pub(super) async fn watch(raft: Raft, dialer: Dialer, mut leadership: watch::Receiver<Leadership>) {
    loop {
        leadership.borrow_and_update();
        let Some(led) = led_by(&raft) else {
            if leadership.changed().await.is_err() {
                return;
            }
            continue;
        };
        tokio::select! {
            () = attended(&dialer, &led) => {}
            changed = leadership.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return,
            },
        }
        if is_dead(&led.record.peer_address).await {
            succeed(&raft, &led).await;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// Whom this node follows.
struct Led {
    vote: Vote,
    leader: u64,
    record: NodeRecord,
    /// How many voters stand before this node; `None` for a learner.
    place: Option<u32>,
}

/// The leader, if there is one and it is not this node itself.
fn led_by(raft: &Raft) -> Option<Led> {
    let metrics = raft.metrics();
    let metrics = metrics.borrow_watched();
    let leader = metrics.current_leader?;
    if leader == metrics.id || !metrics.vote.committed {
        return None;
    }
    let membership = metrics.membership_config.membership();
    let record = membership.get_node(&leader)?.clone();
    let mut heirs = membership.voter_ids().filter(|id| *id != leader);
    let place = heirs.position(|id| id == metrics.id);
    let place = place.and_then(|place| u32::try_from(place).ok());
    Some(Led {
        vote: metrics.vote,
        leader,
        record,
        place,
    })
}

/// Waits until the call to the leader is over, however it ends.
async fn attended(dialer: &Dialer, led: &Led) {
    if let Ok(mut stream) = dialer.attend(led.leader, &led.record).await {
        while let Ok(Some(_)) = stream.message().await {}
    }
}

/// Whether nobody listens where the leader did.
async fn is_dead(address: &str) -> bool {
    for wait in LOOKS_MS {
        tokio::time::sleep(Duration::from_millis(wait)).await;
        let look = tokio::time::timeout(LOOK_MAX, TcpStream::connect(address)).await;
        match look {
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => return true,
            // It listens, or cannot be reached at all, or does not answer: then its lease decides.
            Ok(_) | Err(_) => {}
        }
    }
    false
}

/// Lifts the dead leader's lease here, and stands for election when it is this node's turn.
async fn succeed(raft: &Raft, led: &Led) {
    let Some(place) = led.place.filter(|_| still_led_by(raft, led)) else {
        return;
    };
    tracing::info!(
        leader = led.leader,
        "the leader's process is gone; not waiting for its lease"
    );
    let lift = TransferLeaderRequest::new(led.vote, NOBODY, None);
    if raft.handle_transfer_leader(lift).await.is_err() {
        return;
    }
    tokio::time::sleep(NOTICE + STAGGER * place).await;
    for _ in 0..ROUNDS {
        if !still_led_by(raft, led) || raft.trigger().elect(true).await.is_err() {
            return;
        }
        tokio::time::sleep(STAGGER * 2).await;
    }
}

/// Whether nobody else has been elected or stood for election since.
fn still_led_by(raft: &Raft, led: &Led) -> bool {
    raft.metrics().borrow_watched().vote == led.vote
}
