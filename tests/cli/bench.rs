//! `fencepost bench`, in small: each scenario runs, and tells what it measured.

use crate::cluster::Cluster;
use crate::{Run, fencepost};
use serde_json::Value;

/// Runs a scenario for a moment, with the answer for scripts.
async fn bench(cluster: &Cluster, args: &[&str]) -> Run {
    let (endpoints, metrics) = (cluster.endpoints(), cluster.metrics());
    let place = [
        "--endpoints",
        &endpoints,
        "--metrics",
        &metrics,
        "-o",
        "json",
    ];
    fencepost(&[&["bench"], args, &place].concat()).await
}

/// As [`bench`], and expects it to go well.
async fn report(cluster: &Cluster, args: &[&str]) -> Value {
    let run = bench(cluster, args).await;
    assert_eq!(run.code, Some(0), "{args:?}: {}", run.stderr);
    run.json()
}

/// A distribution whose parts fit each other.
fn check_latency(latency: &Value) {
    let at = |name: &str| latency[name].as_u64().unwrap();
    assert!(at("count") > 0, "{latency}");
    assert!(
        at("p50") <= at("p99") && at("p99") <= at("max"),
        "{latency}"
    );
}

/// What was spent, by this program and by each node.
fn check_spent(spent: &Value) {
    assert!(spent["own_cpu_seconds"].as_f64().unwrap() > 0.0, "{spent}");
    for each in ["node_cpu_seconds", "node_resident_bytes"] {
        let nodes = spent[each].as_array().unwrap();
        assert_eq!(nodes.len(), 3, "{spent}");
        assert!(
            nodes.iter().any(|node| node.as_f64().unwrap() > 0.0),
            "{spent}"
        );
    }
}

#[tokio::test]
async fn the_load_of_single_calls_reports_what_it_measured() {
    let cluster = Cluster::start().await;
    let few = [
        "--concurrency",
        "4",
        "--connections",
        "2",
        "--resources",
        "6",
    ];
    let short = ["--duration", "500ms", "--warm-up", "100ms"];
    for operation in ["acquire-release", "acquire", "renew", "inspect"] {
        let report = report(&cluster, &[&[operation], &few[..], &short].concat()).await;
        assert_eq!(report["operation"], operation);
        assert!(report["operations"].as_u64().unwrap() > 0, "{report}");
        assert_eq!(
            (&report["failed"], &report["nodes"]),
            (&0.into(), &3.into()),
            "{report}"
        );
        let latencies = report["latency_us"].as_object().unwrap();
        latencies.values().for_each(check_latency);
        check_spent(&report["spent"]);
    }
    let unnamed = report(&cluster, &[&few[..], &short].concat()).await;
    assert_eq!(unnamed["operation"], "acquire-release");
}

#[tokio::test]
async fn hand_overs_are_counted_and_their_order_is_proved() {
    let cluster = Cluster::start().await;
    let args = "handover --clients 8 --streams 3 --duration 1s --warm-up 100ms";
    let report = report(&cluster, &args.split(' ').collect::<Vec<_>>()).await;
    let handovers = report["handovers"].as_u64().unwrap();
    assert!(handovers > 0, "{report}");
    let order = &report["order"];
    assert_eq!(
        (&order["exact"], &order["fault_count"]),
        (&true.into(), &0.into())
    );
    assert!(order["grants"].as_u64().unwrap() >= handovers, "{report}");
    assert_eq!(
        (&report["failed"], &report["refused"]),
        (&0.into(), &0.into()),
        "{report}"
    );
    check_latency(&report["latency_us"]["turn"]);
}

#[tokio::test]
async fn keep_alives_are_counted_by_the_lease() {
    let cluster = Cluster::start().await;
    let args =
        "keep-alive --streams 2 --in-flight 2 --per-message 50 --duration 500ms --warm-up 0s";
    let report = report(&cluster, &args.split(' ').collect::<Vec<_>>()).await;
    assert_eq!(
        (&report["leases"], &report["lost"]),
        (&200.into(), &0.into()),
        "{report}"
    );
    let (renewed, messages) = (&report["renewed"], &report["latency_us"]["count"]);
    assert_eq!(
        renewed.as_u64().unwrap(),
        50 * messages.as_u64().unwrap(),
        "fifty leases a message: {report}"
    );
    check_latency(&report["latency_us"]);
    let entries = report["spent"]["log_entries"]["renew"].as_u64().unwrap();
    assert!(entries > 0, "{report}");
}

