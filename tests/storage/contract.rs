//! What every store promises, run over the one on disk and the one in memory.

use std::sync::{Arc, Mutex};

use fencepost::server::store::{
    ClusterId, Entry, Failure, InstanceId, LogState, Membership, MemoryDisk, MemoryStore, Ready,
    ReadyError, Store, completion,
};

use crate::fixture::*;

#[test]
fn a_new_store_is_empty_and_forming() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, recovered) =
        fencepost::server::store::DiskStore::open(dir.path(), &options()).unwrap();
    let (memory, of_memory) =
        MemoryStore::open(&MemoryDisk::new(NODE, InstanceId::from_bytes([5; 16])));
    assert_eq!(recovered, of_memory);
    assert_eq!(recovered.boots, 1);
    assert_eq!(recovered.identity.membership, Membership::Forming);
    for store in [&disk as &dyn Store, &memory] {
        assert_eq!(store.log_state(), LogState::default());
        assert_eq!(
            (store.vote(), store.committed(), store.snapshot()),
            (None, None, None)
        );
        assert!(store.all().is_empty());
        assert!(store.read_snapshot().unwrap().is_none());
    }
}

#[test]
fn a_forming_node_promises_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (disk, _) = fencepost::server::store::DiskStore::open(dir.path(), &options()).unwrap();
    let (memory, _) = MemoryStore::open(&MemoryDisk::new(NODE, InstanceId::from_bytes([5; 16])));
    for store in [&disk as &dyn Store, &memory] {
        let refused = [
            store.voted(vote(1, false)).unwrap_err(),
            store.appended(entries(1, 0..1)).unwrap_err(),
            store.saved(snapshot(id(1, 5), 10)).unwrap_err(),
        ];
        assert!(
            refused.iter().all(|error| error.kind == Failure::Invalid),
            "{refused:?}"
        );
        assert_eq!(
            (store.vote(), store.log_state()),
            (None, LogState::default())
        );
        store.make_ready(ready()).unwrap();
        store.voted(vote(1, false)).unwrap();
    }
}

#[test]
fn a_node_belongs_to_one_cluster_for_ever() {
    for disk in Disk::both() {
        let (store, _) = disk.open();
        store.make_ready(ready()).unwrap();
        let other = Ready {
            cluster: ClusterId::new(9),
            ..ready()
        };
        let refused = store.make_ready(other).unwrap_err();
        assert!(
            matches!(refused, ReadyError::OtherCluster { .. }),
            "{refused}"
        );
        drop(store);
        let (store, recovered) = disk.open();
        assert_eq!(recovered.identity.ready(), Some(&ready()));
        assert_eq!(store.identity(), recovered.identity);
        assert_eq!(recovered.boots, 2);
    }
}

#[test]
fn what_was_acknowledged_is_there_after_a_restart() {
    for disk in Disk::both() {
        let (store, _) = disk.open();
        store.voted(vote(4, true)).unwrap();
        store.appended(entries(1, 0..200)).unwrap();
        store.appended(entries(4, 200..201)).unwrap();
        store.save_committed(Some(id(1, 150)));
        store.saved(snapshot(id(1, 120), 100_000)).unwrap();
        drop(store);
        let (store, recovered) = disk.open();
        assert_eq!(recovered.vote, Some(vote(4, true)));
        assert_eq!(
            recovered.log,
            LogState {
                purged: None,
                last: Some(id(4, 200))
            }
        );
        assert_eq!(recovered.committed, Some(id(1, 150)));
        let expected: Vec<_> = entries(1, 0..200)
            .into_iter()
            .chain(entries(4, 200..201))
            .collect();
        assert_eq!(store.all(), expected);
        let reader = store.read_snapshot().unwrap().unwrap();
        assert_eq!(Some(&reader.manifest), recovered.snapshot.as_ref());
        assert_eq!(reader.manifest.last, Some(id(1, 120)));
        assert_eq!(&reader.manifest.meta[..], b"meta of 120");
        let content = reader.read_all().unwrap();
        assert_eq!(content, snapshot(id(1, 120), 100_000).pieces.concat());
    }
}

#[test]
fn an_entry_can_be_read_before_it_is_durable() {
    let disk = MemoryDisk::new(NODE, InstanceId::from_bytes([5; 16]));
    let (store, _) = MemoryStore::open(&disk);
    store.make_ready(ready()).unwrap();
    disk.hold();
    let (done, mut completed) = tokio::sync::oneshot::channel();
    store.append(
        entries(1, 0..3),
        Box::new(move |result| drop(done.send(result))),
    );
    assert_eq!(store.all(), entries(1, 0..3));
    assert!(
        completed.try_recv().is_err(),
        "acknowledged before it was durable"
    );
    disk.release();
    completed.try_recv().unwrap().unwrap();
}

