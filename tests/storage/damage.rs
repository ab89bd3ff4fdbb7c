//! Damaged directories: each is refused by name, or opens with everything that was acknowledged.

use std::fs;
use std::path::Path;

use fencepost::server::store::{DiskStore, OpenError, Store};

use crate::fixture::*;
use crate::judge::{Promise, Verdict, judge};

/// Makes a directory with some history: votes, runs of many sizes, a truncation, a purge and a
/// snapshot; not closed, as a process leaves it that is killed.
pub(crate) fn history(dir: &Path) -> (DiskStore, Promise) {
    let (store, _) = open(dir).unwrap();
    store.voted(vote(1, true)).unwrap();
    for group in 0..30 {
        store
            .appended(entries(1, group * 10..group * 10 + 10))
            .unwrap();
    }
    store.saved(snapshot(id(1, 200), 60_000)).unwrap();
    store.purged(id(1, 100)).unwrap();
    store.truncated(Some(id(1, 282))).unwrap();
    store.voted(vote(2, false)).unwrap();
    store.voted(vote(2, true)).unwrap();
    for index in 283..320 {
        store.appended(entries(2, index..index + 1)).unwrap();
    }
    let entries = store.all().iter().map(|entry| entry.log_id()).collect();
    let promise = Promise {
        vote: store.vote(),
        entries,
        snapshot: store.snapshot(),
    };
    (store, promise)
}

/// An image of such a directory, and what it promised.
fn template() -> (tempfile::TempDir, Promise) {
    let dir = tempfile::tempdir().unwrap();
    let (store, promise) = history(dir.path());
    let image = image(dir.path());
    drop(store);
    (image, promise)
}

#[test]
fn an_image_of_a_running_store_is_healthy() {
    let (dir, promise) = template();
    for _ in 0..3 {
        let copy = image(dir.path());
        judge(copy.path(), &promise).whole();
        // And once more after the start that repaired it.
        judge(copy.path(), &promise).whole();
    }
}

#[test]
fn a_missing_database_is_not_a_new_node() {
    let (dir, promise) = template();
    let without = |names: &[&str]| {
        let copy = image(dir.path());
        for name in names {
            let path = copy.path().join(name);
            if path.is_dir() {
                fs::remove_dir_all(path).unwrap();
            } else {
                fs::remove_file(path).unwrap();
            }
        }
        judge(copy.path(), &promise).refused()
    };
    assert!(without(&["log.sled"]).contains("database file log.sled/db is missing"));
    assert!(without(&["log.sled/db"]).contains("database file log.sled/db is missing"));
    assert!(without(&["WATERMARK"]).contains("WATERMARK is missing"));
    assert!(without(&["IDENTITY"]).contains("IDENTITY is missing"));
    assert!(without(&["IDENTITY", "log.sled"]).contains("IDENTITY is missing"));
    assert!(without(&["IDENTITY", "WATERMARK"]).contains("IDENTITY is missing"));
}

#[test]
fn an_empty_database_in_place_of_the_real_one_is_refused() {
    let (dir, promise) = template();
    let other = tempfile::tempdir().unwrap();
    drop(open(other.path()).unwrap());
    fs::remove_dir_all(database(dir.path())).unwrap();
    copy(&database(other.path()), &database(dir.path()));
    let what = judge(dir.path(), &promise).refused();
    assert!(what.contains("vote") && what.contains("missing"), "{what}");
    // An empty file is what a lost directory entry or a failed repair leaves.
    fs::write(database(dir.path()).join("db"), b"").unwrap();
    judge(dir.path(), &promise).refused();
}

#[test]
fn the_database_of_another_node_is_refused() {
    let (dir, promise) = template();
    let other = tempfile::tempdir().unwrap();
    let options = fencepost::server::store::Options {
        new_instance: fencepost::server::store::InstanceId::from_bytes([6; 16]),
        ..options()
    };
    let (store, _) = DiskStore::open(other.path(), &options).unwrap();
    store.make_ready(ready()).unwrap();
    store.voted(vote(2, true)).unwrap();
    store.appended(entries(2, 0..400)).unwrap();
    drop(store);
    fs::remove_dir_all(database(dir.path())).unwrap();
    copy(&database(other.path()), &database(dir.path()));
    let what = judge(dir.path(), &promise).refused();
    assert!(what.contains("belongs to node 3 (instance 0606"), "{what}");
}