#[tokio::test]
async fn leases_are_held_and_compared_with_a_load_beside_them() {
    let cluster = Cluster::start().await;
    let args =
        "hold --leases 100 --streams 4 --ttl 1s --duration 2500ms --beside 500ms --concurrency 2";
    let report = report(&cluster, &args.split(' ').collect::<Vec<_>>()).await;
    assert_eq!(report["lost"], 0, "{report}");
    assert!(
        report["held_ms"].as_u64().unwrap() >= 2_500,
        "longer than twice the TTL"
    );
    assert!(
        report["renewal_entries_per_second"].as_f64().unwrap() > 0.0,
        "{report}"
    );
    check_latency(&report["alone_us"]);
    check_latency(&report["beside_us"]);
    assert!(report["p99_ratio"].as_f64().unwrap() > 0.0, "{report}");
    check_spent(&report["spent"]);
}

#[tokio::test]
async fn leases_that_run_out_together_are_told_apart_and_none_is_early() {
    let cluster = Cluster::start().await;
    let args = "expire --leases 300 --streams 3 --ttl 1s --renewers 2 --acquirers 2";
    let report = report(&cluster, &args.split(' ').collect::<Vec<_>>()).await;
    let fates = ["expired", "early", "ended_otherwise", "missing"].map(|fate| &report[fate]);
    assert_eq!(fates, [300, 0, 0, 0], "{report}");
    assert_eq!(report["late_us"]["count"], 300, "{report}");
    check_latency(&report["late_us"]);
    // It is over so fast that not every load beside it has begun a call meanwhile.
    for beside in ["renew_us", "acquire_us"] {
        assert!(report[beside]["count"].is_u64(), "{report}");
    }
    let entries = report["spent"]["log_entries"]["expire"].as_u64().unwrap();
    assert!((1..300).contains(&entries), "many to an entry: {report}");
}

#[tokio::test]
async fn what_comes_and_goes_is_followed_by_the_memory_of_the_nodes() {
    let cluster = Cluster::start().await;
    let args = "churn --cycles 50 --watches 20 --waits 20 --rounds 2 --streams 2";
    let report = report(&cluster, &args.split(' ').collect::<Vec<_>>()).await;
    let rounds = report["rounds"].as_array().unwrap();
    let cycles: Vec<_> = rounds.iter().map(|round| &round["cycles"]).collect();
    assert_eq!(cycles, [0, 25, 50], "{report}");
    for round in rounds {
        let nodes = round["node_resident_bytes"].as_array().unwrap();
        assert!(
            nodes.iter().all(|node| node.as_u64().unwrap() > 1 << 20),
            "{report}"
        );
        assert_eq!(nodes.len(), 3, "{report}");
    }
    assert_eq!(report["live_leases"], 0, "{report}");
    let run = fencepost(&["bench", "churn", "--endpoints", &cluster.endpoints()]).await;
    assert_eq!(run.code, Some(2), "{}", run.stdout);
    assert!(run.stderr.contains("--metrics"), "{}", run.stderr);
}

#[tokio::test]
async fn a_load_that_cannot_be_measured_says_why() {
    let cluster = Cluster::start().await;
    let endpoints = cluster.endpoints();
    let lost = ["--endpoints", &endpoints, "--metrics", &endpoints];
    let run = fencepost(&[&["bench"], &lost[..]].concat()).await;
    assert_eq!(run.code, Some(4), "{}", run.stdout);
    assert!(run.stderr.contains("/metrics"), "{}", run.stderr);
    assert!(run.stderr.contains("--http-listen"), "{}", run.stderr);
    let run = bench(
        &cluster,
        &["keep-alive", "--streams", "1", "--prefix", " x"],
    )
    .await;
    assert_eq!(run.code, Some(2), "{}", run.stdout);
    assert!(
        run.stderr.contains("--prefix does not fit"),
        "{}",
        run.stderr
    );
}

#[tokio::test]
async fn each_scenario_explains_itself() {
    for scenario in [
        "acquire-release",
        "acquire",
        "renew",
        "inspect",
        "handover",
        "keep-alive",
        "hold",
        "expire",
        "churn",
    ] {
        let run = fencepost(&["bench", scenario, "--help"]).await;
        assert_eq!(run.code, Some(0), "{scenario}: {}", run.stderr);
        for part in ["--metrics", "Examples:\n  fencepost bench ", scenario] {
            assert!(
                run.stdout.contains(part),
                "{scenario} lacks {part:?}: {}",
                run.stdout
            );
        }
        let wide = run.stdout.lines().find(|line| line.chars().count() > 100);
        assert_eq!(wide, None, "{scenario}");
    }
}
