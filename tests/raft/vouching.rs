//! What a node says about its waiters reaches the leader whole, and whether it was noted comes back.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use fencepost::{
    issuer::RequestKey,
    limits::WAITING_CALLS_MAX,
    server::raft::{Attached, VouchError},
    wire::peer_v1::{Envelope, VouchRequest, peer_client::PeerClient},
};
use tonic::Code;

use crate::harness::{Cluster, eventually};

fn places(count: usize) -> Vec<Attached> {
    (0..count)
        .map(|n| Attached {
            request: RequestKey::from_bytes((n as u128).to_be_bytes()),
            attempt: u32::try_from(n).unwrap(),
        })
        .collect()
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

#[tokio::test]
async fn as_many_as_may_wait_at_a_node_are_vouched_for_in_one_message() {
    let cluster = Cluster::of(3).await;
    let leader = cluster.leader().await;
    let follower = &cluster.nodes[&cluster.followers(leader.site.id)[0]];
    for count in [0, 1, WAITING_CALLS_MAX] {
        let sent = places(count);
        follower.raft.vouch(&sent, soon()).await.unwrap();
        assert!(*leader.echo.attached.lock().unwrap() == sent, "{count}");
    }
    assert!(follower.echo.attached.lock().unwrap().is_empty());
}

#[tokio::test]
async fn a_leader_vouches_to_itself() {
    let cluster = Cluster::of(1).await;
    let leader = cluster.leader().await;
    leader.raft.vouch(&places(3), soon()).await.unwrap();
    assert_eq!(*leader.echo.attached.lock().unwrap(), places(3));
    leader.echo.notes.store(false, Ordering::Relaxed);
    let refused = leader.raft.vouch(&places(3), soon()).await;
    assert_eq!(refused, Err(VouchError::NotNoted));
}

#[tokio::test]
async fn what_the_leader_did_not_note_or_hear_is_not_taken_for_acknowledged() {
    let mut cluster = Cluster::of(3).await;
    let leader = cluster.leader().await.site.id;
    let followers = cluster.followers(leader);
    let notes = &cluster.nodes[&leader].echo.notes;
    notes.store(false, Ordering::Relaxed);
    let one = places(1);
    let sent = cluster.nodes[&followers[0]].raft.vouch(&one, soon());
    assert_eq!(sent.await, Err(VouchError::NotNoted));

    // Without the third node nobody can take over, so the one who is gone is still asked.
    cluster.kill(followers[1]);
    let gone = cluster.kill(leader);
    eventually("nobody listens there any more", || {
        std::net::TcpStream::connect(&gone.address).is_err()
    })
    .await;
    let sent = cluster.nodes[&followers[0]].raft.vouch(&one, soon());
    let unheard = sent.await;
    assert!(
        matches!(
            unheard,
            Err(VouchError::Unreachable(_) | VouchError::NoLeader)
        ),
        "{unheard:?}"
    );
}

#[tokio::test]
async fn what_a_stranger_or_a_broken_message_says_is_not_noted() {
    let cluster = Cluster::of(1).await;
    let leader = cluster.leader().await;
    let status = leader.status();
    let own = &status.members[0].record;
    let honest = Envelope {
        cluster_id: status.cluster.unwrap().to_bytes().to_vec().into(),
        sender_id: 7,
        sender_instance: vec![7; 16].into(),
        sender_boot: 1,
        sender_term: 0,
        receiver_id: leader.site.id,
        receiver_instance: own.instance.to_bytes().to_vec().into(),
        sender_life: 1,
    };
    let foreign = Envelope {
        cluster_id: vec![9; 16].into(),
        ..honest.clone()
    };
    let address = format!("http://{}", leader.site.address);
    let mut peer = PeerClient::connect(address).await.unwrap();
    for (envelope, bytes, code) in [
        (None, 20, Code::FailedPrecondition),
        (Some(foreign), 20, Code::FailedPrecondition),
        (Some(honest.clone()), 19, Code::InvalidArgument),
    ] {
        let places = vec![1; bytes].into();
        let refused = peer.vouch(VouchRequest { envelope, places }).await;
        assert_eq!(refused.unwrap_err().code(), code);
        assert!(leader.echo.attached.lock().unwrap().is_empty());
    }
    let whole = VouchRequest {
        envelope: Some(honest),
        places: vec![1; 20].into(),
    };
    assert!(peer.vouch(whole).await.unwrap().into_inner().noted);
    assert_eq!(leader.echo.attached.lock().unwrap().len(), 1);
}
