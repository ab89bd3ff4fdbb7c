//! A runtime that ends in the middle of a write: the lock outlasts what is still under way.

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use fencepost::fence::{
    fenced::{Applied, ConditionalStore, FencedResource},
    file::{FileStore, VALUE_BYTES_MAX},
    object::GuardedObjects,
};
use tokio::runtime::Runtime;

use crate::scene::{resource, rules, sequencer};

/// How a program lets go of a runtime.
const ENDINGS: [fn(Runtime); 2] = [
    Runtime::shutdown_background,
    // As at the end of `#[tokio::main]`, which waits; here it must not keep the newer holder waiting.
    |runtime| drop(thread::spawn(move || drop(runtime))),
];
const ROUNDS_MAX: u64 = 20;

/// Whether a new value lies beside its place: an object store's staged one, or a file store's.
fn is_under_way(directory: &Path) -> bool {
    let below = [directory.to_owned(), directory.join(".fencepost")];
    let entries = below.iter().flat_map(|path| fs::read_dir(path).unwrap());
    let mut names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.any(|name| name.contains('#') || name.ends_with(".new"))
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Whether the older write was caught halfway.
fn round<S>(open: fn(&Path) -> S, directory: &Path, end: fn(Runtime), older: u64) -> bool
where
    S: ConditionalStore<Mutation = [u8]> + Send + Sync + 'static,
{
    let account = resource("account/1");
    let ended = Runtime::new().unwrap();
    let fenced = FencedResource::new(open(directory), rules());
    let write = ended.spawn(async move {
        let value = vec![b'o'; VALUE_BYTES_MAX];
        let older = sequencer(older);
        fenced.apply(&older.resource, &value, &older).await.is_ok()
    });
    wait_until("the older value is being written", || {
        is_under_way(directory) || write.is_finished()
    });
    end(ended);
    let halfway = is_under_way(directory);
    // Another store of the directory, as another process has it.
    let newer = sequencer(older + 1);
    Runtime::new().unwrap().block_on(async {
        let fenced = FencedResource::new(open(directory), rules());
        let applied = fenced.apply(&account, b"newer", &newer).await.unwrap();
        assert_eq!(applied, Applied::Accepted);
        wait_until("no write is under way", || !is_under_way(directory));
        let mark = fenced.token(&account).await.unwrap().unwrap();
        assert_eq!(mark.token, newer.token, "the older value came after");
    });
    halfway
}

fn every_ending<S>(open: fn(&Path) -> S)
where
    S: ConditionalStore<Mutation = [u8]> + Send + Sync + 'static,
{
    for end in ENDINGS {
        let directory = tempfile::tempdir().unwrap();
        let mut rounds = (0..ROUNDS_MAX).map(|n| 2 * n + 1);
        let caught = rounds.any(|older| round(open, directory.path(), end, older));
        assert!(caught, "no write was caught halfway");
    }
}

#[test]
fn a_local_object_is_put_to_its_end_under_the_lock() {
    every_ending(|directory| GuardedObjects::local(directory).unwrap());
}

#[test]
fn a_file_is_written_to_its_end_under_the_lock() {
    every_ending(|directory| FileStore::open(directory).unwrap());
}
