//! Answers: sentences for people, one object with documented names for scripts.

use crate::fake::{Act, Fake, grant};
use crate::{Run, fencepost};
use serde_json::json;

/// A node that holds two grants, one of them for "jobs" and "me".
async fn node() -> Fake {
    let node = Fake::start(|_, _| Act::Answer).await;
    node.become_(|node| {
        node.grants = vec![grant("jobs", "me", 65_547), grant("other", "you", 65_548)]
    });
    node
}

async fn ask(node: &Fake, args: &[&str]) -> Run {
    let run = fencepost(&[args, &["--endpoints", &node.address][..]].concat()).await;
    assert!(run.stderr.is_empty(), "{args:?}: {}", run.stderr);
    run
}

async fn ask_json(node: &Fake, args: &[&str]) -> serde_json::Value {
    let run = ask(node, &[args, &["--output", "json"][..]].concat()).await;
    run.json()
}

#[tokio::test]
async fn a_grant_is_told_with_what_to_do_next() {
    let node = node().await;
    let run = ask(&node, &["acquire", "it's mine", "--holder", "me"]).await;
    assert_eq!(run.code, Some(0));
    for part in [
        "Granted 'it'\\''s mine' to me.",
        "\n  token   12\n  issuer  test\n  lease   30s",
        "fencepost renew 'it'\\''s mine' 12 --holder me",
        "fencepost release 'it'\\''s mine' 12 --holder me",
    ] {
        assert!(run.stdout.contains(part), "{part:?}: {}", run.stdout);
    }
}

#[tokio::test]
async fn a_grant_for_scripts_has_its_token_as_a_string() {
    let node = node().await;
    let granted = ask_json(&node, &["acquire", "jobs", "--holder", "me", "--ttl", "5s"]).await;
    let expected = json!({
        "outcome": "granted", "resource": "jobs", "holder": "me", "token": "12", "term": 1, "index": 12,
        "lease_ms": 5_000, "after_wait": false, "replayed": false, "issuer": "test",
        "cluster_id": "00000000000000000000000000000001",
    });
    assert_eq!(granted, expected);
    let quiet = ask(&node, &["acquire", "jobs", "--quiet"]).await;
    assert!(
        quiet.stdout.trim().parse::<u64>().is_ok(),
        "the token alone: {}",
        quiet.stdout
    );
}

#[tokio::test]
async fn a_replayed_grant_is_renewed_at_once() {
    let node = Fake::acting("acquire", || Act::Replay).await;
    let granted = ask_json(&node, &["acquire", "jobs", "--ttl", "5s"]).await;
    assert_eq!(
        (&granted["replayed"], &granted["lease_ms"]),
        (&json!(true), &json!(30_000))
    );
    assert_eq!(node.count("renew"), 1);
}

#[tokio::test]
async fn a_refusal_names_the_holder_and_ends_with_code_3() {
    let node = Fake::acting("acquire", || Act::Held).await;
    let run = fencepost(&["acquire", "jobs", "--endpoints", &node.address]).await;
    assert_eq!((run.code, run.stdout.as_str()), (Some(3), ""));
    assert!(
        run.stderr.contains("jobs is held by other"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("about 5s"), "{}", run.stderr);

    let run = fencepost(&[
        "acquire",
        "jobs",
        "-o",
        "json",
        "--endpoints",
        &node.address,
    ])
    .await;
    assert_eq!((run.code, run.stderr.as_str()), (Some(3), ""));
    let expected = json!({
        "outcome": "held", "resource": "jobs", "held_by": "other", "token": "7", "remaining_ms": 5_000,
        "queue": 0, "replayed": false,
    });
    assert_eq!(run.json(), expected);
}

#[tokio::test]
async fn the_other_verbs_of_a_holder_answer_in_one_object() {
    let node = node().await;
    let renewed = ask_json(&node, &["renew", "jobs", "65547", "--holder", "me"]).await;
    let expected =
        json!({"outcome": "renewed", "resource": "jobs", "token": "65547", "lease_ms": 30_000});
    assert_eq!(renewed, expected);
    let released = ask_json(&node, &["release", "jobs", "65547", "--holder", "me"]).await;
    assert_eq!(
        released,
        json!({"outcome": "released", "resource": "jobs", "token": "65547"})
    );
    let revoked = ask_json(&node, &["revoke", "jobs", "65547", "--reason", "it hangs"]).await;
    assert_eq!(
        revoked,
        json!({"outcome": "revoked", "resource": "jobs", "token": "65547"})
    );
    let raised = ask_json(&node, &["raise-floor", "5"]).await;
    assert_eq!(
        raised,
        json!({"outcome": "raised", "above": "5", "floor": "1"})
    );
}

#[tokio::test]
async fn what_is_held_is_shown_and_listed() {
    let node = node().await;
    let inspected = ask_json(&node, &["inspect", "jobs"]).await;
    let grant = json!({
        "resource": "jobs", "holder": "me", "token": "65547", "term": 1, "index": 65_547, "ttl_ms": 30_000,
        "remaining_ms": 12_000, "renewals": 2, "granted_at_unix_ms": 1_700_000_000_000_u64,
        "expires_at_unix_ms": 1_700_000_030_000_u64,
    });
    assert_eq!(
        inspected,
        json!({"resource": "jobs", "free": false, "queue": 0, "grant": grant})
    );
    let free = ask_json(&node, &["inspect", "nothing"]).await;
    assert_eq!(
        free,
        json!({"resource": "nothing", "free": true, "queue": 0, "grant": null})
    );

    let listed = ask_json(&node, &["list"]).await;
    assert_eq!(listed["grants"].as_array().unwrap().len(), 2);
    assert_eq!(
        ask_json(&node, &["list", "job"]).await,
        json!({"grants": [grant]})
    );
    assert_eq!(
        ask_json(&node, &["list", "zebra"]).await,
        json!({"grants": []})
    );

    let table = ask(&node, &["list"]).await.stdout;
    assert!(table.starts_with("RESOURCE"), "{table}");
    assert!(table.contains("65547") && table.contains("you"), "{table}");
    let none = ask(&node, &["list", "zebra"]).await.stdout;
    assert_eq!(none, "Nothing that begins with zebra is held.\n");
}

#[tokio::test]
async fn the_state_of_the_cluster_is_one_object_too() {
    let node = node().await;
    let status = ask_json(&node, &["status"]).await;
    assert_eq!(status["issuer"], "test");
    assert_eq!(status["role"], "leader");
    assert_eq!(status["leader"]["address"], node.address);
    assert_eq!(
        (&status["floor"], &status["last_token"]),
        (&json!("0"), &json!(null))
    );
    let people = ask(&node, &["status"]).await.stdout;
    assert!(people.contains("led by node 1"), "{people}");
}
