//! Calls that could not be carried out: the code tells what may have happened.

use crate::fake::{Act, Fake, nowhere};
use crate::{binary, fencepost, finish};
use fencepost::wire::failure::{Failure, Reason};

#[tokio::test]
async fn unreachable_nodes_end_with_code_4_and_advice() {
    let nobody = nowhere().await;
    for args in [
        &["acquire", "jobs"][..],
        &["release", "jobs", "7"],
        &["status"],
        &["bench"],
    ] {
        let run = finish(
            binary()
                .args(args)
                .args(["--timeout", "300ms", "--endpoints", &nobody]),
        )
        .await;
        assert_eq!(run.code, Some(4), "{args:?}: {}", run.stderr);
        assert!(run.stdout.is_empty(), "{args:?}: {}", run.stdout);
        for part in [
            &nobody,
            "nothing happened",
            "safe to try again",
            "fencepost dev",
        ] {
            assert!(
                run.stderr.contains(part),
                "{args:?} should say {part:?}: {}",
                run.stderr
            );
        }
    }
}

#[tokio::test]
async fn a_failure_is_one_json_object_for_scripts() {
    let nobody = nowhere().await;
    let run = fencepost(&[
        "acquire",
        "jobs",
        "-o",
        "json",
        "--timeout",
        "300ms",
        "--endpoints",
        &nobody,
    ])
    .await;
    assert_eq!(run.code, Some(4));
    let json = run.json();
    assert_eq!(json["outcome"], "failed");
    assert_eq!(json["kind"], "unavailable");
    assert_eq!(json["may_retry"], true);
    assert_eq!(json["can_have_had_effect"], false);
    assert!(json["message"].as_str().unwrap().contains(&nobody));
}

#[tokio::test]
async fn nodes_of_two_clusters_are_a_usage_error_that_names_both() {
    let (first, second) = (
        Fake::start(|_, _| Act::Answer).await,
        Fake::start(|_, _| Act::Answer).await,
    );
    second.become_(|node| node.cluster = 2);
    let endpoints = format!("{},{}", first.address, second.address);
    let run = fencepost(&["acquire", "jobs", "--endpoints", &endpoints]).await;
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    for part in [&first.address, &second.address, "different clusters"] {
        assert!(run.stderr.contains(part), "{}", run.stderr);
    }
}

#[tokio::test]
async fn what_the_clusters_state_forbids_is_a_refusal() {
    let node = Fake::start(|call, _| match call {
        "remove_node" => Act::Fail(Failure::new(
            Reason::Refused,
            "the rest could not decide; add a node first",
        )),
        "promote" => Act::Fail(Failure::new(Reason::NoSuchNode, "node 9 is not a member")),
        _ => Act::Answer,
    })
    .await;
    let run = fencepost(&["cluster", "remove-node", "2", "--endpoints", &node.address]).await;
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(run.stderr.contains("add a node first"), "{}", run.stderr);

    let run = fencepost(&["cluster", "promote", "9", "--endpoints", &node.address]).await;
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    assert!(
        run.stderr.contains("fencepost cluster status"),
        "{}",
        run.stderr
    );
}

#[tokio::test]
async fn advice_that_the_node_gave_is_not_given_twice() {
    let node = Fake::start(|call, _| match call {
        "transfer_leader" => Act::Fail(Failure::new(
            Reason::UnknownOutcome,
            "it may have been made; `fencepost cluster status` shows it",
        )),
        "remove_node" => Act::Fail(Failure::new(
            Reason::NoSuchNode,
            "there is no node 9: `fencepost cluster status` lists its members",
        )),
        _ => Act::Answer,
    })
    .await;
    for (args, code) in [
        (&["cluster", "transfer-leader"][..], 5),
        (&["cluster", "remove-node", "9"], 3),
    ] {
        let run = finish(binary().args(args).args(["--endpoints", &node.address])).await;
        assert_eq!(run.code, Some(code), "{}", run.stderr);
        let advice = run.stderr.matches("fencepost cluster status").count();
        assert_eq!(advice, 1, "{}", run.stderr);
    }
}

#[tokio::test]
async fn a_field_that_the_node_finds_invalid_is_a_usage_error() {
    let node = Fake::start(|call, _| match call {
        "raise_floor" => Act::Fail(Failure::invalid("above", "at most 1700000000000000")),
        _ => Act::Answer,
    })
    .await;
    let run = fencepost(&[
        "raise-floor",
        "99999999999999999",
        "--endpoints",
        &node.address,
    ])
    .await;
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    assert!(
        run.stderr
            .contains("above is not valid: at most 1700000000000000"),
        "{}",
        run.stderr
    );
}

#[tokio::test]
async fn a_port_that_is_not_for_clients_is_named_at_once() {
    use tonic::Status;
    let other = Fake::start(|_, _| Act::Foreign(Status::unimplemented(""))).await;
    let run = fencepost(&["acquire", "jobs", "--endpoints", &other.address]).await;
    assert_eq!(run.code, Some(2), "{}", run.stderr);
    for part in [&other.address, "not a client port", "7100"] {
        assert!(run.stderr.contains(part), "{}", run.stderr);
    }
    assert_eq!((other.count("status"), other.count("acquire")), (1, 0));
}

#[tokio::test]
async fn an_endpoint_that_is_no_client_port_does_not_spoil_the_others() {
    use tonic::Status;
    let other = Fake::start(|_, _| Act::Foreign(Status::unimplemented(""))).await;
    let node = Fake::start(|_, _| Act::Answer).await;
    let endpoints = format!("{},{}", other.address, node.address);
    let run = fencepost(&["acquire", "jobs", "--endpoints", &endpoints]).await;
    assert_eq!(run.code, Some(0), "{}", run.stderr);
}

#[tokio::test]
async fn a_status_says_at_once_that_there_is_no_cluster_yet() {
    let node = Fake::start(|_, _| Act::Answer).await;
    node.become_(|node| node.cluster = 0);
    let run = fencepost(&["status", "--endpoints", &node.address]).await;
    assert_eq!(run.code, Some(4), "{}", run.stderr);
    assert!(
        run.stderr.contains("part of no cluster yet"),
        "{}",
        run.stderr
    );
    assert_eq!(node.count("status"), 1);
}

#[tokio::test]
async fn a_cluster_without_a_quorum_does_not_look_healthy() {
    let node = Fake::start(|_, _| Act::Answer).await;
    node.become_(|node| node.in_touch = false);
    for args in [&["status"][..], &["cluster", "status"]] {
        let run = finish(binary().args(args).args(["--endpoints", &node.address])).await;
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        assert!(run.stdout.contains("NO QUORUM"), "{}", run.stdout);
    }
    let json = fencepost(&["status", "-o", "json", "--endpoints", &node.address]).await;
    assert_eq!(json.json()["in_touch"], false);
}
