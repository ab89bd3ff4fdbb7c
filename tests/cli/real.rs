//! The commands against a cluster of real processes.

use crate::cluster::Cluster;
use crate::{fencepost, finish};

/// Runs `script` in a shell that knows the cluster and finds `fencepost`.
async fn shell(shell: &str, cluster: &Cluster, script: &str) -> crate::Run {
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_fencepost"));
    let path = format!(
        "{}:{}",
        binary.parent().unwrap().display(),
        std::env::var("PATH").unwrap()
    );
    let mut command = tokio::process::Command::new(shell);
    command
        .arg("-c")
        .arg(script)
        .env("PATH", path)
        .env("FENCEPOST_ENDPOINTS", cluster.endpoints());
    command.env_remove("FENCEPOST_HOLDER");
    finish(&mut command).await
}

#[tokio::test]
async fn the_commands_of_one_script_speak_for_one_holder_and_those_of_two_do_not() {
    let cluster = Cluster::start().await;
    for name in ["sh", "bash"] {
        let script = "token=$(fencepost acquire jobs --quiet) && fencepost renew jobs $token && \
                      fencepost release jobs \"$token\"; exit $?";
        let run = shell(name, &cluster, script).await;
        assert_eq!(run.code, Some(0), "{name}: {}", run.stderr);
        assert!(
            run.stdout.contains("Released jobs"),
            "{name}: {}",
            run.stdout
        );
    }
    let first = shell("sh", &cluster, "fencepost acquire jobs; exit $?").await;
    let second = shell("sh", &cluster, "fencepost acquire jobs; exit $?").await;
    assert_eq!(
        (first.code, second.code),
        (Some(0), Some(3)),
        "{}",
        second.stderr
    );
    assert!(
        second.stderr.contains("jobs is held by"),
        "{}",
        second.stderr
    );
}

#[tokio::test]
async fn a_grant_is_shown_revoked_and_gone() {
    let cluster = Cluster::start().await;
    let place = ["--endpoints", &cluster.endpoints(), "--output", "json"];
    let run = async |args: &[&str]| fencepost(&[args, &place[..]].concat()).await;
    let token = run(&["acquire", "jobs", "--holder", "me"]).await.json()["token"].clone();
    let token = token.as_str().unwrap();
    assert_eq!(
        run(&["inspect", "jobs"]).await.json()["grant"]["token"],
        token
    );
    assert_eq!(run(&["list"]).await.json()["grants"][0]["holder"], "me");
    let wrong = run(&["release", "jobs", token, "--holder", "you"]).await;
    assert_eq!(
        (wrong.code, &wrong.json()["outcome"]),
        (Some(3), &"unknown".into())
    );
    let endpoints = cluster.endpoints();
    let args = ["release", "jobs", token, "--holder", "you"];
    let advice = fencepost(&[&args[..], &["--endpoints", &endpoints]].concat()).await;
    assert!(
        advice.stderr.contains("belongs to me: add --holder me"),
        "{}",
        advice.stderr
    );
    assert_eq!(run(&["revoke", "jobs", token]).await.code, Some(0));
    let renewed = run(&["renew", "jobs", token, "--holder", "me"]).await;
    assert_eq!(renewed.code, Some(3));
    assert_eq!(renewed.json()["how"], "revoked");
    assert_eq!(run(&["inspect", "jobs"]).await.json()["free"], true);
    let floor = run(&["raise-floor", "1000000"]).await;
    assert_eq!(floor.code, Some(0), "{}", floor.stderr);
    let again = ["raise-floor", "1000000", "--endpoints", &endpoints];
    let again = fencepost(&again).await;
    assert!(
        again.stdout.starts_with("Nothing had to change"),
        "{}",
        again.stdout
    );
    let higher = run(&["acquire", "jobs", "--holder", "me"]).await.json()["token"].clone();
    assert!(higher.as_str().unwrap().parse::<u64>().unwrap() > 1_000_000);
}

#[tokio::test]
async fn an_acquire_gets_through_when_the_leader_dies_or_freezes() {
    let mut cluster = Cluster::start().await;
    let place = ["--endpoints", &cluster.endpoints(), "--timeout", "60s"];
    let run = async |resource: &str| {
        let args = ["acquire", resource, "--quiet", "--holder", "me"];
        let run = fencepost(&[&args, &place[..]].concat()).await;
        assert_eq!(run.code, Some(0), "{resource}: {}", run.stderr);
        run.stdout.trim().parse::<u64>().unwrap()
    };
    let before = run("before").await;
    let leader = cluster.leader().await;
    cluster.kill(leader).await;
    let after = run("after").await;
    assert!(after > before, "{after} > {before}");
    // Of three nodes one is gone: with the leader frozen too nobody can decide, so freeze a cluster of its own.
    let cluster = Cluster::start().await;
    let leader = cluster.leader().await;
    cluster.freeze(leader).await;
    let place = ["--endpoints", &cluster.endpoints(), "--timeout", "60s"];
    let args = ["acquire", "frozen", "--holder", "me"];
    let run = fencepost(&[&args, &place[..]].concat()).await;
    assert_eq!(run.code, Some(0), "{}", run.stderr);
}

#[tokio::test]
async fn the_membership_changes_one_node_at_a_time() {
    let mut cluster = Cluster::start().await;
    let peer = cluster.join();
    let place = ["--endpoints", &cluster.endpoints()];
    let run = async |args: &[&str]| {
        let run = fencepost(&[args, &place[..]].concat()).await;
        assert_eq!(run.code, Some(0), "{args:?}: {}", run.stderr);
        run
    };
    let added = run(&["cluster", "add-node", "4", &peer]).await;
    assert!(
        added.stderr.contains("node 4 has caught up"),
        "{}",
        added.stderr
    );
    run(&["cluster", "promote", "4"]).await;
    let removed = run(&["cluster", "remove-node", "1"]).await.stdout;
    assert!(
        removed.contains("3 voting nodes left: the cluster bears the loss of 1."),
        "{removed}"
    );
    let status = run(&["cluster", "status", "-o", "json"]).await.json();
    let nodes: Vec<_> = status["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| node["node_id"].as_u64())
        .collect();
    assert_eq!(nodes, [Some(2), Some(3), Some(4)]);
    let moved = run(&["cluster", "transfer-leader", "4", "-o", "json"])
        .await
        .json();
    assert_eq!(moved["node_id"], 4);

    let refused = fencepost(&[&["cluster", "add-node", "1", &peer], &place[..]].concat()).await;
    assert_eq!(
        refused.code,
        Some(3),
        "an id is never used again: {}",
        refused.stderr
    );
}
