//! What an operator looks at: metrics, health, logs, and the configuration in force.

use std::time::Duration;

use crate::{
    nodes::{
        Cluster, pages,
        process::{FENCEPOST, bare},
    },
    waiting::{PATIENCE, eventually},
};

/// The page that says which metrics there are: a node's under "Metrics", then those of programs that
/// have a guard in them.
const MONITORING: &str = include_str!("../../docs/monitoring.md");
const GUARDS_OF_PROGRAMS: &str = "\n## Guards\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_metrics_page_has_what_the_documentation_names() {
    let cluster = Cluster::of_three().await;
    let output = cluster.command(&["acquire", "r", "--holder", "h"]).await;
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let (mut documented, mut served) = (Vec::new(), String::new());
    for node in cluster.founders() {
        let (code, page) = pages::get(cluster.place.http(node), "/metrics")
            .await
            .unwrap();
        assert_eq!(code, 200);
        served.push_str(&page);
    }
    let (of_nodes, _) = MONITORING.split_once(GUARDS_OF_PROGRAMS).unwrap();
    for line in of_nodes
        .lines()
        .filter_map(|line| line.strip_prefix("| `fencepost_"))
    {
        documented.push(format!("fencepost_{}", line.split('`').next().unwrap()));
    }
    assert!(documented.len() > 20, "the table was found: {documented:?}");
    let missing: Vec<_> = documented
        .iter()
        .filter(|name| !served.contains(&format!("# TYPE {} ", name.trim_end_matches("_total"))))
        .collect();
    assert!(missing.is_empty(), "documented and not served: {missing:?}");
    assert!(
        served.contains("\nfencepost_grants_total 1\n"),
        "the leader counts the grant: {served}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_without_a_leader_is_healthy_and_not_ready() {
    let mut cluster = Cluster::of_three().await;
    let leader = cluster.ready().await;
    for node in cluster.founders().filter(|node| *node != leader) {
        cluster.kill(node);
    }
    eventually("the node says that it is not ready", PATIENCE, async || {
        let page = pages::get(cluster.place.http(leader), "/readyz")
            .await
            .ok()?;
        (page.0 == 503 && !page.1.is_empty()).then_some(())
    })
    .await;
    let (code, _) = pages::get(cluster.place.http(leader), "/healthz")
        .await
        .unwrap();
    assert_eq!(code, 200);
    cluster.start_all();
    cluster.ready().await;
    eventually("the node is ready again", PATIENCE, async || {
        let page = pages::get(cluster.place.http(leader), "/readyz")
            .await
            .ok()?;
        (page.0 == 200).then_some(())
    })
    .await;
}

/// etcd#595, influxdata/influxdb#1896: one dead peer filled the logs of the others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_dead_peer_does_not_flood_the_logs() {
    let mut cluster = Cluster::of_three().await;
    let leader = cluster.ready().await;
    let dead = cluster.founders().find(|node| *node != leader).unwrap();
    cluster.caught_up().await;
    let alive: Vec<u64> = cluster.founders().filter(|node| *node != dead).collect();
    let before: Vec<usize> = alive
        .iter()
        .map(|node| cluster.logged(*node).len())
        .collect();
    cluster.kill(dead);
    // Twelve seconds of a dead peer are some two hundred heartbeats that it misses.
    tokio::time::sleep(Duration::from_secs(12)).await;
    for (node, before) in alive.iter().zip(before) {
        let log = cluster.logged(*node);
        let said: Vec<&str> = log[before..].lines().collect();
        assert!(
            said.len() <= 12,
            "node {node}, 60 lines a minute at the most: {said:#?}"
        );
        let told = said
            .iter()
            .filter(|line| line.contains("does not answer the leader"));
        let once = usize::from(*node == leader);
        assert_eq!(
            told.count(),
            once,
            "only the leader says it, once: {said:#?}"
        );
        assert!(
            said.iter().all(|line| !line.contains("ERROR")),
            "nobody must look: {said:#?}"
        );
    }
    cluster.start(dead);
    cluster.ready().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn check_prints_what_is_in_force_and_starts_nothing() {
    let cluster = Cluster::planned(3).await;
    let mut arguments = cluster.founding(1);
    arguments.push("--check".into());
    let mut command = bare(FENCEPOST);
    command.args(&arguments).env("FENCEPOST_HEARTBEAT", "45ms");
    let output = tokio::task::spawn_blocking(move || command.output().unwrap())
        .await
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        said.contains("45ms") && said.contains("FENCEPOST_HEARTBEAT"),
        "a value and its source: {said}"
    );
    assert!(
        said.contains(&cluster.place.client(1).to_string()),
        "{said}"
    );
    assert!(!cluster.place.data(1).exists(), "nothing was written");
}
