//! `fencepost watch` and `fencepost wait`.

use crate::fake::watch::{Step, event, granted};
use crate::fake::{Act, Fake, grant};
use crate::{fencepost, running};
use fencepost::wire::failure::{Failure, Reason};
use fencepost::wire::v1::{WatchEventKind as Kind, watch_request::What};
use rustix::process::Signal;
use serde_json::{Value, json};

const CLUSTER: &str = "00000000000000000000000000000001";

/// A node that tells a little, and then ends the watch for good: so the command ends, too.
async fn node() -> Fake {
    Fake::start(|call, _| match call {
        "watch" => {
            let mut revoked = event(Kind::Revoked, 11);
            revoked.reason = "worker-7 hangs".to_owned();
            let mut queued = event(Kind::Queued, 0);
            (queued.position, queued.token) = (2, None);
            let lost = Failure::new(Reason::HistoryLost, "the history has moved on");
            Act::Watch(vec![
                Step::Tell(10, vec![]),
                granted(11),
                Step::Tell(12, vec![revoked, queued]),
                Step::Fail(lost.oldest(CLUSTER.to_owned(), 40)),
            ])
        }
        _ => Act::Answer,
    })
    .await
}

#[tokio::test]
async fn events_are_lines_and_a_lost_history_has_its_own_code() {
    let node = node().await;
    let run = fencepost(&["watch", "--endpoints", &node.address]).await;
    assert_eq!(run.code, Some(6), "{}", run.stderr);
    let lines: Vec<&str> = run.stdout.lines().collect();
    let expected = [
        "granted           jobs  me  token 11, lease 30s",
        "revoked           jobs  me  token 11, because: worker-7 hangs",
        "queued            jobs  me  place 2 in line",
    ];
    assert_eq!(lines.len(), expected.len(), "{}", run.stdout);
    for (line, expected) in lines.iter().zip(expected) {
        assert_eq!(*line, format!("2023-11-14T22:13:20.000Z  {expected}"));
    }
    for part in [
        "does not reach back",
        "fencepost list",
        &format!("{CLUSTER}:40"),
    ] {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
}

#[tokio::test]
async fn events_for_scripts_are_objects_with_their_cursor() {
    let node = node().await;
    let run = fencepost(&["watch", "--endpoints", &node.address, "--output", "json"]).await;
    assert_eq!(run.code, Some(6));
    let lines: Vec<Value> = run
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let at = |index| format!("{CLUSTER}:{index}");
    let about = json!({ "resource": "jobs", "holder": "me", "at_unix_ms": 1_700_000_000_000_u64 });
    let with = |own: Value| {
        let mut whole = about.clone();
        let own = own.as_object().unwrap().clone();
        whole.as_object_mut().unwrap().extend(own);
        whole
    };
    let expected = [
        json!({ "event": "progress", "cursor": at(10) }),
        with(json!({
            "event": "granted", "cursor": at(11), "token": "11", "lease_ms": 30_000, "after_wait": false,
        })),
        with(json!({
            "event": "revoked", "cursor": at(12), "token": "11", "reason": "worker-7 hangs",
        })),
        with(json!({ "event": "queued", "cursor": at(12), "position": 2 })),
    ];
    assert_eq!(lines[..4], expected);
    assert_eq!(lines[4]["kind"], "history_lost");
    assert_eq!(lines.len(), 5);
}

#[tokio::test]
async fn what_is_asked_for_is_what_the_arguments_say() {
    let node = node().await;
    let after = format!("{CLUSTER}:7");
    let args = ["watch", "jobs", "--exact", "--renewals", "--after", &after];
    fencepost(&[&args[..], &["--endpoints", &node.address]].concat()).await;
    fencepost(&["watch", "jobs/", "--endpoints", &node.address]).await;
    let asked = node.watches();
    assert_eq!(asked[0].what, Some(What::Resource("jobs".to_owned())));
    assert!(asked[0].renewals);
    assert_eq!(asked[0].after.as_ref().unwrap().index, 7);
    assert_eq!(asked[1].what, Some(What::Prefix("jobs/".to_owned())));
    assert!(!asked[1].renewals && asked[1].after.is_none());
}

#[tokio::test]
async fn odd_arguments_are_usage_errors() {
    for args in [
        &["watch", "--after", "yesterday"][..],
        &["watch", "--exact", ""],
        &["wait", "jobs", "--within", "0s"],
        &["wait"],
    ] {
        let run = fencepost(args).await;
        assert_eq!(run.code, Some(2), "{args:?}: {}", run.stderr);
    }
}

#[tokio::test]
async fn an_interrupted_watch_ends_well_and_says_where_to_go_on() {
    let node = Fake::start(|call, _| match call {
        "watch" => Act::Watch(vec![Step::Tell(10, vec![]), granted(11)]),
        _ => Act::Answer,
    })
    .await;
    let address = node.address.clone();
    let process = tokio::task::spawn_blocking(move || {
        let mut command = running::fencepost(&["watch", "--endpoints", &address]);
        let mut process = running::Running::start(&mut command);
        process.wait_for("granted");
        process.signal(Signal::INT);
        process.wait_for(&format!("--after {CLUSTER}:11"));
        process.end().code()
    });
    assert_eq!(process.await.unwrap(), Some(0));
}

#[tokio::test]
async fn a_watch_that_reaches_nobody_is_unavailable() {
    let nowhere = crate::fake::nowhere().await;
    for args in [&["watch"][..], &["wait", "jobs"]] {
        let flags = ["--endpoints", &nowhere, "--timeout", "300ms"];
        let run = fencepost(&[args, &flags[..]].concat()).await;
        assert_eq!(run.code, Some(4), "{args:?}: {}", run.stderr);
    }
}

#[tokio::test]
async fn waiting_ends_when_it_is_free_and_gives_up_in_time() {
    let node = Fake::start(|_, _| Act::Answer).await;
    let args = ["wait", "jobs", "--endpoints", &node.address];
    let run = fencepost(&args).await;
    assert_eq!((run.code, run.stdout.trim()), (Some(0), "jobs is free."));
    let run = fencepost(&[&args[..], &["--output", "json"]].concat()).await;
    assert_eq!(run.json(), json!({ "outcome": "free", "resource": "jobs" }));

    node.become_(|node| node.grants = vec![grant("jobs", "other", 7)]);
    let within = [&args[..], &["--within", "300ms"]].concat();
    let run = fencepost(&within).await;
    assert_eq!(run.code, Some(3));
    assert!(
        run.stderr.contains("jobs was not free within 300ms"),
        "{}",
        run.stderr
    );
    let run = fencepost(&[&within[..], &["--output", "json"]].concat()).await;
    let expected = json!({ "outcome": "not_free", "resource": "jobs" });
    assert_eq!((run.code, run.json()), (Some(3), expected));
}