#[test]
fn completions_come_in_order_and_say_what_is_durable() {
    for disk in Disk::both() {
        let (store, _) = disk.open();
        let order = Arc::new(Mutex::new(Vec::new()));
        for index in 0..100 {
            let order = Arc::clone(&order);
            let done = Box::new(move |result: Result<(), _>| {
                result.unwrap();
                order.lock().unwrap().push(index);
            });
            match index % 10 {
                9 => store.save_vote(vote(index, false), done),
                _ => store.append(entries(1, index - index / 10..index - index / 10 + 1), done),
            }
        }
        store.voted(vote(1_000, false)).unwrap();
        assert_eq!(*order.lock().unwrap(), (0..100).collect::<Vec<_>>());
    }
}

#[test]
fn a_read_stops_at_its_limits_and_gives_at_least_one() {
    for disk in Disk::both() {
        let (store, _) = disk.open();
        let all: Vec<_> = (0..10)
            .map(|index| Entry {
                index,
                term: 1,
                payload: vec![7; 100].into(),
            })
            .collect();
        store.appended(all.clone()).unwrap();
        assert_eq!(store.read(2..5, usize::MAX).unwrap(), all[2..5]);
        assert_eq!(store.read(2..9, 300).unwrap(), all[2..5]);
        assert_eq!(store.read(2..9, 0).unwrap(), all[2..3]);
        assert_eq!(store.read(8..20, usize::MAX).unwrap(), all[8..]);
        assert!(store.read(5..5, usize::MAX).unwrap().is_empty());
        assert!(store.read(10..20, usize::MAX).unwrap().is_empty());
    }
}

#[test]
fn an_append_with_a_hole_a_falling_term_or_too_many_bytes_is_refused_whole() {
    for disk in Disk::both() {
        let (store, _) = disk.open();
        let first = store.appended(entries(1, 1..2)).unwrap_err();
        assert_eq!(first.kind, Failure::Invalid, "an empty log begins at 0");
        store.appended(entries(2, 0..5)).unwrap();
        let large = Entry {
            index: 5,
            term: 2,
            payload: vec![0; 64 * 1024 + 1].into(),
        };
        let hole = vec![entry(2, 5), entry(2, 7)];
        for bad in [
            entries(2, 6..8),
            entries(2, 4..6),
            entries(1, 5..6),
            vec![large],
            hole,
        ] {
            let refused = store.appended(bad).unwrap_err();
            assert_eq!(refused.kind, Failure::Invalid);
            assert_eq!(store.log_state().last, Some(id(2, 4)));
        }
        let largest = Entry {
            index: 5,
            term: 2,
            payload: vec![9; 64 * 1024].into(),
        };
        store.appended(vec![largest.clone()]).unwrap();
        drop(store);
        assert_eq!(disk.open().0.read(5..6, 0).unwrap(), [largest]);
    }
}

#[test]
fn a_vote_never_goes_back() {
    for disk in Disk::both() {
        let (store, _) = disk.open();
        store.voted(vote(5, false)).unwrap();
        store.voted(vote(5, true)).unwrap();
        for backwards in [vote(4, true), vote(5, false)] {
            assert_eq!(store.voted(backwards).unwrap_err().kind, Failure::Invalid);
        }
        assert_eq!(store.vote(), Some(vote(5, true)));
        store.voted(vote(6, false)).unwrap();
        drop(store);
        assert_eq!(disk.open().1.vote, Some(vote(6, false)));
    }
}

#[test]
fn a_truncation_removes_the_tail_wherever_it_cuts() {
    for keep in [
        None,
        Some(0),
        Some(1),
        Some(95),
        Some(96),
        Some(97),
        Some(150),
        Some(199),
    ] {
        for disk in Disk::both() {
            let (store, _) = disk.open();
            store.appended(entries(1, 0..100)).unwrap();
            store.appended(entries(1, 100..200)).unwrap();
            store.truncated(keep.map(|index| id(1, index))).unwrap();
            let next = keep.map_or(0, |index| index + 1);
            assert_eq!(store.all(), entries(1, 0..next));
            store.appended(entries(2, next..next + 3)).unwrap();
            drop(store);
            let (store, recovered) = disk.open();
            assert_eq!(recovered.log.last, Some(id(2, next + 2)));
            let kept = entries(1, 0..next).into_iter();
            assert_eq!(
                store.all(),
                kept.chain(entries(2, next..next + 3)).collect::<Vec<_>>()
            );
        }
    }
}

