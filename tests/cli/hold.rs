//! `fencepost hold`: what its command finds, how both end, and that no command outlives its lease.

use crate::fake::{Act, Fake};
use crate::running::{Running, fencepost, wait_until_gone};
use fencepost::wire::failure::{Failure, Reason};
use fencepost::wire::v1::EndedHow;
use rustix::process::Signal;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;

/// What a command prints when it is there.
const UP: &str = "the command is up";

/// `fencepost hold jobs MORE -- sh -c SCRIPT` at `node`; the script finds a file's name in `$1`.
fn hold(node: &Fake, more: &[&str], script: &str, marker: &Path) -> Running {
    let start = ["hold", "jobs", "--endpoints", &node.address];
    let marker = marker.to_str().unwrap();
    let command = ["--", "sh", "-c", script, "sh", marker];
    Running::start(&mut fencepost(&[&start[..], more, &command[..]].concat()))
}

async fn node() -> Fake {
    Fake::start(|_, _| Act::Answer).await
}

/// A node that grants, and then does this with each renewal.
async fn renewing(act: impl Fn() -> Act + Send + Sync + 'static) -> Fake {
    Fake::acting("renew", act).await
}

/// Ends with `code`, and says so.
fn ends_with(mut running: Running, code: i32) -> String {
    let status = running.end();
    assert_eq!(status.code(), Some(code), "{}", running.printed());
    running.printed()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_finds_what_it_holds_in_its_environment() {
    let (node, files) = (node().await, tempfile::tempdir().unwrap());
    let printed = ends_with(hold(&node, &[], "env | grep ^FENCEPOST_", files.path()), 0);
    let token = printed
        .lines()
        .find_map(|line| line.strip_prefix("FENCEPOST_TOKEN="))
        .unwrap();
    let sequencer = printed
        .lines()
        .find_map(|line| line.strip_prefix("FENCEPOST_SEQUENCER="));
    let sequencer: serde_json::Value = serde_json::from_str(sequencer.unwrap()).unwrap();
    let expected = serde_json::json!({"issuer": "test", "resource": "jobs", "token": token});
    assert_eq!(sequencer, expected);
    for line in ["FENCEPOST_RESOURCE=jobs", "FENCEPOST_ISSUER=test"] {
        assert!(printed.lines().any(|other| other == line), "{printed}");
    }
    assert_eq!(node.count("release"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_own_end_passes_on() {
    let (node, files) = (node().await, tempfile::tempdir().unwrap());
    for (script, code) in [
        ("true", 0),
        ("exit 3", 3),
        ("exit 255", 255),
        ("kill -KILL $$", 137),
        ("kill -TERM $$", 143),
    ] {
        ends_with(hold(&node, &[], script, files.path()), code);
    }
    assert_eq!(node.count("release"), 5);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn its_own_failures_have_codes_of_their_own() {
    let node = node().await;
    let run = |more: &[&str]| {
        let start = ["hold", "jobs", "--endpoints", &node.address];
        Running::start(&mut fencepost(&[&start[..], more].concat()))
    };
    let printed = ends_with(run(&["--", "no-such-command"]), 127);
    assert!(printed.contains("cannot run no-such-command"), "{printed}");
    ends_with(run(&["--", "/etc/passwd"]), 126);
    ends_with(run(&[]), 125);
    ends_with(run(&["--ttl", "1", "--", "true"]), 125);
    let printed = ends_with(run(&["--ttl", "4s", "--grace", "2s", "--", "true"]), 125);
    assert!(printed.contains("less than half of the TTL"), "{printed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_resource_the_command_does_not_run() {
    let files = tempfile::tempdir().unwrap();
    let file = files.path().join("ran");
    let held = Fake::acting("acquire", || Act::Held).await;
    let printed = ends_with(hold(&held, &[], "touch $1", &file), 123);
    assert!(printed.contains("jobs is held by other"), "{printed}");

    let silent =
        Fake::start(|_, _| Act::Fail(Failure::new(Reason::NoLeader, "no leader is known"))).await;
    ends_with(
        hold(&silent, &["--timeout", "300ms"], "touch $1", &file),
        122,
    );
    // A grant out of memory says nothing about its time: no renewal, no command.
    let replayed = Fake::start(|call, _| match call {
        "acquire" => Act::Replay,
        "renew" => Act::Silence,
        _ => Act::Answer,
    })
    .await;
    ends_with(hold(&replayed, &["--ttl", "1s"], "touch $1", &file), 123);
    assert!(replayed.count("renew") > 0);
    assert!(!file.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_pass_through() {
    let (node, files) = (node().await, tempfile::tempdir().unwrap());
    let signals = [
        (Signal::INT, "INT"),
        (Signal::TERM, "TERM"),
        (Signal::HUP, "HUP"),
        (Signal::QUIT, "QUIT"),
        (Signal::USR1, "USR1"),
        (Signal::USR2, "USR2"),
    ];
    for (signal, name) in signals {
        let script = format!("trap 'exit 42' {name}; echo {UP}; while :; do sleep 0.01; done");
        let mut running = hold(&node, &[], &script, files.path());
        running.wait_for(UP);
        running.signal(signal);
        ends_with(running, 42);
    }
    assert_eq!(node.count("release"), signals.len());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_command_leaves_behind_is_ended_before_the_release() {
    let (node, files) = (node().await, tempfile::tempdir().unwrap());
    // One that ends when it is asked, and one that does not.
    let script = "sh -c 'while :; do sleep 1; done' leftover $1 & \
                  sh -c 'trap \"\" TERM; while :; do sleep 1; done' stubborn $1 & exit 5";
    let running = hold(&node, &["--grace", "200ms"], script, files.path());
    ends_with(running, 5);
    assert_eq!(node.count("release"), 1);
    assert_eq!(
        crate::running::processes_naming(files.path()),
        Vec::<String>::new()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_whose_lease_cannot_be_kept_is_asked_and_then_killed() {
    let files = tempfile::tempdir().unwrap();
    let node = renewing(|| Act::Silence).await;
    // It goes on when it is asked, and so does its child.
    let script = "trap 'echo asked' TERM; sh -c 'trap \"\" TERM; while :; do sleep 1; done' child $1 & \
                  while :; do sleep 0.01; done";
    let mut running = hold(
        &node,
        &["--ttl", "4s", "--grace", "1500ms", "--timeout", "1s"],
        script,
        files.path(),
    );
    running.wait_for("asked");
    let printed = ends_with(running, 124);
    assert!(printed.contains("jobs is not held any more"), "{printed}");
    assert_eq!(
        crate::running::processes_naming(files.path()),
        Vec::<String>::new()
    );

    // One that ends when it is asked.
    let script = "trap 'exit 0' TERM; while :; do sleep 0.01; done";
    let running = hold(
        &node,
        &["--ttl", "2s", "--timeout", "1s"],
        script,
        files.path(),
    );
    ends_with(running, 124);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_whose_lease_was_taken_away_is_killed_at_once() {
    let files = tempfile::tempdir().unwrap();
    let node = renewing(|| Act::Ended(EndedHow::Revoked)).await;
    let script = "trap 'echo asked' TERM; while :; do sleep 0.01; done";
    let printed = ends_with(hold(&node, &["--ttl", "3s"], script, files.path()), 124);
    assert!(printed.contains("the grant is revoked"), "{printed}");
    assert!(
        !printed.contains("asked"),
        "there is no time left: {printed}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_fencepost_does_not_save_its_command() {
    let (node, files) = (node().await, tempfile::tempdir().unwrap());
    node.become_(|node| node.lease_ms = 3_000);
    let script = format!("sleep 1000 & echo {UP}; while :; do sleep 0.01; done");
    let mut running = hold(&node, &["--ttl", "3s"], &script, files.path());
    running.wait_for(UP);
    running.signal(Signal::STOP);
    // The guardian does it, while nobody tells it of a later deadline.
    let own = |pid: &String| *pid != running.pid().to_string();
    let deadline = std::time::Instant::now() + crate::running::PATIENCE;
    while crate::running::processes_naming(files.path())
        .iter()
        .any(own)
    {
        assert!(std::time::Instant::now() < deadline, "the command goes on");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    running.signal(Signal::CONT);
    ends_with(running, 124);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_fencepost_takes_its_command_along() {
    let (node, files) = (node().await, tempfile::tempdir().unwrap());
    let script = format!("sleep 1000 & sh -c 'sleep 1000' child $1 & echo {UP}; wait");
    let mut running = hold(&node, &[], &script, files.path());
    running.wait_for(UP);
    running.signal(Signal::KILL);
    assert_eq!(running.end().signal(), Some(Signal::KILL.as_raw()));
    wait_until_gone(files.path());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_renewal_that_is_made_good_costs_the_command_nothing() {
    let files = tempfile::tempdir().unwrap();
    let node = Fake::start(|call, before| match (call, before) {
        ("renew", 0..3) => Act::Fail(Failure::new(Reason::NoLeader, "no leader is known")),
        _ => Act::Answer,
    })
    .await;
    let script = format!("echo {UP}; while test ! -e $1/go; do sleep 0.01; done; exit 8");
    let mut running = hold(&node, &["--ttl", "6s"], &script, files.path());
    running.wait_for(UP);
    let deadline = std::time::Instant::now() + crate::running::PATIENCE;
    while node.count("renew") < 4 {
        assert!(std::time::Instant::now() < deadline, "it is not renewed");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    std::fs::write(files.path().join("go"), "").unwrap();
    ends_with(running, 8);
}
