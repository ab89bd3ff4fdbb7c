//! The cluster's own guard register through what happens to clusters: kill -9 of all nodes, restarts
//! from snapshots, failovers, and a new node that knows the marks from a snapshot alone.

use std::time::Duration;

use fencepost::wire::v1::{AdmitRequest, admit_response::Outcome};

use crate::{
    nodes::Cluster,
    waiting::{PATIENCE, eventually},
};

/// Runs a command that must succeed; gives what it printed.
async fn done(cluster: &Cluster, words: &[&str]) -> serde_json::Value {
    let output = cluster
        .command(&[words, &["--output", "json"]].concat())
        .await;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "{words:?}: {said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_str(&said).unwrap()
}

/// The token of a new grant.
async fn token(cluster: &Cluster) -> u64 {
    let words = ["acquire", "door", "--holder", "h", "--ttl", "1h"];
    let answer = done(cluster, &words).await;
    answer["token"].as_str().unwrap().parse().unwrap()
}

/// What a node says to a token, once it can.
async fn said(cluster: &Cluster, node: u64, resource: &str, token: u64) -> Outcome {
    let calls = cluster.calls(node).within(Duration::from_secs(5));
    eventually("the node answers", PATIENCE, async || {
        let presented = AdmitRequest {
            issuer: "fencepost".into(),
            resource: resource.into(),
            token,
            once: false,
        };
        calls.admit(presented).await.ok()?.outcome
    })
    .await
}

/// Enough entries that the log from before them is dropped behind a snapshot, by every node.
async fn past_a_snapshot(cluster: &Cluster) {
    let before = cluster.caught_up().await;
    eventually("every node dropped its log", 2 * PATIENCE, async || {
        token(cluster).await;
        for node in cluster.founders() {
            let status = cluster.status(node).await?;
            (status.purged_index > before).then_some(())?;
        }
        Some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn marks_survive_kills_of_all_nodes_snapshots_failovers_and_a_new_node() {
    let mut cluster = Cluster::planned(3).await;
    cluster.set("snapshot-entries", "100");
    cluster.start_all();
    let leader = cluster.ready().await;
    let (older, newer) = (token(&cluster).await, token(&cluster).await);
    let resources = ["door", "ventil/1", "日本"];
    for resource in resources {
        let first = said(&cluster, leader, resource, older).await;
        assert!(matches!(first, Outcome::Admitted(_)), "{first:?}");
        let second = said(&cluster, leader, resource, newer).await;
        assert!(matches!(second, Outcome::Admitted(_)), "{second:?}");
    }

    // In the log alone.
    cluster.kill_all();
    cluster.start_all();
    let leader = cluster.ready().await;
    refused_everywhere(&cluster, &resources, older, newer).await;
    // Under another leader.
    cluster.kill(leader);
    assert_ne!(cluster.leader().await, leader);
    cluster.start(leader);
    cluster.ready().await;
    refused_everywhere(&cluster, &resources, older, newer).await;
    // In snapshots alone, and loaded from them.
    past_a_snapshot(&cluster).await;
    refused_everywhere(&cluster, &resources, older, newer).await;
    cluster.kill_all();
    cluster.start_all();
    cluster.ready().await;
    refused_everywhere(&cluster, &resources, older, newer).await;

    // A node that was not there before has them from the leader's snapshot.
    let joining = cluster.joining(4);
    cluster.start_with(4, &joining);
    eventually("the new node can be reached", PATIENCE, async || {
        cluster.status(4).await
    })
    .await;
    let address = cluster.place.peer(4).to_string();
    done(&cluster, &["cluster", "add-node", "4", &address]).await;
    cluster.caught_up().await;
    let audit = std::fs::read_to_string(cluster.place.audit(4)).unwrap();
    let first = audit.lines().next().unwrap();
    assert!(
        !first.contains("\"index\":0,"),
        "it began with a snapshot: {first}"
    );
    for resource in resources {
        let stale = said(&cluster, 4, resource, older).await;
        assert!(
            matches!(&stale, Outcome::Stale(said) if said.required == newer),
            "{stale:?}"
        );
    }
    for resource in resources {
        let mark = done(&cluster, &["guard", "high-water", resource]).await;
        assert_eq!(mark["mark"], newer.to_string());
    }
}

/// The older token passes at no node, for no resource; the newer one still does.
async fn refused_everywhere(cluster: &Cluster, resources: &[&str], older: u64, newer: u64) {
    for node in cluster.founders() {
        for resource in resources {
            let stale = said(cluster, node, resource, older).await;
            assert!(
                matches!(&stale, Outcome::Stale(said) if said.required == newer),
                "node {node}, {resource}: {stale:?}"
            );
            let equal = said(cluster, node, resource, newer).await;
            assert!(
                matches!(equal, Outcome::Admitted(_)),
                "node {node}: {equal:?}"
            );
        }
    }
}
