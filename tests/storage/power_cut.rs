//! Crashes at the worst instants: a power cut in the middle of a write, and a death between two
//! steps whose order matters.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};

use fencepost::server::store::{DiskStore, GroupCommit, Options, Store, StoreObserver, completion};

use crate::damage::history;
use crate::fixture::*;
use crate::judge::{Promise, Verdict, judge};

#[test]
fn a_torn_last_write_loses_nothing_that_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = history(dir.path());
    let before = image(dir.path());
    let promise = Promise::of(image(before.path()).path());
    store.appended(entries(2, 320..350)).unwrap();
    let after = image(dir.path());
    let acknowledged = Promise::of(image(after.path()).path());
    drop(store);
    let old = fs::read(database(before.path()).join("db")).unwrap();
    let new = fs::read(database(after.path()).join("db")).unwrap();
    let changed = |at: &usize| old.get(*at) != Some(&new[*at]);
    let first = (0..new.len()).find(changed).unwrap() / 512 * 512;
    let last = (0..new.len()).rfind(changed).unwrap();
    let mut refused = 0;
    for cut in (first..=last).step_by(512) {
        // The write was torn here before its flush returned: nobody was told.
        let mut torn = old.clone();
        torn.resize(new.len(), 0);
        torn[first..cut].copy_from_slice(&new[first..cut]);
        let copy = image(before.path());
        fs::write(database(copy.path()).join("db"), &torn).unwrap();
        judge(copy.path(), &promise).whole();
        // The same, but it had been acknowledged: the disk lied or lost it later.
        let copy = image(after.path());
        fs::write(database(copy.path()).join("db"), &torn).unwrap();
        if let Verdict::Refused(_) = judge(copy.path(), &acknowledged) {
            refused += 1;
        }
    }
    println!(
        "torn at {} places, {refused} refused",
        (last - first) / 512 + 1
    );
    assert!(refused > 0);
}

#[test]
fn a_crash_around_a_truncation_is_not_damage() {
    let dir = tempfile::tempdir().unwrap();
    let (store, before) = history(dir.path());
    let whole = image(dir.path());
    store.truncated(Some(id(2, 290))).unwrap();
    let cut = image(dir.path());
    let mut promise = before.clone();
    promise.entries.retain(|entry| entry.index <= 290);
    drop(store);
    // Truncated, and no append came: this is not a log that lost its tail.
    judge(image(cut.path()).path(), &promise).whole();
    // The watermark was lowered, and the truncation itself did not reach the disk.
    let lowered = image(whole.path());
    fs::copy(
        cut.path().join("WATERMARK"),
        lowered.path().join("WATERMARK"),
    )
    .unwrap();
    judge(lowered.path(), &before).whole();
    // A log that is short without the watermark having been lowered is one that lost its tail.
    let lost = image(cut.path());
    fs::copy(
        whole.path().join("WATERMARK"),
        lost.path().join("WATERMARK"),
    )
    .unwrap();
    let what = judge(lost.path(), &before).refused();
    assert!(what.contains("acknowledged entries are missing"), "{what}");
}

