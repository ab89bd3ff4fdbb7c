//! The test binary run again as a child process that is killed in the middle of its work.
//!
//! The child runs the same test, finds its role in the environment, and tells on its standard
//! output what was acknowledged, one line each. The parent believes whole lines only.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use fencepost::server::store::{Completed, LogId, Store, completion};

use crate::fixture::*;

const DIR: &str = "FENCEPOST_TEST_STORE_DIR";
const SEED: &str = "FENCEPOST_TEST_STORE_SEED";
const MARK: &str = "store-worker ";

/// Longest wait for a line of a child; a bound, not a timing.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What a child was told to do, if this process is one.
pub(crate) fn role() -> Option<(PathBuf, u64)> {
    let dir = std::env::var_os(DIR)?;
    let seed = std::env::var(SEED).unwrap().parse().unwrap();
    Some((dir.into(), seed))
}

/// Tells the parent something.
pub(crate) fn tell(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{MARK}{line}").unwrap();
    out.flush().unwrap();
}

/// The command that runs `test` in a child with this role.
pub(crate) fn command(test: &str, dir: &Path, seed: u64) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
    command.env(DIR, dir).env(SEED, seed.to_string());
    command
}

/// A running child and the lines that it tells. Killed when dropped.
pub(crate) struct Worker {
    child: Child,
    lines: Receiver<String>,
}

impl Worker {
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        std::thread::spawn(move || {
            for line in out.split(b'\n') {
                let Ok(line) = line else { return };
                let line = String::from_utf8_lossy(&line).into_owned();
                if let Some(told) = line.strip_prefix(MARK)
                    && sender.send(told.to_owned()).is_err()
                {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    /// The next line, or `None` if none comes before `patience` or the child ends.
    pub(crate) fn line(&self, patience: Duration) -> Option<String> {
        self.lines.recv_timeout(patience).ok()
    }

    /// Kills with SIGKILL and returns what it had still told.
    pub(crate) fn kill(mut self) -> Vec<String> {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        self.rest()
    }

    /// Waits for the end of the child by itself; returns what it had told.
    pub(crate) fn wait(mut self) -> (std::process::ExitStatus, Vec<String>) {
        let status = self.child.wait().unwrap();
        (status, self.rest())
    }

    fn rest(&mut self) -> Vec<String> {
        let start = Instant::now();
        let mut told = Vec::new();
        // The reader ends at the end of the pipe, which the dead child has closed.
        while let Ok(line) = self
            .lines
            .recv_timeout(PATIENCE.saturating_sub(start.elapsed()))
        {
            told.push(line);
        }
        told
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Already dead if it was killed or waited for.
        let _gone = self.child.kill();
        let _gone = self.child.wait();
    }
}

/// The child's work: appends without pause, with votes, truncations, purges and snapshots mixed in.
pub(crate) fn work(dir: &Path, seed: u64) -> ! {
    tell("opening");
    let (store, recovered) = open(dir).unwrap();
    tell(&format!("open {}", recovered.boots));
    let mut random = Random(seed);
    // A term of its own for each life, above any before.
    let mut term = recovered.boots * 1_000;
    loop {
        append_burst(&store, term, &mut random);
        let state = store.log_state();
        match random.below(8) {
            0 => {
                term += 1;
                store.voted(vote(term, random.below(2) == 0)).unwrap();
                tell(&format!("voted {term}"));
            }
            1 => {
                let span = state.next_index() - state.first_index();
                let keep = state.next_index() - 1 - random.below(span.min(40));
                if keep > state.first_index() {
                    truncate(&store, keep);
                    term += 1;
                }
            }
            2 => snapshot_and_purge(&store, &mut random),
            _ => {}
        }
    }
}

/// Several appends in flight at once, acknowledged in order.
fn append_burst(store: &dyn Store, term: u64, random: &mut Random) {
    let mut waiting: Vec<(LogId, Completed)> = Vec::new();
    for _ in 0..=random.below(12) {
        let first = store.log_state().next_index();
        let next = first + 1 + random.below(20);
        let (done, completed) = completion();
        store.append(entries(term, first..next), done);
        waiting.push((id(term, next - 1), completed));
    }
    for (last, completed) in waiting {
        completed.wait().unwrap();
        tell(&format!("appended {} {}", last.term, last.index));
    }
}

fn truncate(store: &dyn Store, keep: u64) {
    let kept = store.read(keep..keep + 1, 0).unwrap().remove(0).log_id();
    tell(&format!("cutting {}", kept.index));
    store.truncated(Some(kept)).unwrap();
    tell(&format!("cut {}", kept.index));
}

fn snapshot_and_purge(store: &dyn Store, random: &mut Random) {
    let state = store.log_state();
    let span = state.next_index() - state.first_index();
    let at = state.first_index() + random.below(span);
    let Some(last) = store
        .read(at..at + 1, 0)
        .unwrap()
        .first()
        .map(|entry| entry.log_id())
    else {
        return;
    };
    let bytes = usize::try_from(random.below(200_000)).unwrap();
    store.saved(snapshot(last, bytes)).unwrap();
    tell(&format!("saved {} {}", last.term, last.index));
    tell(&format!("purging {}", last.index));
    store.purged(last).unwrap();
    tell(&format!("purged {}", last.index));
}