#[test]
fn an_old_copy_of_the_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path()).unwrap();
    store.voted(vote(1, true)).unwrap();
    store.appended(entries(1, 0..50)).unwrap();
    let old = image(dir.path());
    store.appended(entries(1, 50..51)).unwrap();
    let longer = image(dir.path());
    store.voted(vote(2, true)).unwrap();
    let voted = image(dir.path());
    store.truncated(Some(id(1, 45))).unwrap();
    store.appended(entries(2, 46..48)).unwrap();
    let promise = Promise {
        vote: store.vote(),
        entries: vec![id(2, 47)],
        snapshot: None,
    };
    drop(store);
    for (older, newer, says) in [
        (&old, &longer, "entry 50 of term 1"),
        (&longer, &voted, "vote"),
        (&voted, &dir, "entry 47 of term 2"),
        (&old, &dir, "vote"),
    ] {
        let mixed = image(newer.path());
        fs::remove_dir_all(database(mixed.path())).unwrap();
        copy(&database(older.path()), &database(mixed.path()));
        let what = judge(mixed.path(), &promise).refused();
        assert!(what.contains(says), "{what}");
    }
    judge(dir.path(), &promise).whole();
}

#[test]
fn an_old_copy_of_identity_or_watermark_is_refused() {
    let (dir, promise) = template();
    let forming = tempfile::tempdir().unwrap();
    drop(DiskStore::open(forming.path(), &options()).unwrap());
    let copy = image(dir.path());
    fs::copy(
        forming.path().join("IDENTITY"),
        copy.path().join("IDENTITY"),
    )
    .unwrap();
    assert!(
        judge(copy.path(), &promise)
            .refused()
            .contains("IDENTITY was replaced by an older")
    );
    fs::copy(
        forming.path().join("WATERMARK"),
        copy.path().join("WATERMARK"),
    )
    .unwrap();
    assert!(
        judge(copy.path(), &promise)
            .refused()
            .contains("IDENTITY was replaced by an older")
    );

    let old = fs::read(dir.path().join("WATERMARK")).unwrap();
    drop(open(dir.path()).unwrap());
    fs::write(dir.path().join("WATERMARK"), old).unwrap();
    assert!(
        judge(dir.path(), &promise)
            .refused()
            .contains("WATERMARK was replaced by an older")
    );
}

#[test]
fn the_watermark_of_another_directory_is_refused() {
    let (dir, promise) = template();
    let other = tempfile::tempdir().unwrap();
    let options = fencepost::server::store::Options {
        new_instance: fencepost::server::store::InstanceId::from_bytes([6; 16]),
        ..options()
    };
    drop(DiskStore::open(other.path(), &options).unwrap());
    fs::copy(other.path().join("WATERMARK"), dir.path().join("WATERMARK")).unwrap();
    let what = judge(dir.path(), &promise).refused();
    assert!(what.contains("WATERMARK belongs to another"), "{what}");
    assert!(what.contains(&"06".repeat(16)), "{what}");
}

#[test]
fn a_database_cut_short_anywhere_is_refused_or_whole() {
    let (dir, promise) = template();
    let bytes = fs::metadata(database(dir.path()).join("db")).unwrap().len();
    let mut random = Random(77);
    let mut cuts: Vec<u64> = (0..bytes).step_by(64 * 1024).collect();
    cuts.extend((0..40).map(|_| random.below(bytes)));
    let mut refused = 0;
    for cut in &cuts {
        let copy = image(dir.path());
        let file = fs::OpenOptions::new()
            .write(true)
            .open(database(copy.path()).join("db"));
        file.unwrap().set_len(*cut).unwrap();
        if let Verdict::Refused(_) = judge(copy.path(), &promise) {
            refused += 1;
        }
    }
    println!("{} cuts: {refused} refused, the others whole", cuts.len());
    assert!(refused > cuts.len() / 2);
}

#[test]
fn flipped_bits_are_refused_or_harmless() {
    let (dir, promise) = template();
    let (mut refused, mut whole) = (0, 0);
    for seed in 0..150 {
        let mut random = Random(seed);
        let copy = image(dir.path());
        let names = [
            "log.sled/db",
            "log.sled/db",
            "log.sled/db",
            "log.sled/conf",
            "WATERMARK",
        ];
        let name = names[usize::try_from(random.below(names.len() as u64)).unwrap()];
        let path = copy.path().join(name);
        let mut content = fs::read(&path).unwrap();
        for _ in 0..=random.below(4) {
            // Where something was written: a flip in the zeros behind it shows nothing.
            let used = content.iter().rposition(|byte| *byte != 0).unwrap() as u64 + 1;
            let at = usize::try_from(random.below(used)).unwrap();
            content[at] ^= 1 << random.below(8);
        }
        fs::write(&path, content).unwrap();
        match judge(copy.path(), &promise) {
            Verdict::Refused(what) => {
                refused += 1;
                println!("seed {seed}: {name}: {what}");
            }
            Verdict::Whole => whole += 1,
        }
    }
    println!("150 seeds: {refused} refused, {whole} whole");
    assert!(refused > 0 && whole > 0);
}

