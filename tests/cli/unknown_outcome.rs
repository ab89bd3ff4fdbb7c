//! When nobody knows whether an acquire took effect: the command that is printed resolves it.

use crate::fake::{Act, Fake};
use crate::{binary, fencepost, finish};
use fencepost::wire::failure::{Failure, Reason};

/// A node whose acquires have an unknown outcome until it is told otherwise.
async fn unsure() -> Fake {
    Fake::start(|call, _| match call {
        "acquire" => Act::Fail(Failure::new(Reason::UnknownOutcome, "the leader went away")),
        _ => Act::Answer,
    })
    .await
}

#[tokio::test]
async fn the_printed_command_asks_again_under_the_same_id() {
    let node = unsure().await;
    let place = ["--endpoints", &node.address, "--timeout", "300ms"];
    let run = fencepost(&[&["acquire", "the job", "--ttl", "5s"], &place[..]].concat()).await;
    assert_eq!(run.code, Some(5), "{}", run.stderr);
    let line = run
        .stderr
        .lines()
        .find(|line| line.trim_start().starts_with("fencepost acquire"));
    let command = line
        .unwrap()
        .trim()
        .replacen("fencepost", env!("CARGO_BIN_EXE_fencepost"), 1);
    let sends = node.acquires();

    node.become_(|node| node.script = Box::new(|_, _| Act::Replay));
    // Through a shell, as a person would paste it.
    let mut shell = tokio::process::Command::new("sh");
    shell
        .arg("-c")
        .arg(&command)
        .env("FENCEPOST_ENDPOINTS", &node.address);
    let again = finish(&mut shell).await;
    assert_eq!(again.code, Some(0), "{command}: {}", again.stderr);

    let last = node.acquires().pop().unwrap();
    let first = &sends[0];
    assert_eq!(
        (&last.request_id, &last.asked_at),
        (&first.request_id, &first.asked_at)
    );
    assert_eq!(
        (&last.resource, &last.holder, last.ttl_ms),
        (&first.resource, &first.holder, 5_000)
    );
    assert_eq!(usize::try_from(last.attempt).unwrap(), sends.len() + 1);
}

#[tokio::test]
async fn scripts_learn_that_it_may_have_had_an_effect() {
    let node = unsure().await;
    let args = [
        "acquire",
        "jobs",
        "-o",
        "json",
        "--timeout",
        "300ms",
        "--endpoints",
        &node.address,
    ];
    let run = finish(binary().args(args)).await;
    assert_eq!(run.code, Some(5));
    let json = run.json();
    assert_eq!(
        (&json["kind"], &json["can_have_had_effect"]),
        (&"unknown_outcome".into(), &true.into())
    );
    let next = json["next"].as_str().unwrap();
    assert!(
        next.starts_with("fencepost acquire jobs --holder ")
            && next.contains(" --ttl 30s --request-id "),
        "{json}"
    );
}
