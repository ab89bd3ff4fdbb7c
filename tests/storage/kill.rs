//! Killing the process that writes, again and again, on one directory.

use std::path::Path;
use std::time::Duration;

use fencepost::server::store::Store;

use crate::fixture::*;
use crate::worker::{self, PATIENCE, Worker};

/// Kills in one run. More with `FENCEPOST_TEST_KILLS`.
const KILLS: u64 = 30;

/// What the parent knows from what the children told.
#[derive(Debug, Default)]
struct Known {
    /// Terms of acknowledged entries by index.
    entries: std::collections::BTreeMap<u64, u64>,
    voted: u64,
    saved: u64,
    boots: u64,
    purging: u64,
    counts: std::collections::BTreeMap<String, u64>,
}

impl Known {
    fn hear(&mut self, line: &str) {
        let mut words = line.split(' ');
        let what = words.next().unwrap();
        let numbers: Vec<u64> = words.map(|word| word.parse().unwrap()).collect();
        *self.counts.entry(what.to_owned()).or_default() += 1;
        match (what, numbers[..].first(), numbers.get(1)) {
            ("open", Some(boots), _) => {
                // A start that was killed before it could tell may have been counted or not.
                assert!(
                    (1..=2).contains(&(boots - self.boots)),
                    "a start was not counted"
                );
                self.boots = *boots;
            }
            ("appended", Some(term), Some(last)) => {
                // Everything since the last acknowledged entry is of this life and term.
                let first = self
                    .entries
                    .last_key_value()
                    .map_or(0, |(index, _)| index + 1);
                self.entries
                    .extend((first..=*last).map(|index| (index, *term)));
            }
            // From here on the tail may be gone, or not.
            ("cutting", Some(keep), _) => drop(self.entries.split_off(&(keep + 1))),
            ("voted", Some(term), _) => self.voted = *term,
            ("saved", Some(_), Some(last)) => self.saved = *last,
            ("purging", Some(upto), _) => self.purging = *upto,
            _ => {}
        }
    }

    /// Opens the directory and looks for everything that was told.
    fn check(&mut self, dir: &Path) {
        let (store, recovered) = open(dir).unwrap_or_else(|e| panic!("refused after a kill: {e}"));
        self.hear(&format!("open {}", recovered.boots));
        let state = store.log_state();
        assert!(
            state.first_index() <= self.purging + 1,
            "purged more than was asked"
        );
        let found = store.all();
        for entry in &found {
            assert_eq!(*entry, crate::fixture::entry(entry.term, entry.index));
        }
        for (index, term) in self.entries.range(state.first_index()..) {
            let at = usize::try_from(index - state.first_index()).unwrap();
            let entry = found
                .get(at)
                .unwrap_or_else(|| panic!("entry {index} of {term} is lost"));
            assert_eq!(
                entry.log_id(),
                id(*term, *index),
                "an acknowledged entry was lost"
            );
        }
        assert!(
            recovered.vote.is_none_or(|vote| vote.term >= self.voted),
            "a vote was lost"
        );
        assert!(
            recovered.vote.is_some() || self.voted == 0,
            "the vote was lost"
        );
        let snapshot = store.read_snapshot().unwrap();
        assert!(
            snapshot.is_some() || self.saved == 0,
            "the snapshot was lost"
        );
        if let Some(reader) = snapshot {
            let last = reader.manifest.last.unwrap();
            assert!(last.index >= self.saved, "the snapshot went back");
            let bytes = usize::try_from(reader.manifest.bytes).unwrap();
            let expected = crate::fixture::snapshot(last, bytes).pieces.concat();
            assert_eq!(reader.read_all().unwrap(), expected);
        }
        // What was found is on the disk now, and counts as acknowledged: Raft will say so.
        self.entries = found
            .iter()
            .map(|entry| (entry.index, entry.term))
            .collect();
        if self.entries.is_empty()
            && let Some(last) = state.last
        {
            self.entries.insert(last.index, last.term);
        }
    }
}

#[test]
fn nothing_acknowledged_is_lost_by_kill_9_and_no_healthy_directory_is_refused() {
    if let Some((dir, seed)) = worker::role() {
        worker::work(&dir, seed);
    }
    let kills = std::env::var("FENCEPOST_TEST_KILLS").map_or(KILLS, |text| text.parse().unwrap());
    let test = "kill::nothing_acknowledged_is_lost_by_kill_9_and_no_healthy_directory_is_refused";
    let dir = tempfile::tempdir().unwrap();
    let mut known = Known::default();
    let mut random = Random(4);
    for kill in 0..kills {
        let worker = Worker::spawn(worker::command(test, dir.path(), kill));
        assert_eq!(worker.line(PATIENCE).as_deref(), Some("opening"));
        // One in four is killed while it opens, the others after some work.
        let lines = if kill % 4 == 3 {
            0
        } else {
            1 + random.below(60)
        };
        for _ in 0..lines {
            known.hear(&worker.line(PATIENCE).expect("the worker ended by itself"));
        }
        let instant = Duration::from_micros(random.below(4_000));
        if let Some(line) = worker.line(instant) {
            known.hear(&line);
        }
        for line in worker.kill() {
            known.hear(&line);
        }
        known.check(dir.path());
    }
    println!("{kills} kills: {:?}", known.counts);
    for what in ["appended", "voted", "cut", "saved", "purged"] {
        assert!(
            known.counts.contains_key(what),
            "{what} never happened, so nothing was shown"
        );
    }
}
