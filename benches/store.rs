//! How fast the log takes entries: packed runs, one record an entry, and a plain file beside them.
//!
//! So many writers wait for the disk at once: a round appends one entry of 100 bytes for each of
//! them and waits until the group is durable. A snapshot of 256 KiB and a purge follow every
//! 20,000 entries, as on a node. CPU is that of the whole process for one entry; the bench itself
//! takes next to none of it. Printed, never asserted.
//!
//! `cargo bench --bench store` (a directory for the files: `FENCEPOST_BENCH_DIR`, default `target`)
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a bench reads clocks, and a panic is its failure"
)]

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fencepost::resource::IssuerName;
use fencepost::server::store::{
    ClusterId, Completion, DiskStore, Entry, GroupCommit, InstanceId, LogId, NewSnapshot, Options,
    Ready, Store, StoreObserver, completion,
};

const WRITERS: [usize; 4] = [1, 64, 256, 1_024];
const RUN: Duration = Duration::from_secs(4);
const ENTRY_BYTES: usize = 100;
const PURGE_EVERY: u64 = 20_000;

/// Where a log entry goes.
trait Log {
    /// Appends the next entries; `done` is called when they are durable.
    fn append(&self, entries: Vec<Entry>, done: Completion);
    fn file(&self) -> PathBuf;
}

fn main() {
    let root = std::env::var_os("FENCEPOST_BENCH_DIR").map_or_else(
        || std::env::current_dir().unwrap().join("target"),
        PathBuf::from,
    );
    println!(
        "{:<28} {:>7} {:>10} {:>9} {:>9} {:>9} {:>9}",
        "log", "writers", "entries/s", "p50 us", "p99 us", "cpu us", "file MiB"
    );
    for writers in WRITERS {
        for name in [
            "packed",
            "packed, watermark synced",
            "one record an entry",
            "plain file",
        ] {
            let dir = tempfile::Builder::new()
                .prefix("bench-store")
                .tempdir_in(&root)
                .unwrap();
            let log: Box<dyn Log> = match name {
                "plain file" => Box::new(PlainFile::open(dir.path())),
                "one record an entry" => Box::new(Sled::open(dir.path(), 0, false)),
                "packed" => Box::new(Sled::open(dir.path(), 4_096, false)),
                _ => Box::new(Sled::open(dir.path(), 4_096, true)),
            };
            measure(name, log.as_ref(), writers).print();
        }
    }
    watermark_alone(&root);
}

struct Row {
    name: String,
    writers: usize,
    entries: u64,
    took: Duration,
    cpu: Duration,
    latencies: Vec<Duration>,
    file_bytes: u64,
}

impl Row {
    fn print(mut self) {
        self.latencies.sort_unstable();
        let at =
            |percent: usize| self.latencies[(self.latencies.len() - 1) * percent / 100].as_micros();
        println!(
            "{:<28} {:>7} {:>10.0} {:>9} {:>9} {:>9.1} {:>9.1}",
            self.name,
            self.writers,
            self.entries as f64 / self.took.as_secs_f64(),
            at(50),
            at(99),
            self.cpu.as_secs_f64() * 1e6 / self.entries as f64,
            self.file_bytes as f64 / f64::from(1 << 20),
        );
    }
}

fn measure(name: &str, log: &dyn Log, writers: usize) -> Row {
    let payload = Bytes::from(vec![7; ENTRY_BYTES]);
    let (mut index, mut latencies) = (0, Vec::new());
    let cpu = cpu_time();
    let started = Instant::now();
    while started.elapsed() < RUN {
        let entries = (index..).take(writers).map(|index| Entry {
            index,
            term: 1,
            payload: payload.clone(),
        });
        let asked = Instant::now();
        let (done, completed) = completion();
        log.append(entries.collect(), done);
        completed.wait().unwrap();
        latencies.push(asked.elapsed());
        index += writers as u64;
    }
    Row {
        name: name.to_owned(),
        writers,
        entries: index,
        took: started.elapsed(),
        cpu: cpu_time() - cpu,
        latencies,
        file_bytes: std::fs::metadata(log.file()).unwrap().len(),
    }
}

struct Sled {
    store: DiskStore,
    dir: PathBuf,
}

impl Sled {
    fn open(dir: &Path, record_bytes_max: usize, sync_watermark_always: bool) -> Self {
        let options = Options {
            record_bytes_max,
            sync_watermark_always,
            ..Options::new(1, InstanceId::new(1))
        };
        Self {
            store: open_bound(dir, &options),
            dir: dir.to_owned(),
        }
    }
}

