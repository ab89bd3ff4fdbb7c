//! Nodes come and go, one at a time, and never so that the quorum goes with them.

use std::time::{Duration, Instant};

use fencepost::server::raft::{ChangeError, Role};

use crate::harness::{Cluster, Node, Site, acquire, eventually, token};

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

fn refusal(result: Result<impl std::fmt::Debug, ChangeError>) -> String {
    match result {
        Err(ChangeError::Refused(why)) => why,
        other => panic!("not refused: {other:?}"),
    }
}

/// Adds a new node, and waits until it may be promoted.
async fn add_and_promote(cluster: &mut Cluster, id: u64) {
    let site = Site::joining(id);
    let node = site.start().await;
    let leader = cluster.leader().await;
    let record = leader
        .raft
        .add_node(id, &site.address, soon())
        .await
        .unwrap();
    assert_eq!(record.instance, node.status().instance);
    assert_eq!(record.client_address, format!("client-of-{id}"));
    eventually("it is a learner", || {
        node.status().leadership.role == Role::Learner
    })
    .await;
    promote_when_caught_up(leader, id).await;
    eventually("it votes", || {
        node.status().leadership.role == Role::Follower
    })
    .await;
    cluster.nodes.insert(id, node);
}

/// Waits until the leader takes a member for dead.
async fn misses(leader: &Node, id: u64) {
    eventually("the leader misses the member", || {
        let status = leader.status();
        let member = status.members.iter().find(|member| member.node_id == id);
        let silent = member.unwrap().last_contact;
        silent.is_none_or(|ago| ago > Duration::from_secs(1))
    })
    .await;
}

async fn promote_when_caught_up(leader: &Node, id: u64) {
    eventually("it has caught up", || {
        let status = leader.status();
        let member = status.members.iter().find(|member| member.node_id == id);
        let matched = member.and_then(|member| member.matched).map(|at| at.index);
        matched.is_some() && matched >= status.committed.map(|at| at.index)
    })
    .await;
    leader.raft.promote(id, soon()).await.unwrap();
}

#[tokio::test]
async fn a_node_is_added_catches_up_and_votes() {
    let mut cluster = Cluster::of(3).await;
    for n in 0..100 {
        cluster.propose(&acquire(&format!("r{n}"), "a")).await;
    }
    add_and_promote(&mut cluster, 4).await;
    add_and_promote(&mut cluster, 5).await;
    cluster.converge().await;
    assert!(
        cluster.nodes[&1]
            .status()
            .members
            .iter()
            .all(|member| member.voter)
    );
    // Five voters survive the loss of two.
    let leader = cluster.leader().await.site.id;
    cluster.kill(leader);
    let next = cluster.leader().await.site.id;
    cluster.kill(next);
    token(&cluster.propose(&acquire("after", "a")).await);
}

#[tokio::test]
async fn a_dead_node_is_replaced_under_a_new_id() {
    let mut cluster = Cluster::of(3).await;
    token(&cluster.propose(&acquire("a", "a")).await);
    let leader = cluster.leader().await.site.id;
    let dead = cluster.followers(leader)[0];
    cluster.kill(dead);
    let leader = &cluster.nodes[&leader];
    eventually("the leader misses it", || {
        let removed = leader.status();
        let member = removed.members.iter().find(|member| member.node_id == dead);
        member
            .unwrap()
            .last_contact
            .is_none_or(|ago| ago > Duration::from_secs(1))
    })
    .await;
    leader.raft.remove_node(dead, soon()).await.unwrap();
    // A repeated removal says the same.
    leader.raft.remove_node(dead, soon()).await.unwrap();
    add_and_promote(&mut cluster, 4).await;
    let leader = cluster.leader().await.site.id;
    cluster.kill(leader);
    token(&cluster.propose(&acquire("after", "a")).await);
}

#[tokio::test]
async fn node_ids_are_never_used_again() {
    let mut cluster = Cluster::of(3).await;
    add_and_promote(&mut cluster, 4).await;
    let leader = cluster.leader().await;
    let gone = cluster.followers(leader.site.id)[0];
    leader.raft.remove_node(gone, soon()).await.unwrap();
    cluster.kill(gone);
    let leader = cluster.leader().await;
    for id in [gone, leader.site.id] {
        let site = Site::joining(id);
        let _blank = site.start().await;
        let why = refusal(leader.raft.add_node(id, &site.address, soon()).await);
        assert!(
            why.contains("used before") || why.contains("member already"),
            "{why}"
        );
    }
}

