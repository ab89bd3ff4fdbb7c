//! What comes of a proposal, a read and a forwarded call, on any node.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use fencepost::server::raft::{ForwardError, ProposeError, ReadError};

use crate::harness::{Cluster, acquire, eventually, token};

#[tokio::test]
async fn a_follower_names_the_leader_and_does_nothing() {
    let cluster = Cluster::of(3).await;
    let leader = cluster.leader().await;
    let follower = &cluster.nodes[&cluster.followers(leader.site.id)[0]];
    let before = leader.status().last_log_index;
    match follower.propose(&acquire("a", "a")).await {
        Err(ProposeError::NotLeader { hint: Some(hint) }) => {
            assert_eq!(hint.node_id, leader.site.id);
            assert_eq!(hint.peer_address, leader.site.address);
            assert_eq!(hint.client_address, format!("client-of-{}", leader.site.id));
        }
        other => panic!("{other:?}"),
    }
    match follower.raft.read_barrier(soon()).await {
        Err(ReadError::NotLeader { hint: Some(hint) }) => assert_eq!(hint.node_id, leader.site.id),
        other => panic!("{other:?}"),
    }
    assert_eq!(leader.status().last_log_index, before);
}

#[tokio::test]
async fn a_read_sees_every_grant_that_was_acknowledged_before() {
    let cluster = Cluster::of(3).await;
    let leader = cluster.leader().await;
    for n in 0..20 {
        let granted = token(
            &leader
                .propose(&acquire(&format!("r{n}"), "a"))
                .await
                .unwrap(),
        );
        leader.raft.read_barrier(soon()).await.unwrap();
        let seen = leader
            .raft
            .state()
            .read(|replica| replica.machine().grant(granted.value()).is_some());
        assert_eq!(seen, Some(true));
    }
}

#[tokio::test]
async fn many_reads_share_rounds() {
    let cluster = Cluster::of(3).await;
    let leader = cluster.leader().await.raft.clone();
    let reads = (0..500).map(|_| {
        let leader = leader.clone();
        tokio::spawn(async move { leader.read_barrier(soon()).await })
    });
    for read in reads.collect::<Vec<_>>() {
        read.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_call_is_passed_to_the_leader_in_one_hop() {
    let cluster = Cluster::of(3).await;
    let leader = cluster.leader().await.site.id;
    let follower = &cluster.nodes[&cluster.followers(leader)[0]];
    let sent = Bytes::from_static(b"12345");
    let answer = follower
        .raft
        .forward("/some.Service/Do", sent.clone(), soon())
        .await
        .unwrap();
    let expected = format!("node {leader} did /some.Service/Do with 5 bytes");
    assert_eq!(answer, Bytes::from(expected));
    let itself = cluster.nodes[&leader]
        .raft
        .forward("/some.Service/Do", sent, soon())
        .await;
    assert_eq!(itself, Err(ForwardError::IsLeader));
}

#[tokio::test]
async fn a_call_to_a_leader_that_is_gone_had_no_effect() {
    let mut cluster = Cluster::of(3).await;
    let leader = cluster.leader().await.site.id;
    let followers = cluster.followers(leader);
    // Without the third node nobody can take over, so the hint stays.
    cluster.kill(followers[1]);
    let gone = cluster.kill(leader);
    eventually("nobody listens there any more", || {
        std::net::TcpStream::connect(&gone.address).is_err()
    })
    .await;
    let left = &cluster.nodes[&followers[0]];
    let answer = left.raft.forward("/x.Y/Z", Bytes::new(), soon()).await;
    assert!(
        matches!(answer, Err(ForwardError::Unreachable(_))),
        "{answer:?}"
    );
}

#[tokio::test]
async fn a_proposal_that_is_not_committed_in_time_is_unknown_and_may_still_count() {
    let cluster = Cluster::of(3).await;
    let leader = cluster.leader().await;
    for node in cluster.nodes.values() {
        node.site.disk.hold();
    }
    let deadline = Instant::now() + Duration::from_millis(100);
    let late = leader.raft.propose(&acquire("a", "a"), deadline).await;
    assert!(
        matches!(late, Err(ProposeError::Unknown { .. })),
        "{late:?}"
    );
    assert_eq!(
        leader.status().proposals_in_flight,
        1,
        "it is still under way"
    );
    for node in cluster.nodes.values() {
        node.site.disk.release();
    }
    eventually("it took effect after all", || {
        leader
            .raft
            .state()
            .read(|replica| replica.machine().live_grants())
            == Some(1)
    })
    .await;
}

#[tokio::test]
async fn too_many_proposals_at_once_are_refused_without_an_effect() {
    let cluster = Cluster::with(1, |site| site.in_flight_max = 4).await;
    let leader = cluster.leader().await;
    leader.site.disk.hold();
    let raft = Arc::new(leader.raft.clone());
    let waiting: Vec<_> = (0..4)
        .map(|n| {
            let raft = Arc::clone(&raft);
            tokio::spawn(async move { raft.propose(&acquire(&format!("r{n}"), "a"), soon()).await })
        })
        .collect();
    eventually("four are under way", || {
        leader.status().proposals_in_flight == 4
    })
    .await;
    let refused = leader.propose(&acquire("one-more", "a")).await;
    assert!(
        matches!(refused, Err(ProposeError::Overloaded { .. })),
        "{refused:?}"
    );
    leader.site.disk.release();
    for one in waiting {
        token(&one.await.unwrap().unwrap());
    }
    token(&leader.propose(&acquire("one-more", "a")).await.unwrap());
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}
