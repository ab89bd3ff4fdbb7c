//! Whether a flush reaches the disk, as the system saw it.

use std::path::Path;
use std::process::Command;

use crate::fixture::*;
use crate::worker;

/// Appends and votes a few times, one flush each.
fn append(dir: &Path) {
    let (store, _) = open(dir).unwrap();
    for index in 0..20 {
        store.appended(entries(1, index..index + 1)).unwrap();
    }
    for term in 2..12 {
        store.voted(vote(term, true)).unwrap();
    }
}

#[test]
fn a_flush_is_an_fdatasync_and_never_a_sync_file_range() {
    if let Some((dir, _)) = worker::role() {
        return append(&dir);
    }
    if Command::new("strace").arg("-V").output().is_err() {
        assert!(std::env::var_os("CI").is_none(), "CI must have strace");
        return eprintln!("skipped: strace is not installed");
    }
    let test = "sync::a_flush_is_an_fdatasync_and_never_a_sync_file_range";
    let root = tempfile::tempdir().unwrap();
    let (dir, trace) = (root.path().join("data"), root.path().join("trace"));
    let child = worker::command(test, &dir, 0);
    let mut command = Command::new("strace");
    command
        .args([
            "-f",
            "-y",
            "-e",
            "trace=fdatasync,sync_file_range,fsync",
            "-o",
        ])
        .arg(&trace);
    command.arg(child.get_program()).args(child.get_args());
    command.envs(
        child
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    let run = command.output().unwrap();
    let trace = std::fs::read_to_string(&trace).unwrap_or_default();
    if trace.is_empty() {
        let why = String::from_utf8_lossy(&run.stderr);
        return eprintln!("skipped: strace may not trace here: {why}");
    }
    assert!(
        run.status.success(),
        "{}",
        String::from_utf8_lossy(&run.stdout)
    );
    let count = |call: &str, file: &str| {
        trace
            .lines()
            .filter(|line| line.contains(call) && line.contains(file))
            .count()
    };
    let flushes = count("fdatasync", "log.sled/db>");
    let watermarks = count("fdatasync", "WATERMARK>");
    println!("fdatasync: {flushes} of the database, {watermarks} of the watermark");
    assert!(flushes >= 30, "30 writes made {flushes} fdatasyncs");
    assert!(watermarks >= 10, "10 votes made {watermarks} fdatasyncs");
    assert!(
        count("fsync", "IDENTITY") >= 2,
        "it was made, and bound to a cluster"
    );
    assert_eq!(count("sync_file_range", ""), 0);
}