#[tokio::test]
async fn a_node_that_cannot_be_added_is_told_why() {
    let cluster = Cluster::of(3).await;
    let leader = cluster.leader().await;
    let nobody = refusal(leader.raft.add_node(4, "127.0.0.1:1", soon()).await);
    assert!(nobody.contains("nobody answers at 127.0.0.1:1"), "{nobody}");
    let zero = refusal(leader.raft.add_node(0, "127.0.0.1:1", soon()).await);
    assert!(zero.contains("begin with 1"), "{zero}");
    let other_id = Site::joining(5);
    let _running = other_id.start().await;
    let why = refusal(leader.raft.add_node(4, &other_id.address, soon()).await);
    assert!(why.contains("has the id 5, not 4"), "{why}");
    let mut elsewhere = Site::joining(6);
    elsewhere.issuer = "elsewhere".into();
    let _running = elsewhere.start().await;
    let why = refusal(leader.raft.add_node(6, &elsewhere.address, soon()).await);
    assert!(why.contains("`elsewhere`"), "{why}");
    let follower = &cluster.nodes[&cluster.followers(leader.site.id)[0]];
    match follower.raft.add_node(4, "127.0.0.1:1", soon()).await {
        Err(ChangeError::NotLeader { hint: Some(hint) }) => {
            assert_eq!(hint.node_id, leader.site.id)
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_learner_is_not_promoted_before_it_has_caught_up() {
    let cluster = Cluster::of(3).await;
    let leader = cluster.leader().await;
    let site = Site::joining(4);
    let learner = site.start().await;
    leader
        .raft
        .add_node(4, &site.address, soon())
        .await
        .unwrap();
    eventually("it is a learner", || {
        learner.status().leadership.role == Role::Learner
    })
    .await;
    // Its disk hangs from here on, so it acknowledges nothing more.
    site.disk.hold();
    let leader = &cluster.nodes[&leader.site.id];
    for n in 0..1_500 {
        leader
            .propose(&acquire(&format!("r{n}"), "a"))
            .await
            .unwrap();
    }
    let why = refusal(leader.raft.promote(4, soon()).await);
    assert!(why.contains("lacks"), "{why}");
    assert_eq!(
        leader.raft.promote(5, soon()).await,
        Err(ChangeError::NoSuchNode(5))
    );
    site.disk.release();
    promote_when_caught_up(leader, 4).await;
    leader
        .raft
        .promote(4, soon())
        .await
        .expect("a voter stays one");
}

#[tokio::test]
async fn what_would_lose_the_quorum_is_refused() {
    let mut cluster = Cluster::of(3).await;
    let leader = cluster.leader().await.site.id;
    let [dead, alive] = cluster.followers(leader)[..] else {
        panic!("three nodes")
    };
    let site = Site::joining(4);
    let learner = site.start().await;
    cluster.nodes[&leader]
        .raft
        .add_node(4, &site.address, soon())
        .await
        .unwrap();
    eventually("it is a learner", || {
        learner.status().leadership.role == Role::Learner
    })
    .await;
    cluster.kill(dead);
    let leader = &cluster.nodes[&leader];
    // Two of three are left: taking away one of them leaves one of two.
    misses(leader, dead).await;
    let why = refusal(leader.raft.remove_node(alive, soon()).await);
    assert!(why.contains("lose its quorum"), "{why}");
    assert!(why.contains(&format!("[{}]", leader.site.id)), "{why}");
    // A learner that died is no voter to be.
    drop(learner.kill());
    misses(leader, 4).await;
    let why = refusal(leader.raft.promote(4, soon()).await);
    assert!(why.contains("does not answer"), "{why}");
    // The dead ones may go.
    leader.raft.remove_node(4, soon()).await.unwrap();
    leader.raft.remove_node(dead, soon()).await.unwrap();
    token(&leader.propose(&acquire("after", "a")).await.unwrap());
    let unknown = leader.raft.remove_node(77, soon()).await;
    assert_eq!(unknown, Err(ChangeError::NoSuchNode(77)));
}

/// Raft needs a quorum of the voters before a change, too: the leader says so at once, and proposes
/// nothing that could never be decided.
#[tokio::test]
async fn a_change_that_nobody_could_decide_is_refused_at_once() {
    let mut cluster = Cluster::of(3).await;
    let leader = cluster.leader().await.site.id;
    let [gone, dead] = cluster.followers(leader)[..] else {
        panic!("three nodes")
    };
    let removed = cluster.nodes[&leader].raft.remove_node(gone, soon()).await;
    removed.unwrap();
    cluster.kill(gone);
    cluster.kill(dead);
    let leader = &cluster.nodes[&leader];
    misses(leader, dead).await;
    let why = refusal(leader.raft.remove_node(dead, soon()).await);
    assert!(why.contains("lose its quorum"), "{why}");
}

#[tokio::test]
async fn the_last_voter_stays() {
    let cluster = Cluster::of(1).await;
    let leader = cluster.leader().await;
    let why = refusal(leader.raft.remove_node(1, soon()).await);
    assert!(why.contains("last voter"), "{why}");
}

#[tokio::test]
async fn a_leader_can_be_removed() {
    let mut cluster = Cluster::of(3).await;
    let leader = cluster.leader().await.site.id;
    let before = token(&cluster.propose(&acquire("before", "a")).await);
    cluster.nodes[&leader]
        .raft
        .remove_node(leader, soon())
        .await
        .unwrap();
    let old = cluster.nodes.remove(&leader).unwrap();
    let new = cluster.leader().await;
    let after = token(&new.propose(&acquire("after", "a")).await.unwrap());
    assert!(after > before);
    assert_eq!(new.status().members.len(), 2);
    assert!(old.fatal().await.message.contains("removed"));
}

#[tokio::test]
async fn leadership_goes_only_to_those_who_can_take_it() {
    let mut cluster = Cluster::of(3).await;
    let leader = cluster.leader().await.site.id;
    let [dead, _] = cluster.followers(leader)[..] else {
        panic!("three nodes")
    };
    let unknown = cluster.nodes[&leader]
        .raft
        .transfer_leader(Some(9), soon())
        .await;
    assert_eq!(unknown, Err(ChangeError::NoSuchNode(9)));
    cluster.kill(dead);
    let leader = &cluster.nodes[&leader];
    misses(leader, dead).await;
    let why = refusal(leader.raft.transfer_leader(Some(dead), soon()).await);
    assert!(why.contains("does not answer"), "{why}");
    // The other one can.
    leader.raft.transfer_leader(None, soon()).await.unwrap();
}
