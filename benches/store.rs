//! How fast the log takes entries: packed runs, one record an entry, and a plain file beside them.
//!
//! Each row runs so many writers that append one entry of 100 bytes after the other and wait for
//! it to be durable, as clients do. A snapshot and a purge follow every 20,000 entries, as on a
//! node. CPU is that of the whole process, the writers included. Printed, never asserted.
//!
//! `cargo bench --bench store` (a directory for the files: `FENCEPOST_BENCH_DIR`, default here)
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a bench reads clocks, and a panic is its failure"
)]

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fencepost::server::store::{
    ClusterId, Completion, DiskStore, Entry, GroupCommit, InstanceId, LogId, NewSnapshot, Options,
    Ready, Store, StoreObserver,
};

const WRITERS: [usize; 4] = [1, 64, 256, 1_024];
const RUN: Duration = Duration::from_secs(4);
const ENTRY_BYTES: usize = 100;
const PURGE_EVERY: u64 = 20_000;

/// Where a log entry goes.
trait Log: Send + Sync {
    /// Appends the next entry; `done` is called when it is durable.
    fn append(&self, entries: Vec<Entry>, done: Completion);
    fn file(&self) -> PathBuf;
}

fn main() {
    let root = std::env::var_os("FENCEPOST_BENCH_DIR").map_or_else(
        || std::env::current_dir().unwrap().join("target"),
        PathBuf::from,
    );
    println!(
        "{:<28} {:>7} {:>10} {:>9} {:>9} {:>9} {:>7} {:>9}",
        "log", "writers", "entries/s", "p50 us", "p99 us", "cpu us", "group", "file MiB"
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
            let log: Arc<dyn Log> = match name {
                "plain file" => Arc::new(PlainFile::open(dir.path())),
                "one record an entry" => Arc::new(Sled::open(dir.path(), 0, false)),
                "packed" => Arc::new(Sled::open(dir.path(), 4_096, false)),
                _ => Arc::new(Sled::open(dir.path(), 4_096, true)),
            };
            measure(name, &log, writers).print();
        }
    }
    watermark_alone(&root);
}

struct Row {
    name: String,
    writers: usize,
    entries: usize,
    took: Duration,
    cpu: Duration,
    latencies: Vec<Duration>,
    groups: usize,
    file_bytes: u64,
}

impl Row {
    fn print(mut self) {
        self.latencies.sort_unstable();
        let at =
            |percent: usize| self.latencies[(self.latencies.len() - 1) * percent / 100].as_micros();
        println!(
            "{:<28} {:>7} {:>10.0} {:>9} {:>9} {:>9.1} {:>7.1} {:>9.1}",
            self.name,
            self.writers,
            self.entries as f64 / self.took.as_secs_f64(),
            at(50),
            at(99),
            self.cpu.as_secs_f64() * 1e6 / self.entries as f64,
            self.entries as f64 / self.groups.max(1) as f64,
            self.file_bytes as f64 / f64::from(1 << 20),
        );
    }
}

/// Raft's part: one thread that gathers what the writers ask for into appends, as openraft does.
struct Front {
    waiting: Mutex<Vec<std::sync::mpsc::SyncSender<()>>>,
    wake: Condvar,
}

fn measure(name: &str, log: &Arc<dyn Log>, writers: usize) -> Row {
    let front = Front {
        waiting: Mutex::new(Vec::new()),
        wake: Condvar::new(),
    };
    let until = Instant::now() + RUN;
    let cpu = cpu_time();
    let started = Instant::now();
    let (latencies, appends) = std::thread::scope(|scope| {
        let hands: Vec<_> = (0..writers)
            .map(|_| scope.spawn(|| write(&front, until)))
            .collect();
        let gatherer = scope.spawn(|| gather(&front, log.as_ref(), until));
        let latencies: Vec<_> = hands
            .into_iter()
            .flat_map(|hand| hand.join().unwrap())
            .collect();
        front.wake.notify_all();
        (latencies, gatherer.join().unwrap())
    });
    Row {
        name: name.to_owned(),
        writers,
        entries: latencies.len(),
        took: started.elapsed(),
        cpu: cpu_time() - cpu,
        latencies,
        groups: appends,
        file_bytes: std::fs::metadata(log.file()).unwrap().len(),
    }
}

fn write(front: &Front, until: Instant) -> Vec<Duration> {
    let (sender, receiver) = std::sync::mpsc::sync_channel(1);
    let mut latencies = Vec::new();
    while Instant::now() < until {
        let asked = Instant::now();
        front.waiting.lock().unwrap().push(sender.clone());
        front.wake.notify_one();
        receiver.recv().unwrap();
        latencies.push(asked.elapsed());
    }
    latencies
}

fn gather(front: &Front, log: &dyn Log, until: Instant) -> usize {
    let payload = Bytes::from(vec![7; ENTRY_BYTES]);
    let (mut index, mut appends) = (0, 0);
    // An append waits while one is on its way, so that groups can gather, as with one disk.
    let busy = Arc::new((Mutex::new(false), Condvar::new()));
    loop {
        let mut waiting = front.waiting.lock().unwrap();
        while waiting.is_empty() {
            if Instant::now() >= until + Duration::from_millis(500) {
                return appends;
            }
            waiting = front
                .wake
                .wait_timeout(waiting, Duration::from_millis(20))
                .unwrap()
                .0;
        }
        let callers = std::mem::take(&mut *waiting);
        drop(waiting);
        let entries: Vec<_> = (index..)
            .take(callers.len())
            .map(|index| Entry {
                index,
                term: 1,
                payload: payload.clone(),
            })
            .collect();
        index += callers.len() as u64;
        appends += 1;
        *busy.0.lock().unwrap() = true;
        let free = Arc::clone(&busy);
        log.append(
            entries,
            Box::new(move |result| {
                result.unwrap();
                callers
                    .into_iter()
                    .for_each(|caller| caller.send(()).unwrap());
                *free.0.lock().unwrap() = false;
                free.1.notify_one();
            }),
        );
        let guard = busy.1.wait_while(busy.0.lock().unwrap(), |busy| *busy);
        drop(guard.unwrap());
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
            ..Options::new(1, InstanceId([1; 16]))
        };
        let (store, _) = DiskStore::open(dir, &options).unwrap();
        store
            .make_ready(Ready {
                cluster: ClusterId::new(1),
                founders: Vec::new(),
            })
            .unwrap();
        Self {
            store,
            dir: dir.to_owned(),
        }
    }
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
        ..Options::new(1, InstanceId([1; 16]))
    };
    let (store, _) = DiskStore::open(dir.path(), &options).unwrap();
    store
        .make_ready(Ready {
            cluster: ClusterId::new(1),
            founders: Vec::new(),
        })
        .unwrap();
    for index in 0..2_000 {
        let (done, completed) = fencepost::server::store::completion();
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
