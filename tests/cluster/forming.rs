//! Forming a cluster: no init step, no order, no race, and never two clusters from one list.

use std::collections::BTreeSet;

use fencepost::wire::v1::Role;

use crate::{
    nodes::{Cluster, pages},
    waiting::{PATIENCE, eventually},
};

const CONFIGURATION: i32 = 10;
const IDENTITY: i32 = 11;

/// Waits until a node serves its pages and says that it waits for its peers.
async fn waits_for_its_peers(cluster: &Cluster, node: u64) {
    eventually("the node says that it waits", PATIENCE, async || {
        let status = cluster.status(node).await?;
        (status.role() == Role::Forming).then_some(())
    })
    .await;
    let (code, reason) = pages::get(cluster.place.http(node), "/readyz")
        .await
        .unwrap();
    assert_eq!(
        code, 503,
        "a node that waits for its peers is not ready: {reason}"
    );
    assert!(
        reason.contains("waits for"),
        "and it says for whom and why: {reason}"
    );
    let (code, _) = pages::get(cluster.place.http(node), "/healthz")
        .await
        .unwrap();
    assert_eq!(code, 200, "but it is healthy");
}

/// All nodes name the same cluster and have the same voters, as many as were founded.
async fn is_one_cluster(cluster: &Cluster, size: usize) {
    cluster.ready().await;
    cluster.caught_up().await;
    let mut ids = BTreeSet::new();
    for node in cluster.founders() {
        let status = cluster.status(node).await.unwrap();
        ids.insert(status.header.unwrap().cluster_id);
        assert_eq!(
            status.members.iter().filter(|member| member.voter).count(),
            size
        );
    }
    assert_eq!(ids.len(), 1, "{ids:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_start_one_long_after_the_other_wait_and_form_one_cluster() {
    for order in [[3, 1, 2], [1, 2, 3], [2, 3, 1]] {
        let mut cluster = Cluster::planned(3).await;
        for node in order {
            cluster.start(node);
            if node != order[2] {
                waits_for_its_peers(&cluster, node).await;
            }
        }
        is_one_cluster(&cluster, 3).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_node_and_five_nodes_form_a_cluster() {
    for size in [1, 5] {
        let mut cluster = Cluster::planned(size).await;
        cluster.start_all();
        is_one_cluster(&cluster, usize::try_from(size).unwrap()).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_crashes_while_forming_forms_when_it_is_back() {
    let mut cluster = Cluster::planned(3).await;
    // The founder, and one that is not, are killed while they wait for the third.
    cluster.start(1);
    cluster.start(2);
    waits_for_its_peers(&cluster, 1).await;
    waits_for_its_peers(&cluster, 2).await;
    cluster.kill(1);
    cluster.kill(2);
    cluster.start_all();
    is_one_cluster(&cluster, 3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_founder_that_is_killed_at_any_moment_never_leaves_two_clusters() {
    // The founder is killed ever later in the course of forming, up to the first sign of a cluster.
    for round in 0..8_u32 {
        let mut cluster = Cluster::planned(3).await;
        cluster.start_all();
        let step = std::time::Duration::from_millis(12) * round * round;
        tokio::time::sleep(step).await;
        cluster.kill(1);
        cluster.start(1);
        is_one_cluster(&cluster, 3).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_with_differing_lists_form_nothing_and_say_why() {
    let mut cluster = Cluster::planned(3).await;
    // Node 3 takes an address that nobody has for node 2's.
    let mut differing = cluster.founding(3);
    let list = differing.last_mut().unwrap();
    *list = format!(
        "1={},2={},3={}",
        cluster.place.peer(1),
        cluster.place.peer(9),
        cluster.place.peer(3)
    );
    cluster.start(1);
    cluster.start(2);
    cluster.start_with(3, &differing);
    let (refused, code) = eventually("a node refuses the other list", PATIENCE, async || {
        cluster.any_exit()
    })
    .await;
    assert_eq!(code, IDENTITY, "{}", cluster.logged(refused));
    let said = cluster.logged(refused);
    for address in [cluster.place.peer(2), cluster.place.peer(9)] {
        assert!(
            said.contains(&address.to_string()),
            "the message shows both lists: {said}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_and_four_nodes_are_refused_with_the_reason() {
    for (size, reason) in [(2, "two"), (4, "four")] {
        let mut cluster = Cluster::planned(size).await;
        cluster.start(1);
        assert_eq!(cluster.exit(1).await, CONFIGURATION);
        let said = cluster.logged(1);
        assert!(said.to_lowercase().contains(reason), "{said}");
        assert!(
            said.contains("3 or 5"),
            "and says what would be right: {said}"
        );
        assert!(!cluster.place.data(1).exists(), "nothing was written");
    }
}
