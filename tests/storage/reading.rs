//! Reading beside the storage thread, from memory and from the database.

use std::sync::atomic::{AtomicBool, Ordering};

use fencepost::server::store::{DiskStore, Options, Store};

use crate::fixture::*;

/// A store that keeps (next to) nothing in memory.
fn forgetful(dir: &std::path::Path, window_bytes: usize) -> DiskStore {
    let options = Options {
        window_bytes,
        ..options()
    };
    let (store, _) = DiskStore::open(dir, &options).unwrap();
    store.make_ready(ready()).unwrap();
    store
}

#[test]
fn what_is_not_in_memory_any_more_is_read_from_the_database() {
    for window_bytes in [0, 10_000, 100_000] {
        let dir = tempfile::tempdir().unwrap();
        let mut store = forgetful(dir.path(), window_bytes);
        for group in 0..20 {
            store
                .appended(entries(1, group * 25..group * 25 + 25))
                .unwrap();
        }
        store.saved(snapshot(id(1, 60), 10)).unwrap();
        store.purged(id(1, 60)).unwrap();
        let all = entries(1, 0..500);
        let mut random = Random(1);
        for round in 0..300 {
            if round == 150 {
                drop(store);
                store = forgetful(dir.path(), window_bytes);
            }
            let start = random.below(520);
            let end = start + random.below(200);
            let expected: Vec<_> = all
                .iter()
                .filter(|entry| entry.index > 60 && (start..end).contains(&entry.index))
                .cloned()
                .collect();
            assert_eq!(
                store.read(start..end, usize::MAX).unwrap(),
                expected,
                "{start}..{end}"
            );
            let bytes_max = usize::try_from(random.below(20_000)).unwrap();
            let found = store.read(start..end, bytes_max).unwrap();
            let bytes: usize = found.iter().map(|entry| entry.payload.len()).sum();
            assert!(bytes <= bytes_max || found.len() == 1);
            assert_eq!(found[..], expected[..found.len()]);
            assert_eq!(found.is_empty(), expected.is_empty());
        }
    }
}

#[test]
fn readers_see_a_log_without_holes_while_it_is_written_cut_and_purged() {
    let dir = tempfile::tempdir().unwrap();
    let store = forgetful(dir.path(), 3_000);
    store.appended(entries(1, 0..100)).unwrap();
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 0..2 {
            let (store, ended) = (&store, &ended);
            scope.spawn(move || {
                let mut random = Random(reader);
                while !ended.load(Ordering::Relaxed) {
                    let state = store.log_state();
                    let start = state.first_index() + random.below(60);
                    let found = store
                        .read(start..start + random.below(80), usize::MAX)
                        .unwrap();
                    for pair in found.windows(2) {
                        assert_eq!(pair[0].index + 1, pair[1].index);
                        assert!(pair[0].term <= pair[1].term);
                    }
                    found
                        .iter()
                        .for_each(|read| assert_eq!(*read, entry(read.term, read.index)));
                }
            });
        }
        let mut random = Random(9);
        for term in 2..300 {
            let next = store.log_state().next_index();
            store
                .appended(entries(term, next..next + random.below(30)))
                .unwrap();
            let state = store.log_state();
            if term % 3 == 0 {
                let keep = state.next_index() - 1 - random.below(20);
                let kept = store.read(keep..keep + 1, 0).unwrap()[0].log_id();
                store.truncated(Some(kept)).unwrap();
            }
            if term % 4 == 0 && state.next_index() - state.first_index() > 100 {
                let upto = state.first_index() + random.below(40);
                let upto = store.read(upto..upto + 1, 0).unwrap()[0].log_id();
                store.purged(upto).unwrap();
            }
        }
        ended.store(true, Ordering::Relaxed);
    });
    assert!(store.failure().borrow().is_none());
}

#[test]
fn a_reader_of_a_replaced_snapshot_is_told_so() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path()).unwrap();
    store.saved(snapshot(id(1, 1), 3 << 20)).unwrap();
    let mut reader = store.read_snapshot().unwrap().unwrap();
    let mut first = reader.next().unwrap().unwrap().to_vec();
    for last in 2..5 {
        store.saved(snapshot(id(1, last), 100)).unwrap();
    }
    let rest: Result<Vec<_>, _> = reader.collect();
    // It was read to its end before it was deleted, or it was told; nothing in between.
    match rest {
        Ok(pieces) => {
            pieces
                .iter()
                .for_each(|piece| first.extend_from_slice(piece));
            assert_eq!(first, snapshot(id(1, 1), 3 << 20).pieces.concat());
        }
        Err(error) => {
            assert_eq!(error.kind, fencepost::server::store::Failure::Superseded);
        }
    }
    assert!(store.failure().borrow().is_none(), "the store goes on");
    store.appended(entries(1, 0..5)).unwrap();
}
