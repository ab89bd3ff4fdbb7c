//! Whether a flush reaches the disk, as the system saw it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use crate::fixture::*;
use crate::worker;

/// Appends a few times, one flush each.
fn append(dir: &Path) {
    let (store, _) = open(dir).unwrap();
    for index in 0..20 {
        store.appended(entries(1, index..index + 1)).unwrap();
    }
}

#[test]
fn a_flush_is_an_fdatasync_and_never_a_sync_file_range() {
    if let Some((dir, _)) = worker::role() {
        return append(&dir);
    }
    if Command::new("strace").arg("-V").output().is_err() {
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
    let mut calls: BTreeMap<&str, usize> = BTreeMap::new();
    for call in ["fdatasync", "sync_file_range"] {
        let of_database = |line: &&str| line.contains(call) && line.contains("log.sled/db>");
        *calls.entry(call).or_default() += trace.lines().filter(of_database).count();
    }
    println!("{calls:?}");
    assert!(calls["fdatasync"] >= 20, "20 appends made {calls:?}");
    assert_eq!(calls["sync_file_range"], 0);
}
