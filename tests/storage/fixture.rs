//! Stores, entries and random numbers for the tests.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use fencepost::resource::IssuerName;
use fencepost::server::store::{
    ClusterId, DiskStore, Entry, InstanceId, LogId, MemoryDisk, MemoryStore, NewSnapshot,
    OpenError, Options, Ready, Recovered, Store, StoreError, StoredVote, completion,
};

/// The node that every test store belongs to.
pub(crate) const NODE: u64 = 3;

pub(crate) fn cluster() -> ClusterId {
    ClusterId::new(0xc1)
}

pub(crate) fn issuer() -> IssuerName {
    IssuerName::new("storage").unwrap()
}

pub(crate) fn ready() -> Ready {
    Ready {
        cluster: cluster(),
        issuer: issuer(),
        founders: Vec::new(),
    }
}

pub(crate) fn options() -> Options {
    Options {
        cache_bytes: 4 << 20,
        ..Options::new(NODE, InstanceId::from_bytes([5; 16]))
    }
}

/// Opens a directory and binds it to the test cluster.
pub(crate) fn open(dir: &Path) -> Result<(DiskStore, Recovered), OpenError> {
    let (store, recovered) = DiskStore::open(dir, &options())?;
    store.make_ready(ready()).unwrap();
    Ok((store, recovered))
}

/// A disk of either kind, on which a store can be opened again and again.
pub(crate) enum Disk {
    Sled(tempfile::TempDir),
    Memory(MemoryDisk),
}

impl Disk {
    pub(crate) fn both() -> [Self; 2] {
        [
            Self::Sled(tempfile::tempdir().unwrap()),
            Self::Memory(MemoryDisk::new(NODE, InstanceId::from_bytes([5; 16]))),
        ]
    }

    pub(crate) fn open(&self) -> (Box<dyn Store>, Recovered) {
        match self {
            Self::Sled(dir) => {
                let (store, recovered) = open(dir.path()).unwrap();
                (Box::new(store), recovered)
            }
            Self::Memory(disk) => {
                let (store, recovered) = MemoryStore::open(disk);
                store.make_ready(ready()).unwrap();
                (Box::new(store), recovered)
            }
        }
    }
}

/// An entry whose payload follows from where it is, so that a reader can tell a wrong one.
pub(crate) fn entry(term: u64, index: u64) -> Entry {
    let mut random = Random(term.wrapping_mul(0x9e37_79b9).wrapping_add(index));
    // Now and then one that does not fit into a record.
    let bytes = match index % 97 {
        96 => 5_000 + random.below(50_000),
        _ => random.below(300),
    };
    Entry {
        index,
        term,
        payload: (0..bytes).map(|_| random.byte()).collect::<Vec<_>>().into(),
    }
}

pub(crate) fn entries(term: u64, range: std::ops::Range<u64>) -> Vec<Entry> {
    range.map(|index| entry(term, index)).collect()
}

pub(crate) fn id(term: u64, index: u64) -> LogId {
    LogId { term, index }
}

pub(crate) fn vote(term: u64, committed: bool) -> StoredVote {
    StoredVote {
        term,
        node_id: Some(NODE),
        committed,
    }
}

pub(crate) fn snapshot(last: LogId, bytes: usize) -> NewSnapshot {
    let mut random = Random(last.index);
    let content: Vec<u8> = (0..bytes).map(|_| random.byte()).collect();
    NewSnapshot {
        last: Some(last),
        meta: Bytes::from(format!("meta of {}", last.index)),
        pieces: content.chunks(10_007).map(Bytes::copy_from_slice).collect(),
    }
}

/// Does one write and waits until it is durable.
pub(crate) trait Done: Store {
    fn appended(&self, entries: Vec<Entry>) -> Result<(), StoreError> {
        let (done, completed) = completion();
        self.append(entries, done);
        completed.wait()
    }

    fn voted(&self, vote: StoredVote) -> Result<(), StoreError> {
        let (done, completed) = completion();
        self.save_vote(vote, done);
        completed.wait()
    }

    fn truncated(&self, last: Option<LogId>) -> Result<(), StoreError> {
        let (done, completed) = completion();
        self.truncate_after(last, done);
        completed.wait()
    }

    fn purged(&self, upto: LogId) -> Result<(), StoreError> {
        let (done, completed) = completion();
        self.purge(upto, done);
        completed.wait()
    }

    fn saved(&self, snapshot: NewSnapshot) -> Result<(), StoreError> {
        let (done, completed) = completion();
        self.save_snapshot(snapshot, done);
        completed.wait()
    }

    fn all(&self) -> Vec<Entry> {
        self.read(0..u64::MAX, usize::MAX).unwrap()
    }
}

impl<S: Store + ?Sized> Done for S {}

/// Copies a data directory as it is, open or not.
pub(crate) fn image(of: &Path) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    copy(of, to.path());
    to
}

pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for item in std::fs::read_dir(from).unwrap() {
        let item = item.unwrap();
        let target = to.join(item.file_name());
        if item.file_type().unwrap().is_dir() {
            copy(&item.path(), &target);
        } else {
            std::fs::copy(item.path(), target).unwrap();
        }
    }
}

pub(crate) fn database(dir: &Path) -> PathBuf {
    dir.join("log.sled")
}

/// A small seeded generator (splitmix64).
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }
}