#[test]
fn a_purge_removes_the_head_even_beyond_the_last_entry() {
    for upto in [0, 50, 95, 96, 98, 99, 150] {
        for disk in Disk::both() {
            let (store, _) = disk.open();
            store.appended(entries(1, 0..60)).unwrap();
            store.appended(entries(1, 60..100)).unwrap();
            store.saved(snapshot(id(1, upto), 1_000)).unwrap();
            store.purged(id(1, upto)).unwrap();
            // Nothing is purged twice, nor less than before.
            store.purged(id(1, upto / 2)).unwrap();
            let state = LogState {
                purged: Some(id(1, upto)),
                last: Some(id(1, upto.max(99))),
            };
            assert_eq!(store.log_state(), state);
            let next = upto.max(99) + 1;
            assert_eq!(store.all(), entries(1, upto + 1..100));
            store.appended(entries(2, next..next + 2)).unwrap();
            drop(store);
            let (store, recovered) = disk.open();
            assert_eq!(
                recovered.log,
                LogState {
                    last: Some(id(2, next + 1)),
                    ..state
                }
            );
            let kept = entries(1, upto + 1..100).into_iter();
            assert_eq!(
                store.all(),
                kept.chain(entries(2, next..next + 2)).collect::<Vec<_>>()
            );
            // What lies below the marker cannot be cut off from the tail.
            let refused = store.truncated(None).unwrap_err();
            assert_eq!(refused.kind, Failure::Invalid);
        }
    }
}

#[test]
fn a_newer_snapshot_replaces_the_one_before() {
    for disk in Disk::both() {
        let (store, _) = disk.open();
        for last in [10, 20, 30] {
            store
                .saved(snapshot(
                    id(1, last),
                    70_000 + usize::try_from(last).unwrap(),
                ))
                .unwrap();
            assert_eq!(store.snapshot().unwrap().last, Some(id(1, last)));
        }
        drop(store);
        let (store, recovered) = disk.open();
        assert_eq!(recovered.snapshot.unwrap().number, 3);
        let content = store.read_snapshot().unwrap().unwrap().read_all().unwrap();
        assert_eq!(content, snapshot(id(1, 30), 70_030).pieces.concat());
    }
}

/// A node that restarts builds a snapshot of its own while its leader sends a newer one.
#[test]
fn an_older_snapshot_never_replaces_a_newer_one() {
    for disk in Disk::both() {
        let (store, _) = disk.open();
        store.appended(entries(1, 0..31)).unwrap();
        store.saved(snapshot(id(1, 30), 70_000)).unwrap();
        store.purged(id(1, 30)).unwrap();
        store.saved(snapshot(id(1, 20), 50_000)).unwrap();
        assert_eq!(store.snapshot().unwrap().last, Some(id(1, 30)));

        // Both handed over before either is done, the newer one first.
        let both = [snapshot(id(2, 50), 300_000), snapshot(id(1, 40), 300_000)].map(|snapshot| {
            let (done, completed) = completion();
            store.save_snapshot(snapshot, done);
            completed
        });
        for completed in both {
            completed.wait().unwrap();
        }
        drop(store);
        let (store, recovered) = disk.open();
        assert_eq!(recovered.snapshot.unwrap().last, Some(id(2, 50)));
        let content = store.read_snapshot().unwrap().unwrap().read_all().unwrap();
        assert_eq!(content, snapshot(id(2, 50), 300_000).pieces.concat());
    }
}

#[test]
fn a_snapshot_of_nothing_can_be_read_back() {
    for disk in Disk::both() {
        let (store, _) = disk.open();
        let empty = fencepost::server::store::NewSnapshot {
            last: None,
            meta: bytes::Bytes::new(),
            pieces: Vec::new(),
        };
        store.saved(empty).unwrap();
        drop(store);
        let (store, _) = disk.open();
        let content = store.read_snapshot().unwrap().unwrap().read_all().unwrap();
        assert!(content.is_empty());
    }
}

#[test]
fn appends_go_on_while_a_large_snapshot_is_saved() {
    for disk in Disk::both() {
        let (store, _) = disk.open();
        store.appended(entries(1, 0..10)).unwrap();
        let (done, completed) = completion();
        store.save_snapshot(snapshot(id(1, 9), 4 << 20), done);
        for index in 10..40 {
            store.appended(entries(1, index..index + 1)).unwrap();
        }
        completed.wait().unwrap();
        drop(store);
        let (store, recovered) = disk.open();
        assert_eq!(recovered.log.last, Some(id(1, 39)));
        let content = store.read_snapshot().unwrap().unwrap().read_all().unwrap();
        assert_eq!(content, snapshot(id(1, 9), 4 << 20).pieces.concat());
    }
}

#[test]
fn writes_lost_by_a_power_cut_were_never_acknowledged() {
    for kept in 0..=4 {
        let disk = MemoryDisk::new(NODE, InstanceId::from_bytes([5; 16]));
        let (store, _) = MemoryStore::open(&disk);
        store.make_ready(ready()).unwrap();
        store.appended(entries(1, 0..5)).unwrap();
        disk.hold();
        let mut waiting = Vec::new();
        for index in 5..9 {
            let (done, completed) = completion();
            store.append(entries(1, index..index + 1), done);
            waiting.push(completed);
        }
        disk.cut_power(kept);
        assert!(
            waiting
                .into_iter()
                .all(|completed| completed.wait().is_err())
        );
        drop(store);
        let (_, recovered) = MemoryStore::open(&disk);
        assert_eq!(
            recovered.log.last,
            Some(id(1, 4 + u64::try_from(kept).unwrap()))
        );
    }
}
