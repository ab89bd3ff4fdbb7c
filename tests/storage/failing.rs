//! A disk that fails: the first error is the last, and a restart has everything.

use std::path::Path;
use std::process::Command;

use fencepost::server::store::{Failure, Space, Store, StoreObserver};

use crate::fixture::*;
use crate::worker::{self, Worker};

/// Appends until it fails, tells what happens then.
fn fill(dir: &Path) {
    let (store, _) = open(dir).unwrap();
    let failure = store.failure();
    assert!(failure.borrow().is_none());
    worker::tell("open");
    let error = loop {
        let next = store.log_state().next_index();
        match store.appended(entries(1, next..next + 20)) {
            Ok(()) => worker::tell(&format!("appended {}", next + 19)),
            Err(error) => break error,
        }
    };
    worker::tell(&format!("failed {:?}", error.kind));
    assert_eq!(
        failure.borrow().as_ref().map(|error| error.kind),
        Some(error.kind)
    );
    // Nothing is acknowledged any more, whatever the disk may do by now.
    let next = store.log_state().next_index();
    for refused in [
        store.appended(entries(1, next..next + 1)),
        store.voted(vote(9, true)),
        store.saved(snapshot(id(1, 3), 100)),
        store.truncated(Some(id(1, 5))),
        store.purged(id(1, 5)),
    ] {
        assert_eq!(refused.unwrap_err().kind, error.kind);
    }
    drop(store);
    worker::tell("ended");
}

/// Runs the filling child under `shell`, which limits its disk, and checks what it told.
fn fails_for_good(test: &str, dir: &Path, shell: &str, kind: Failure) -> u64 {
    let child = worker::command(test, dir, 0);
    let mut command = Command::new("sh");
    command
        .arg("-c")
        .arg(shell)
        .arg("sh")
        .arg(child.get_program())
        .args(child.get_args());
    command.envs(
        child
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    let (status, told) = Worker::spawn(command).wait();
    assert!(status.success(), "{told:?}");
    assert_eq!(told.first().map(String::as_str), Some("open"));
    let end = [format!("failed {kind:?}"), "ended".to_owned()];
    assert_eq!(told[told.len() - 2..], end, "{told:?}");
    let mut appended = told
        .iter()
        .filter_map(|line| line.strip_prefix("appended "));
    appended
        .next_back()
        .expect("nothing was appended before it failed")
        .parse()
        .unwrap()
}

#[test]
fn a_write_error_is_final_and_a_restart_has_all_that_was_acknowledged() {
    if let Some((dir, _)) = worker::role() {
        return fill(&dir);
    }
    let test = "failing::a_write_error_is_final_and_a_restart_has_all_that_was_acknowledged";
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).unwrap());
    // No file may grow over 3 MiB (in blocks of 512 bytes); the signal for it is ignored.
    let shell = "trap '' XFSZ; ulimit -f 6144; exec \"$@\"";
    let last = fails_for_good(test, dir.path(), shell, Failure::Io);
    let (store, recovered) = open(dir.path()).unwrap();
    assert!(recovered.log.last.unwrap().index >= last);
    assert_eq!(
        store.read(0..last + 1, usize::MAX).unwrap(),
        entries(1, 0..last + 1)
    );
    assert_eq!(recovered.vote, None);
}

#[test]
fn a_full_disk_is_told_apart_and_a_restart_with_space_has_everything() {
    if let Some((dir, _)) = worker::role() {
        return fill(&dir);
    }
    let namespaces = Command::new("unshare").args(["-Urm", "true"]).status();
    if !namespaces.is_ok_and(|status| status.success()) {
        return eprintln!("skipped: no mount namespace can be had here, so no small disk either");
    }
    let test = "failing::a_full_disk_is_told_apart_and_a_restart_with_space_has_everything";
    let root = tempfile::tempdir().unwrap();
    let (small, saved) = (root.path().join("small"), root.path().join("saved"));
    std::fs::create_dir(&small).unwrap();
    std::fs::create_dir(&saved).unwrap();
    // A file system of 6 MiB that ends with the child; what it held is kept beside it.
    let shell = format!(
        "exec unshare -Urm sh -c 'mount -t tmpfs -o size=6m small {small} && \"$@\"; \
         status=$?; cp -a {small}/. {saved}; exit $status' sh \"$@\"",
        small = small.display(),
        saved = saved.display(),
    );
    let last = fails_for_good(test, &small, &shell, Failure::DiskFull);
    let (store, recovered) = open(&saved).unwrap();
    assert!(recovered.log.last.unwrap().index >= last);
    assert_eq!(
        store.read(0..last + 1, usize::MAX).unwrap(),
        entries(1, 0..last + 1)
    );
    let next = store.log_state().next_index();
    store.appended(entries(1, next..next + 100)).unwrap();
}

#[test]
fn free_space_below_the_floor_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    for (floor, low) in [(0, false), (u64::MAX, true)] {
        let watched = std::sync::Arc::new(Watched::default());
        let options = fencepost::server::store::Options {
            space_floor_bytes: floor,
            observer: std::sync::Arc::clone(&watched) as _,
            ..options()
        };
        let (store, _) = fencepost::server::store::DiskStore::open(dir.path(), &options).unwrap();
        let space = watched.seen();
        assert_eq!((space.low, store.space_low()), (low, low));
        assert!(space.used_bytes > 0 && space.free_bytes > 0, "{space:?}");
    }
}

/// Waits for the first look at the disk.
#[derive(Default)]
struct Watched(std::sync::Mutex<Option<Space>>, std::sync::Condvar);

impl Watched {
    fn seen(&self) -> Space {
        let space = self.0.lock().unwrap();
        let waited = self
            .1
            .wait_timeout_while(space, worker::PATIENCE, |space| space.is_none());
        waited.unwrap().0.expect("nobody looked at the disk")
    }
}

impl StoreObserver for Watched {
    fn space(&self, space: &Space) {
        *self.0.lock().unwrap() = Some(*space);
        self.1.notify_all();
    }
}
