//! A file: written aside, synced, renamed, and its directory synced, with and without a guard.

use std::{
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use fencepost::fence::{
    fenced::{Applied, FencedResource},
    file::FileStore,
};

use crate::{
    at, body,
    rounds::{self, Variant, Writes},
    row, rules, sequencers,
};

pub(crate) async fn measure(writers: u64) {
    let directory = tempfile::tempdir().unwrap();
    let plain = directory.path().join("plain");
    fs::create_dir(&plain).unwrap();
    let store = FileStore::open(directory.path().join("fenced")).unwrap();
    let fenced = FencedResource::new(store, rules());
    let variants = vec![
        Variant::new(
            "unguarded",
            0,
            (0..writers)
                .map(|writer| unguarded(writer, plain.clone()))
                .collect(),
        ),
        Variant::new(
            "FencedResource<FileStore>",
            0,
            (0..writers)
                .map(|writer| applied(writer, fenced.clone()))
                .collect(),
        ),
    ];
    rounds::measure("file", 1, variants).await;
}

fn unguarded(writer: u64, directory: PathBuf) -> Box<dyn Writes> {
    Box::new(async move |n| {
        let directory = directory.clone();
        let write = move || replace(&directory, row(writer, n), body(n).as_bytes());
        tokio::task::spawn_blocking(write).await.unwrap();
    })
}

/// What a careful program does without a guard: the old value or the new one, whatever happens.
fn replace(directory: &Path, id: u64, value: &[u8]) {
    let aside = directory.join(format!("{id}.aside"));
    let mut file = fs::File::create(&aside).unwrap();
    file.write_all(value).unwrap();
    file.sync_all().unwrap();
    fs::rename(&aside, directory.join(format!("{id}.value"))).unwrap();
    fs::File::open(directory).unwrap().sync_all().unwrap();
}

fn applied(writer: u64, fenced: FencedResource<FileStore>) -> Box<dyn Writes> {
    let sequencers = sequencers(writer);
    Box::new(async move |n| {
        let sequencer = &sequencers[at(n)];
        let value = body(n);
        let applied = fenced.apply(&sequencer.resource, value.as_bytes(), sequencer);
        assert!(matches!(applied.await.unwrap(), Applied::Accepted));
    })
}
