//! Leaders come and go; terms and tokens only rise.

use std::time::{Duration, Instant};

use fencepost::server::raft::{ProposeError, ReadError, Role};

use crate::{
    cut::Cable,
    harness::{Cluster, Node, Site, acquire, addresses, eventually, sites, stays, token},
};

#[tokio::test]
async fn a_killed_leader_is_followed_by_one_with_higher_tokens() {
    let mut cluster = Cluster::of(3).await;
    let mut last = token(&cluster.propose(&acquire("before", "a")).await);
    for round in 0..4 {
        let leader = cluster.leader().await.site.id;
        let killed = Instant::now();
        let site = cluster.kill(leader);
        let next = token(
            &cluster
                .propose(&acquire(&format!("after-{round}"), "a"))
                .await,
        );
        println!("grant again after {:?}", killed.elapsed());
        assert!(next > last, "{next:?} after {last:?}");
        assert!(next.term() > last.term());
        last = next;
        cluster.restart(&site).await;
    }
    cluster.converge().await;
}

#[tokio::test]
async fn all_nodes_may_be_killed_at_once() {
    let mut cluster = Cluster::of(3).await;
    let before = token(&cluster.propose(&acquire("before", "a")).await);
    let sites: Vec<Site> = [1, 2, 3].map(|id| cluster.kill(id)).into();
    for site in &sites {
        cluster.restart(site).await;
    }
    let after = token(&cluster.propose(&acquire("after", "a")).await);
    assert!(after > before);
    cluster.converge().await;
}

#[tokio::test]
async fn a_paused_leader_is_replaced_and_steps_down_when_it_wakes() {
    let cluster = Cluster::of(3).await;
    let before = token(&cluster.propose(&acquire("before", "a")).await);
    let old = cluster.leader().await;
    let term = old.status().leadership.term;
    old.pause(Duration::from_secs(2));
    let others: Vec<&Node> = cluster
        .nodes
        .values()
        .filter(|node| node.site.id != old.site.id)
        .collect();
    eventually("another node leads", || {
        others.iter().any(|node| node.leads())
    })
    .await;
    let new = others.iter().find(|node| node.leads()).unwrap();
    let after = token(&new.propose(&acquire("after", "a")).await.unwrap());
    assert!(after > before);
    eventually("the old leader knows", || {
        let now = old.status().leadership;
        now.term > term && now.role == Role::Follower
    })
    .await;
    cluster.converge().await;
}

#[tokio::test]
async fn a_leader_without_a_quorum_grants_nothing_and_reads_nothing() {
    let mut cluster = Cluster::of(3).await;
    let leader = cluster.leader().await.site.id;
    for id in cluster.followers(leader) {
        cluster.kill(id);
    }
    let alone = &cluster.nodes[&leader];
    let deadline = Instant::now() + Duration::from_secs(1);
    let refused = alone.raft.propose(&acquire("a", "a"), deadline).await;
    // Before its lease ran out the entry is in the log already, so the outcome is unknown.
    assert!(
        matches!(
            refused,
            Err(ProposeError::Unknown { .. } | ProposeError::NotLeader { .. })
        ),
        "{refused:?}"
    );
    let read = alone
        .raft
        .read_barrier(Instant::now() + Duration::from_secs(1))
        .await;
    assert!(
        matches!(read, Err(ReadError::NoQuorum | ReadError::NotLeader { .. })),
        "{read:?}"
    );
    // Later it knows better, and refuses for certain.
    eventually("it refuses without an effect", || {
        alone.status().proposals_in_flight <= 1
    })
    .await;
    let deadline = Instant::now() + Duration::from_secs(5);
    let refused = alone.raft.propose(&acquire("b", "a"), deadline).await;
    assert_eq!(refused, Err(ProposeError::NotLeader { hint: None }));
}

/// Three nodes of which the third can be cut off from what the others send to it.
async fn with_cable() -> (Cluster, Cable) {
    let mut list = addresses(3);
    let direct = list[&3].clone();
    let cable = Cable::before(direct.clone()).await;
    list.insert(3, cable.address.clone());
    let mut cluster = Cluster {
        nodes: std::collections::BTreeMap::new(),
    };
    for id in 1..=3 {
        let mut site = Site::founding(id, &list);
        if id == 3 {
            site.listen = Some(direct.clone());
        }
        cluster.restart(&site).await;
    }
    cluster.leader().await;
    (cluster, cable)
}

#[tokio::test]
async fn a_node_that_hears_nothing_deposes_nobody() {
    let (cluster, cable) = with_cable().await;
    if cluster.leader().await.site.id == 3 {
        cluster.nodes[&3]
            .raft
            .transfer_leader(Some(1), soon())
            .await
            .unwrap();
    }
    let leader = cluster.leader().await;
    let term = leader.status().leadership.term;
    cable.cut();
    // It asks for votes again and again; the others hear their leader and do not give them.
    stays(
        "the leader leads on in its term",
        Duration::from_secs(3),
        || {
            let now = leader.status().leadership;
            now.role == Role::Leader && now.term == term
        },
    )
    .await;
    let deaf = cluster.nodes[&3].status();
    assert_eq!(deaf.leadership.term, term, "the term did not rise");
    token(&leader.propose(&acquire("meanwhile", "a")).await.unwrap());
    cable.mend();
    cluster.converge().await;
    assert_eq!(
        leader.status().leadership.term,
        term,
        "nor when it came back"
    );
}

#[tokio::test]
async fn a_busy_but_healthy_leader_is_not_deposed() {
    let cluster = Cluster::of(3).await;
    let leader = cluster.leader().await;
    let term = leader.status().leadership.term;
    for n in 0..2_000 {
        let command = acquire(&format!("r{n}"), "a");
        token(&leader.propose(&command).await.unwrap());
    }
    assert_eq!(leader.status().leadership.term, term);
    cluster.converge().await;
}

#[tokio::test]
async fn leadership_is_handed_over_on_request() {
    let cluster = Cluster::of(3).await;
    let mut last = token(&cluster.propose(&acquire("before", "a")).await);
    for round in 0..6_u64 {
        let leader = cluster.leader().await;
        let others = cluster.followers(leader.site.id);
        // In turn by name, and to whom the leader picks.
        let to = round.is_multiple_of(2).then(|| others[0]);
        let handed = leader.raft.transfer_leader(to, soon()).await.unwrap();
        assert_ne!(handed.node_id, leader.site.id);
        assert!(to.is_none_or(|to| to == handed.node_id));
        let next = token(
            &cluster
                .propose(&acquire(&format!("after-{round}"), "a"))
                .await,
        );
        assert!(next > last);
        last = next;
    }
}

#[tokio::test]
async fn elections_are_counted_and_leadership_can_be_watched() {
    let mut cluster = Cluster {
        nodes: std::collections::BTreeMap::new(),
    };
    let site = sites(1).remove(0);
    cluster.restart(&site).await;
    let node = &cluster.nodes[&1];
    let mut watch = node.raft.leadership();
    let led = watch
        .wait_for(|now| now.role == Role::Leader)
        .await
        .unwrap()
        .clone();
    assert_eq!(led.leader.unwrap().client_address, "client-of-1");
    assert!(node.raft.elections() >= 1);
    assert!(led.term >= 1);
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}
