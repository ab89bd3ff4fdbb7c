//! `fencepost demo`: every claim of the story holds, and nothing is left behind, however it ends.

use std::{fs, path::Path};

use rustix::process::Signal;

use crate::running::{Running, fencepost, processes_naming, wait_until_gone};

/// The story, with its temporary files below `directory`.
fn demo(directory: &Path) -> Running {
    Running::start(fencepost(&["demo"]).env("TMPDIR", directory))
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_none()
}

#[test]
fn the_story_holds_and_leaves_nothing_behind() {
    let directory = tempfile::tempdir().unwrap();
    let mut demo = demo(directory.path());
    let status = demo.end();
    let printed = demo.printed();
    assert!(status.success(), "{status}:\n{printed}");
    for told in [
        "B's token is greater",
        "the late write was refused",
        "stale token, presented",
        "the new leader's token is greater still",
        "B still holds the report",
        "and the next token is greater still",
    ] {
        assert!(printed.contains(told), "{told:?} is missing:\n{printed}");
    }
    let claims = printed.matches('✓').count();
    assert!(
        printed.contains(&format!("All {claims} claims held")),
        "{printed}"
    );
    assert_eq!(claims, 11, "{printed}");
    assert!(
        !printed.contains('\u{1b}'),
        "colours without a terminal:\n{printed}"
    );
    assert!(is_empty(directory.path()), "files are left");
    assert_eq!(processes_naming(directory.path()), [""; 0]);
}

#[test]
fn an_interrupted_story_takes_everything_down() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143), (Signal::HUP, 129)] {
        let directory = tempfile::tempdir().unwrap();
        let mut demo = demo(directory.path());
        demo.wait_for("A stands still");
        assert!(
            processes_naming(directory.path()).len() >= 4,
            "nodes and holder run"
        );
        demo.signal(signal);
        assert_eq!(demo.end().code(), Some(code), "{}", demo.printed());
        assert!(is_empty(directory.path()), "files are left");
        assert_eq!(processes_naming(directory.path()), [""; 0]);
    }
}

#[test]
fn a_reader_who_goes_away_ends_the_story_without_a_trace() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = fencepost(&["demo"]);
    command.env("TMPDIR", directory.path());
    let mut child = command
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(child.wait().unwrap().code(), Some(141));
    assert!(is_empty(directory.path()), "files are left");
    assert_eq!(processes_naming(directory.path()), [""; 0]);
}

#[test]
fn no_process_outlives_a_story_that_was_killed() {
    let directory = tempfile::tempdir().unwrap();
    let mut demo = demo(directory.path());
    demo.wait_for("A stands still");
    demo.signal(Signal::KILL);
    assert!(!demo.end().success());
    wait_until_gone(directory.path());
}
