//! Watching the leader's connection, to notice a dead process before its lease runs out.
//!
//! When a leader's process dies, the kernel closes its connections and refuses new ones. A follower
//! whose append stream from the leader breaks tries to connect; if that is refused, it lifts the
//! leader's lease *on this node* and asks for pre-votes. Every other follower looks for itself, and
//! grants only if it found the same. So a broken cable, a busy machine or one follower's mistake
//! changes nothing: no quorum agrees, and the term stays as it is. A stopped process or a lost machine
//! refuses nothing, and its lease runs out as usual.
//!
//! openraft lifts a lease only on the way of a leadership transfer, so that message is what a follower
//! sends to itself here, with nobody as the one to lead.

use std::{collections::BTreeSet, io, time::Duration};

use openraft::{async_runtime::watch::WatchReceiver, raft::TransferLeaderRequest};
use tokio::{net::TcpStream, sync::mpsc};

use super::{fate::Fate, node::Raft, types::Vote};

/// When to look again after a stream broke: a dying process closes its sockets one by one, so its
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

/// Nobody: node ids begin with 1.
const NOBODY: u64 = 0;

/// Where broken streams are reported.
#[derive(Clone)]
pub(super) struct Vigil {
    broken: mpsc::UnboundedSender<u64>,
}

/// Reports, when it is dropped, that a stream from a leader is over.
pub(super) struct Link {
    sender: u64,
    broken: mpsc::UnboundedSender<u64>,
}

impl Drop for Link {
    fn drop(&mut self) {
        // Nobody watches any more when the node stops.
        let _ = self.broken.send(self.sender);
    }
}

impl Vigil {
    /// Makes the place to report to, and what the watching task reads.
    pub(super) fn new() -> (Self, mpsc::UnboundedReceiver<u64>) {
        let (broken, reports) = mpsc::unbounded_channel();
        (Self { broken }, reports)
    }

    /// Stands for one append stream from `sender`.
    pub(super) fn link(&self, sender: u64) -> Link {
        Link {
            sender,
            broken: self.broken.clone(),
        }
    }
}

/// Watches until the node stops.
pub(super) async fn watch(raft: Raft, fate: Fate, mut reports: mpsc::UnboundedReceiver<u64>) {
    while let Some(sender) = reports.recv().await {
        let mut senders = BTreeSet::from([sender]);
        while let Ok(sender) = reports.try_recv() {
            senders.insert(sender);
        }
        if fate.now().is_some() {
            return;
        }
        if let Some(led) = led_by_one_of(&raft, &senders)
            && is_dead(&led.address).await
        {
            succeed(&raft, &led).await;
        }
    }
}

/// Whom this node followed.
struct Led {
    vote: Vote,
    leader: u64,
    address: String,
    /// How many voters stand before this node.
    place: u32,
}

/// The leader, if it is one of `senders`, not this node itself, and this node has a vote.
fn led_by_one_of(raft: &Raft, senders: &BTreeSet<u64>) -> Option<Led> {
    let metrics = raft.metrics();
    let metrics = metrics.borrow_watched();
    let leader = metrics.current_leader?;
    if leader == metrics.id || !senders.contains(&leader) || !metrics.vote.committed {
        return None;
    }
    let membership = metrics.membership_config.membership();
    let address = membership.get_node(&leader)?.peer_address.clone();
    let heirs: Vec<u64> = membership.voter_ids().filter(|id| *id != leader).collect();
    let place = heirs.iter().position(|id| *id == metrics.id)?;
    let place = u32::try_from(place).ok()?;
    Some(Led {
        vote: metrics.vote,
        leader,
        address,
        place,
    })
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
    tracing::info!(
        leader = led.leader,
        "the leader's process is gone; not waiting for its lease"
    );
    let lift = TransferLeaderRequest::new(led.vote, NOBODY, None);
    if raft.handle_transfer_leader(lift).await.is_err() {
        return;
    }
    tokio::time::sleep(NOTICE + STAGGER * led.place).await;
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
