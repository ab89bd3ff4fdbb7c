//! A cluster forms from its founding list, whatever the order, and never twice.

use std::{collections::BTreeMap, time::Duration};

use fencepost::server::raft::{Bootstrap, FatalKind, FoundingList, FoundingListError, Role};

use crate::harness::{Cluster, Node, Site, acquire, addresses, eventually, sites, stays, token};

#[tokio::test]
async fn three_nodes_form_and_grant_a_rising_token() {
    let cluster = Cluster::of(3).await;
    let first = token(&cluster.propose(&acquire("a", "one")).await);
    let second = token(&cluster.propose(&acquire("b", "two")).await);
    assert!(second > first);
    cluster.converge().await;
    let ids: Vec<_> = cluster
        .nodes
        .values()
        .map(|node| node.status().cluster)
        .collect();
    assert!(ids[0].is_some());
    assert!(
        ids.iter().all(|id| *id == ids[0]),
        "one cluster id: {ids:?}"
    );
    let members = cluster.nodes[&1].status().members;
    assert_eq!(members.len(), 3);
    for member in members {
        assert!(member.voter);
        assert_eq!(
            member.record.client_address,
            format!("client-of-{}", member.node_id)
        );
    }
}

#[tokio::test]
async fn one_node_forms_by_itself() {
    let cluster = Cluster::of(1).await;
    token(&cluster.propose(&acquire("a", "one")).await);
}

#[tokio::test]
async fn five_nodes_form_in_any_order() {
    let mut cluster = Cluster {
        nodes: BTreeMap::new(),
    };
    for site in sites(5).into_iter().rev() {
        cluster.restart(&site).await;
    }
    cluster.leader().await;
    cluster.propose(&acquire("a", "one")).await;
    cluster.converge().await;
}

#[tokio::test]
async fn nobody_founds_until_all_of_the_list_are_there() {
    let mut cluster = Cluster {
        nodes: BTreeMap::new(),
    };
    let sites = sites(3);
    cluster.restart(&sites[0]).await;
    cluster.restart(&sites[1]).await;
    // Two of three are a quorum, and still not enough to found.
    let forming = |node: &Node| {
        node.status().cluster.is_none() && node.status().leadership.role == Role::Forming
    };
    let all_forming = || cluster.nodes.values().all(forming);
    stays("nobody founds", Duration::from_secs(1), all_forming).await;
    cluster.restart(&sites[2]).await;
    cluster.leader().await;
}

#[tokio::test]
async fn a_node_that_crashes_while_forming_starts_over() {
    let mut cluster = Cluster {
        nodes: BTreeMap::new(),
    };
    let sites = sites(3);
    cluster.restart(&sites[0]).await;
    cluster.restart(&sites[1]).await;
    let founder = cluster.kill(1);
    cluster.restart(&sites[2]).await;
    let second = cluster.kill(2);
    cluster.restart(&founder).await;
    cluster.restart(&second).await;
    cluster.leader().await;
    cluster.propose(&acquire("a", "one")).await;
}

#[tokio::test]
async fn a_founder_that_crashed_after_it_founded_does_the_same_again() {
    let mut cluster = Cluster {
        nodes: BTreeMap::new(),
    };
    let sites = sites(3);
    for site in &sites {
        cluster.restart(site).await;
    }
    // From here on the founder's choice is durable; whatever else it did may not be.
    eventually("the founder founds", || {
        cluster.nodes[&1].status().cluster.is_some()
    })
    .await;
    let founded = cluster.nodes[&1].status().cluster;
    let founder = cluster.kill(1);
    cluster.restart(&founder).await;
    cluster.leader().await;
    for node in cluster.nodes.values() {
        assert_eq!(node.status().cluster, founded, "there is no second cluster");
    }
    cluster.propose(&acquire("a", "one")).await;
}

#[tokio::test]
async fn differing_lists_are_refused_with_both_lists() {
    let list = addresses(3);
    let mut other = list.clone();
    other.insert(3, "127.0.0.1:9".into());
    let first = Site::founding(1, &list).start().await;
    let second = Site::founding(2, &other).start().await;
    for node in [&first, &second] {
        let fatal = node.fatal().await;
        assert_eq!(fatal.kind, FatalKind::Identity);
        for list in [&list, &other] {
            let text = FoundingList::new(list.clone()).unwrap().to_string();
            assert!(
                fatal.message.contains(&text),
                "{text} is in: {}",
                fatal.message
            );
        }
    }
}

#[tokio::test]
async fn differing_issuers_are_refused_with_both_names() {
    let mut sites = sites(3);
    sites[1].issuer = "another".into();
    let first = sites[0].start().await;
    let _second = sites[1].start().await;
    let fatal = first.fatal().await;
    assert!(
        fatal.message.contains("`another`") && fatal.message.contains("`test`"),
        "{fatal}"
    );
}

#[tokio::test]
async fn a_founder_does_not_wait_for_one_that_joins() {
    let list = addresses(3);
    let first = Site::founding(1, &list).start().await;
    let mut second = Site::founding(2, &list);
    second.bootstrap = Bootstrap::Join;
    let _second = second.start().await;
    let fatal = first.fatal().await;
    assert!(fatal.message.contains("--join"), "{fatal}");
}

#[test]
fn two_and_four_nodes_are_refused_with_the_reason() {
    let list = |count| FoundingList::new((1..=count).map(|id| (id, "h:1".into())).collect());
    for count in [1, 3, 5] {
        assert!(list(count).is_ok());
    }
    assert_eq!(list(0), Err(FoundingListError::Empty));
    assert_eq!(list(2), Err(FoundingListError::Two));
    assert_eq!(list(4), Err(FoundingListError::Four));
    assert_eq!(list(7), Err(FoundingListError::TooMany { count: 7 }));
    assert_eq!(
        FoundingList::new(BTreeMap::from([(0, "h:1".into())])),
        Err(FoundingListError::NodeZero)
    );
}