/// One write, named, and what of the promise it takes back by intention.
type Write = (&'static str, fn(&DiskStore), Option<u64>);

const WRITES: [Write; 6] = [
    (
        "append",
        |store| store.appended(entries(2, 320..420)).unwrap(),
        None,
    ),
    (
        "large append",
        |store| store.appended(entries(2, 320..700)).unwrap(),
        None,
    ),
    ("vote", |store| store.voted(vote(3, false)).unwrap(), None),
    (
        "truncation",
        |store| store.truncated(Some(id(2, 290))).unwrap(),
        Some(290),
    ),
    ("purge", |store| store.purged(id(1, 199)).unwrap(), None),
    (
        "snapshot",
        |store| store.saved(snapshot(id(2, 300), 90_000)).unwrap(),
        None,
    ),
];

#[test]
fn a_power_cut_in_the_middle_of_any_write_loses_nothing_that_was_acknowledged() {
    for (name, write, cut) in WRITES {
        let dir = tempfile::tempdir().unwrap();
        let (store, mut promise) = history(dir.path());
        drop(store);
        promise
            .entries
            .retain(|entry| cut.is_none_or(|cut| entry.index <= cut));
        let mut before = None;
        let photos = photographed(dir.path(), |store| {
            before = Some(image(dir.path()));
            write(store);
        });
        let mut states = vec![before.unwrap()];
        states.extend(photos);
        // From one flush to the next is what a cache may hold. The watermark of the later image is
        // the one that was there during that flush: it had been lowered and was not raised yet.
        for pair in states.windows(2) {
            for seed in 0..15 {
                let crashed = cut_off(pair[0].path(), pair[1].path(), &mut Random(seed));
                if let Verdict::Refused(what) = judge(crashed.path(), &promise) {
                    panic!("{name}, seed {seed}: a healthy directory was refused: {what}");
                }
            }
        }
    }
}

/// What a power cut between two flushes leaves: the cache of the drive wrote some sectors and others
/// not, in any order.
fn cut_off(before: &Path, after: &Path, random: &mut Random) -> tempfile::TempDir {
    let old = fs::read(database(before).join("db")).unwrap();
    let new = fs::read(database(after).join("db")).unwrap();
    let changed = |at: &usize| old.get(*at) != Some(&new[*at]);
    let first = (0..new.len()).find(changed).unwrap_or(0);
    let last = (0..new.len()).rfind(changed).unwrap_or(0);
    let in_order = random.below(2) == 0;
    // In order up to some place, or each with the same chance.
    let share = random.below(100);
    let end = first + usize::try_from(share).unwrap() * (last - first) / 100;
    let mut mixed = old.clone();
    mixed.resize(new.len(), 0);
    let sectors = mixed.chunks_mut(512).zip(new.chunks(512));
    for (at, (sector, written)) in sectors.enumerate() {
        let reached = if in_order {
            at * 512 < end
        } else {
            random.below(100) < share
        };
        if reached {
            sector.copy_from_slice(written);
        }
    }
    let crashed = image(after);
    fs::write(database(crashed.path()).join("db"), &mixed).unwrap();
    crashed
}

/// Takes an image after each flush, before the watermark is told of it.
#[derive(Default)]
struct Photographer {
    images: Mutex<Vec<tempfile::TempDir>>,
    dir: Mutex<Option<std::path::PathBuf>>,
}

impl StoreObserver for Photographer {
    fn committed(&self, _: &GroupCommit) {
        if let Some(dir) = &*self.dir.lock().unwrap() {
            self.images.lock().unwrap().push(image(dir));
        }
    }
}

/// The images that a write makes.
fn photographed(dir: &Path, write: impl FnOnce(&DiskStore)) -> Vec<tempfile::TempDir> {
    let photographer = Arc::new(Photographer::default());
    let options = Options {
        observer: Arc::clone(&photographer) as _,
        ..options()
    };
    let (store, _) = DiskStore::open(dir, &options).unwrap();
    *photographer.dir.lock().unwrap() = Some(dir.to_owned());
    write(&store);
    *photographer.dir.lock().unwrap() = None;
    drop(store);
    std::mem::take(&mut *photographer.images.lock().unwrap())
}

#[test]
fn the_watermark_is_lowered_before_a_truncation_and_raised_after_a_flush() {
    let dir = tempfile::tempdir().unwrap();
    let (store, promise) = history(dir.path());
    drop(store);
    let before = image(dir.path());
    for photo in photographed(dir.path(), |store| {
        store.appended(entries(2, 320..400)).unwrap()
    }) {
        // Flushed, and the watermark does not know yet: the old database must still do.
        let older = image(before.path());
        fs::copy(
            photo.path().join("WATERMARK"),
            older.path().join("WATERMARK"),
        )
        .unwrap();
        judge(older.path(), &promise).whole();
        judge(photo.path(), &promise).whole();
    }
    let mut kept = promise.clone();
    kept.entries.retain(|entry| entry.index <= 295);
    let photos = photographed(dir.path(), |store| {
        store.truncated(Some(id(2, 295))).unwrap()
    });
    assert!(!photos.is_empty());
    for photo in photos {
        judge(photo.path(), &kept).whole();
    }
    // Cut and appended to in one group, with a new term.
    let photos = photographed(dir.path(), |store| {
        let (cut, _cut) = completion();
        store.truncate_after(Some(id(2, 285)), cut);
        store.appended(entries(7, 286..290)).unwrap();
    });
    kept.entries.retain(|entry| entry.index <= 285);
    for photo in photos {
        judge(photo.path(), &kept).whole();
    }
}
