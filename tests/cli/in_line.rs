//! Standing in line from the command line.

use crate::fake::{Act, Fake};
use crate::{binary, fencepost};
use fencepost::wire::v1::LeftHow;
use serde_json::json;
use std::process::Stdio;
use std::time::Duration;

async fn node(act: impl Fn(usize) -> Act + Send + Sync + 'static) -> Fake {
    Fake::start(move |call, before| match call {
        "acquire" => act(before),
        _ => Act::Answer,
    })
    .await
}

#[tokio::test]
async fn a_grant_out_of_the_line_is_claimed_at_once() {
    let node = node(|_| Act::Granted).await;
    let args = ["acquire", "jobs", "--wait", "5m", "-o", "json"];
    let run = fencepost(&[&args[..], &["--endpoints", &node.address]].concat()).await;
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let granted = run.json();
    assert_eq!(
        (&granted["after_wait"], &granted["lease_ms"]),
        (&json!(true), &json!(30_000))
    );
    assert_eq!(node.count("renew"), 1);
    assert_eq!(node.acquires()[0].wait_ms, 300_000);
}

#[tokio::test]
async fn whoever_waited_in_vain_is_told_why_with_code_3() {
    let cases = [
        (LeftHow::WaitedOut, "waited_out", "not granted within 1m"),
        (LeftHow::Withdrawn, "withdrawn", "was withdrawn"),
        (LeftHow::Superseded, "superseded", "anew"),
    ];
    for (how, word, words) in cases {
        let node = node(move |_| Act::Left(how)).await;
        let args = [
            "acquire",
            "jobs",
            "--wait",
            "1m",
            "--endpoints",
            &node.address,
        ];
        let run = fencepost(&args).await;
        assert_eq!((run.code, run.stdout.as_str()), (Some(3), ""));
        assert!(run.stderr.contains(words), "{}", run.stderr);
        let run = fencepost(&[&args[..], &["-o", "json"]].concat()).await;
        assert_eq!(run.code, Some(3));
        let expected = json!({"outcome": "left", "resource": "jobs", "how": word});
        assert_eq!(run.json(), expected);
    }
}

#[tokio::test]
async fn a_lost_place_is_asked_for_anew_for_the_rest_of_the_time() {
    let node = node(|before| match before {
        0 => Act::Left(LeftHow::Detached),
        _ => Act::Granted,
    })
    .await;
    let args = [
        "acquire",
        "jobs",
        "--wait",
        "1m",
        "--endpoints",
        &node.address,
    ];
    assert_eq!(fencepost(&args).await.code, Some(0));
    let sends = node.acquires();
    assert_ne!(sends[0].request_id, sends[1].request_id);
    assert!(sends[1].wait_ms <= 60_000 && sends[1].wait_ms > 1_000);
}

#[tokio::test]
async fn being_told_to_stop_leaves_the_line() {
    let node = node(|_| Act::InLine).await;
    let mut command = binary();
    command
        .args([
            "acquire",
            "jobs",
            "--wait",
            "1h",
            "--endpoints",
            &node.address,
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let pid = rustix::process::Pid::from_raw(child.id().unwrap().try_into().unwrap()).unwrap();
    let in_line = async {
        while node.count("acquire") == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), in_line)
        .await
        .unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(60), child.wait_with_output());
    let output = ended.await.unwrap().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(output.stdout.is_empty());
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.contains("left the line for jobs"), "{stderr}");
    assert_eq!(
        node.withdraws()[0].request_id,
        node.acquires()[0].request_id
    );
}

#[tokio::test]
async fn a_wait_outside_its_limits_is_refused_before_anything_is_asked() {
    for wait in ["0s", "25h", "-1s"] {
        let run = fencepost(&["acquire", "jobs", "--wait", wait]).await;
        assert_eq!(run.code, Some(2));
        assert!(run.stderr.contains("at most 24h"), "{wait}: {}", run.stderr);
    }
}