/// Opens a new store and binds it to a cluster, as it must be before it takes entries.
fn open_bound(dir: &Path, options: &Options) -> DiskStore {
    let (store, _) = DiskStore::open(dir, options).unwrap();
    let cluster = Ready {
        cluster: ClusterId::new(1),
        issuer: IssuerName::new("bench").unwrap(),
        founders: Vec::new(),
    };
    store.make_ready(cluster).unwrap();
    store
}

impl Log for Sled {
    fn append(&self, entries: Vec<Entry>, done: Completion) {
        let first = entries[0].index;
        let next = first + entries.len() as u64;
        self.store.append(entries, done);
        self.store.save_committed(Some(LogId {
            term: 1,
            index: next - 1,
        }));
        if first / PURGE_EVERY < next / PURGE_EVERY {
            let upto = LogId {
                term: 1,
                index: next - 1,
            };
            let pieces = vec![Bytes::from(vec![0; 256 * 1024])];
            let snapshot = NewSnapshot {
                last: Some(upto),
                meta: Bytes::new(),
                pieces,
            };
            self.store.save_snapshot(snapshot, Box::new(Result::unwrap));
            self.store.purge(upto, Box::new(Result::unwrap));
        }
    }

    fn file(&self) -> PathBuf {
        self.dir.join("log.sled/db")
    }
}

/// The least that a log can do: append to a file, fdatasync, on a thread of its own.
struct PlainFile {
    jobs: std::sync::mpsc::Sender<(Vec<Entry>, Completion)>,
    path: PathBuf,
}

impl PlainFile {
    fn open(dir: &Path) -> Self {
        let path = dir.join("log");
        let mut file = File::create(&path).unwrap();
        let (jobs, todo) = std::sync::mpsc::channel::<(Vec<Entry>, Completion)>();
        std::thread::spawn(move || {
            while let Ok((entries, done)) = todo.recv() {
                let mut bytes = Vec::new();
                for entry in &entries {
                    bytes.extend_from_slice(&entry.term.to_le_bytes());
                    bytes.extend_from_slice(&entry.payload);
                }
                file.write_all(&bytes).unwrap();
                file.sync_data().unwrap();
                done(Ok(()));
            }
        });
        Self { jobs, path }
    }
}

impl Log for PlainFile {
    fn append(&self, entries: Vec<Entry>, done: Completion) {
        self.jobs.send((entries, done)).unwrap();
    }

    fn file(&self) -> PathBuf {
        self.path.clone()
    }
}

/// Times of the flushes and of the watermark's own fdatasync, as the storage thread measures them.
#[derive(Default)]
struct Times(Mutex<(Vec<Duration>, Vec<Duration>)>);

impl StoreObserver for Times {
    fn committed(&self, group: &GroupCommit) {
        self.0.lock().unwrap().0.push(group.flush);
    }

    fn watermark_synced(&self, took: Duration) {
        self.0.lock().unwrap().1.push(took);
    }
}

fn watermark_alone(root: &Path) {
    let dir = tempfile::Builder::new()
        .prefix("bench-store")
        .tempdir_in(root)
        .unwrap();
    let times = Arc::new(Times::default());
    let options = Options {
        sync_watermark_always: true,
        observer: Arc::clone(&times) as _,
        ..Options::new(1, InstanceId::new(1))
    };
    let store = open_bound(dir.path(), &options);
    for index in 0..2_000 {
        let (done, completed) = completion();
        store.append(
            vec![Entry {
                index,
                term: 1,
                payload: Bytes::from(vec![0; 100]),
            }],
            done,
        );
        completed.wait().unwrap();
    }
    drop(store);
    let mut times = times.0.lock().unwrap();
    for (what, times) in [
        ("a flush", times.0.clone()),
        ("the watermark", std::mem::take(&mut times.1)),
    ] {
        let mut times = times;
        times.sort_unstable();
        let median = times[times.len() / 2].as_micros();
        let p99 = times[times.len() * 99 / 100].as_micros();
        println!(
            "{what}: {} times, median {median} us, p99 {p99} us",
            times.len()
        );
    }
}

/// CPU time of this process so far.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    // Behind the command name, which may hold blanks: utime and stime are fields 14 and 15.
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
    Duration::from_millis(ticks * 10)
}
