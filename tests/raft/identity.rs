//! A node that is not who it should be gets no vote and no log, and says what to do.

use std::time::{Duration, Instant};

use fencepost::server::raft::{Bootstrap, FatalKind};

use crate::harness::{Cluster, Site, acquire, blank_disk, eventually, token};

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

#[tokio::test]
async fn a_wiped_node_cannot_come_back_under_its_old_id() {
    for bootstrap in [None, Some(Bootstrap::Join)] {
        let mut cluster = Cluster::of(3).await;
        token(&cluster.propose(&acquire("a", "a")).await);
        let mut site = cluster.kill(3);
        site.disk = blank_disk(3);
        site.bootstrap = bootstrap.unwrap_or(site.bootstrap);
        let wiped = site.start().await;
        let fatal = wiped.fatal().await;
        assert_eq!(fatal.kind, FatalKind::Identity);
        for word in ["remove-node 3", "--join", "add-node", "promote"] {
            assert!(
                fatal.message.contains(word),
                "`{word}` is in: {}",
                fatal.message
            );
        }
        assert_eq!(wiped.status().last_log_index, None, "it got no log");
        assert_eq!(wiped.status().cluster, None);
        // The others do not mind.
        token(&cluster.propose(&acquire("b", "a")).await);
    }
}

#[tokio::test]
async fn wiping_a_quorum_makes_no_second_cluster() {
    let mut cluster = Cluster::of(3).await;
    token(&cluster.propose(&acquire("a", "a")).await);
    let cluster_id = cluster.nodes[&3].status().cluster;
    let mut wiped = Vec::new();
    for id in [1, 2] {
        let mut site = cluster.kill(id);
        site.disk = blank_disk(id);
        wiped.push(site.start().await);
    }
    for node in &wiped {
        assert_eq!(node.fatal().await.kind, FatalKind::Identity);
        assert_eq!(node.status().cluster, None);
    }
    assert_eq!(cluster.nodes[&3].status().cluster, cluster_id);
}

#[tokio::test]
async fn a_directory_of_another_cluster_is_refused_with_both_ids() {
    let mut other = Cluster::of(1).await;
    let other_id = other.nodes[&1].status().cluster.unwrap();
    let stray = other.kill(1);
    let mut cluster = Cluster::of(3).await;
    let leader = cluster.leader().await.site.id;
    let id = cluster.nodes[&leader].status().cluster.unwrap();
    // A directory of the other cluster, started with the configuration of this one's node 1.
    let own = cluster.kill(1);
    let mixed = Site {
        disk: stray.disk,
        ..own
    };
    let started = mixed.start().await;
    let fatal = started.fatal().await;
    assert_eq!(fatal.kind, FatalKind::Identity);
    for id in [other_id, id] {
        assert!(
            fatal.message.contains(&id.to_string()),
            "{id} is in: {}",
            fatal.message
        );
    }
    token(&cluster.propose(&acquire("a", "a")).await);
}

#[tokio::test]
async fn a_node_of_another_cluster_gets_nothing_from_peers() {
    let cluster = Cluster::of(3).await;
    let foreign = Cluster::of(1).await;
    let leader = cluster.leader().await;
    let stranger = &foreign.nodes[&1].site;
    let refused = leader
        .raft
        .add_node(4, &stranger.address, soon())
        .await
        .unwrap_err();
    assert!(
        refused.to_string().contains("has the id 1, not 4"),
        "{refused}"
    );
    let refused = leader
        .raft
        .add_node(9, &stranger.address, soon())
        .await
        .unwrap_err();
    assert!(refused.to_string().contains("not 9"), "{refused}");
}

#[tokio::test]
async fn a_removed_node_learns_it_and_ends() {
    let mut cluster = Cluster::of(3).await;
    let leader = cluster.leader().await.site.id;
    let removed = cluster.followers(leader)[0];
    cluster.nodes[&leader]
        .raft
        .remove_node(removed, soon())
        .await
        .unwrap();
    // It may never hear of its removal, but when it asks for votes it is told.
    let fatal = cluster.nodes[&removed].fatal().await;
    assert_eq!(fatal.kind, FatalKind::Identity);
    assert!(fatal.message.contains("removed"), "{fatal}");
    // And again when it is started anew.
    let site = cluster.kill(removed);
    let again = site.start().await;
    assert!(again.fatal().await.message.contains("removed"));
    token(&cluster.propose(&acquire("a", "a")).await);
}

#[tokio::test]
async fn the_persisted_membership_wins_over_the_configuration() {
    let mut cluster = Cluster::of(3).await;
    token(&cluster.propose(&acquire("a", "a")).await);
    let mut site = cluster.kill(2);
    // A list that names itself alone would make a cluster of one, if it were believed.
    let alone = std::collections::BTreeMap::from([(2, site.address.clone())]);
    let list = fencepost::server::raft::FoundingList::new(alone).unwrap();
    site.bootstrap = Bootstrap::Found(list);
    cluster.restart(&site).await;
    eventually("it follows the members it knew", || {
        cluster.nodes[&2]
            .status()
            .leadership
            .leader
            .is_some_and(|leader| leader.node_id != 2)
    })
    .await;
    assert_eq!(cluster.nodes[&2].status().members.len(), 3);
    cluster.converge().await;
}