#[test]
fn a_purge_without_its_snapshot_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path()).unwrap();
    store.appended(entries(1, 0..50)).unwrap();
    store.saved(snapshot(id(1, 20), 5_000)).unwrap();
    store.purged(id(1, 30)).unwrap();
    drop(store);
    let what = judge(dir.path(), &Promise::default()).refused();
    assert!(
        what.contains("purged up to entry 30, but the snapshot ends at entry 20"),
        "{what}"
    );
}

#[test]
fn a_blob_file_is_refused() {
    let (dir, promise) = template();
    let blob = database(dir.path()).join("blobs/4711");
    fs::write(&blob, b"never synced").unwrap();
    let what = judge(dir.path(), &promise).refused();
    assert!(
        what.contains("blob files") && what.contains("4711"),
        "{what}"
    );
    fs::remove_file(blob).unwrap();
    judge(dir.path(), &promise).whole();
}

#[test]
fn the_largest_entries_and_snapshots_make_no_blob_file() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path()).unwrap();
    let large = |index| fencepost::server::store::Entry {
        index,
        term: 1,
        payload: vec![u8::try_from(index).unwrap(); 64 * 1024].into(),
    };
    // Neighbours in one leaf of the tree: it is their sum that would grow too large.
    store.appended((0..60).map(large).collect()).unwrap();
    store.saved(snapshot(id(1, 3), 3 << 20)).unwrap();
    assert_eq!(
        fs::read_dir(database(dir.path()).join("blobs"))
            .unwrap()
            .count(),
        0
    );
    drop(store);
    let (store, _) = open(dir.path()).unwrap();
    assert_eq!(store.all(), (0..60).map(large).collect::<Vec<_>>());
    assert_eq!(
        fs::read_dir(database(dir.path()).join("blobs"))
            .unwrap()
            .count(),
        0
    );
}

#[test]
fn a_half_written_engine_snapshot_is_deleted_and_nothing_else_is() {
    let (dir, promise) = template();
    let half = database(dir.path()).join("snap.00000000000A1F00.generating");
    let kept = database(dir.path()).join("keep.generating");
    fs::write(&half, b"half").unwrap();
    fs::write(&kept, b"somebody's").unwrap();
    let (store, recovered) = open(dir.path()).unwrap();
    assert_eq!(
        recovered.repairs,
        ["deleted half-written snap.00000000000A1F00.generating"]
    );
    drop(store);
    assert!(!half.exists() && kept.exists());
    judge(dir.path(), &promise).whole();
}

#[test]
fn lost_engine_snapshots_are_refused_or_harmless() {
    let (dir, promise) = template();
    drop(open(dir.path()).unwrap());
    let names = |dir: &Path| -> Vec<_> {
        let names = fs::read_dir(database(dir))
            .unwrap()
            .map(|item| item.unwrap().path());
        names
            .filter(|path| path.to_string_lossy().contains("/snap."))
            .collect()
    };
    assert!(
        !names(dir.path()).is_empty(),
        "sled wrote no snapshot of its own"
    );
    let lost = image(dir.path());
    names(lost.path())
        .iter()
        .for_each(|path| fs::remove_file(path).unwrap());
    println!("deleted: {:?}", judge(lost.path(), &promise));
    for bytes in [0, 5, 100] {
        let short = image(dir.path());
        for path in names(short.path()) {
            let content = fs::read(&path).unwrap();
            fs::write(&path, &content[..bytes.min(content.len())]).unwrap();
        }
        println!("cut to {bytes}: {:?}", judge(short.path(), &promise));
    }
}

#[test]
fn a_forming_node_may_start_over_and_keeps_its_instance() {
    let dir = tempfile::tempdir().unwrap();
    let (store, first) = DiskStore::open(dir.path(), &options()).unwrap();
    drop(store);
    let halves: [&dyn Fn(); 4] = [
        &|| fs::remove_dir_all(database(dir.path())).unwrap(),
        &|| fs::write(database(dir.path()).join("conf"), b"half a conf").unwrap(),
        &|| fs::write(database(dir.path()).join("db"), vec![7; 600_000]).unwrap(),
        &|| (),
    ];
    for (boots, damage) in (2..).zip(halves) {
        damage();
        let options = fencepost::server::store::Options {
            new_instance: fencepost::server::store::InstanceId::from_bytes([9; 16]),
            ..options()
        };
        let (store, recovered) = DiskStore::open(dir.path(), &options).unwrap();
        assert_eq!(recovered.identity, first.identity);
        assert_eq!(recovered.boots, boots);
        drop(store);
    }
    let (store, _) = open(dir.path()).unwrap();
    store.appended(entries(1, 0..3)).unwrap();
    drop(store);
    fs::remove_dir_all(database(dir.path())).unwrap();
    assert!(matches!(open(dir.path()), Err(OpenError::Damaged(_))));
}
