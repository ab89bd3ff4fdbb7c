//! Reading everything that a database holds, at the start, and comparing it with the watermark.
//!
//! sled checks what it reads, but it can also lose a part and open without it. So every record is
//! read once: checksums, indexes without a hole, terms that never fall, a snapshot with all of its
//! chunks. What comes out is then compared with the watermark, which knows how far it all went.

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;

use super::contract::SnapshotManifest;
use super::entry::{LogId, LogState, StoredVote};
use super::identity::{Identity, Membership};
use super::run::{Run, Unpacker, check_next};
use super::trees::{self, CHUNK_BYTES, Manifest, Owner, Record, Trees};
use super::watermark::Mark;
use super::window::Window;

/// Everything that the database holds.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) owner: Option<Owner>,
    pub(super) boots: u64,
    pub(super) vote: Option<StoredVote>,
    pub(super) log: LogState,
    /// The newest entries, and everything as callers see it.
    pub(super) window: Window,
    pub(super) runs: VecDeque<Run>,
    pub(super) manifest: Option<Manifest>,
    /// Numbers of snapshots that were never finished or not deleted completely.
    pub(super) strays: BTreeSet<u64>,
    /// Term of the entry that the watermark calls the newest, if the log still holds it.
    tip_term: Option<u64>,
}

/// Why a scan ended.
#[derive(Debug)]
pub(super) enum ScanError {
    /// What was read is not what was written.
    Damage(String),
    /// The database could not be read.
    Sled(sled::Error),
}

impl From<sled::Error> for ScanError {
    fn from(error: sled::Error) -> Self {
        Self::Sled(error)
    }
}

impl From<String> for ScanError {
    fn from(what: String) -> Self {
        Self::Damage(what)
    }
}

/// Reads all of it. `mark` tells which entry to look out for.
pub(super) fn scan(trees: &Trees, mark: &Mark, window_bytes: usize) -> Result<Found, ScanError> {
    let mut window = Window::new(window_bytes);
    window.vote = fact(trees, trees::VOTE)?;
    window.committed = fact(trees, trees::COMMITTED)?;
    let purged: Option<LogId> = fact(trees, trees::PURGED)?;
    window.log = LogState {
        purged,
        last: purged,
    };
    let manifest: Option<Manifest> = fact(trees, trees::MANIFEST)?;
    let (meta, strays) = scan_snapshots(trees, manifest.as_ref())?;
    window.snapshot = manifest.map(|manifest| SnapshotManifest {
        number: manifest.number,
        last: manifest.last,
        meta,
        bytes: manifest.content_bytes,
    });
    let (runs, tip_term) = scan_log(trees, &mut window, mark.tip)?;
    // The hint may be newer than what a crash left of the log it speaks of.
    window.committed = window
        .committed
        .filter(|hint| Some(*hint) <= window.log.last);
    let owner = fact(trees, trees::OWNER)?;
    let boots = fact(trees, trees::BOOTS)?.unwrap_or(0);
    let (vote, log) = (window.vote, window.log);
    Ok(Found {
        owner,
        boots,
        vote,
        log,
        window,
        runs,
        manifest,
        strays,
        tip_term,
    })
}

fn fact<T: Record>(trees: &Trees, name: &str) -> Result<Option<T>, ScanError> {
    match trees.meta.get(name)? {
        Some(value) => Ok(Some(T::decode(name, &value)?)),
        None => Ok(None),
    }
}

fn scan_log(
    trees: &Trees,
    window: &mut Window,
    tip: Option<LogId>,
) -> Result<(VecDeque<Run>, Option<u64>), ScanError> {
    let purged = window.log.purged;
    let mut unpacker = Unpacker::default();
    let mut runs = VecDeque::new();
    let mut tip_term = None;
    for item in &trees.log {
        let (key, value) = item?;
        let Some((run, entries)) = unpacker.take(&key, &value)? else {
            continue;
        };
        runs.push_back(run);
        for entry in entries {
            // A purge writes its marker first and removes whole runs after it, so the first runs
            // may lie below the marker, and one across it.
            if purged.is_some_and(|purged| entry.index <= purged.index) {
                continue;
            }
            if window.log.last.is_none() && entry.index != 0 {
                return Err(format!("the log begins at entry {} instead of 0", entry.index).into());
            }
            check_next(window.log.last, &entry)?;
            if tip.is_some_and(|tip| tip.index == entry.index) {
                tip_term = Some(entry.term);
            }
            window.recover(entry);
        }
    }
    unpacker.finish()?;
    Ok((runs, tip_term))
}

fn scan_snapshots(
    trees: &Trees,
    manifest: Option<&Manifest>,
) -> Result<(Bytes, BTreeSet<u64>), ScanError> {
    let mut strays = BTreeSet::new();
    let mut meta = Vec::new();
    let mut chunks = 0_u64;
    let mut bytes = 0_u64;
    for item in &trees.snapshot {
        let (key, value) = item?;
        let number = key.first_chunk().map(|number| u64::from_be_bytes(*number));
        let number = number.ok_or_else(|| "a chunk of a snapshot has a short key".to_owned())?;
        let Some(manifest) = manifest.filter(|manifest| manifest.number == number) else {
            strays.insert(number);
            continue;
        };
        let due = u32::try_from(chunks).unwrap_or(u32::MAX);
        if key != trees::chunk_key(number, due) {
            return Err(format!("snapshot {number} lacks chunk {chunks}").into());
        }
        let content = trees::decode_chunk(&key, &value)?;
        let missing = usize::try_from(manifest.meta_bytes).unwrap_or(usize::MAX) - meta.len();
        meta.extend_from_slice(&content[..missing.min(content.len())]);
        chunks += 1;
        bytes += content.len() as u64;
        let full = content.len() == CHUNK_BYTES || chunks == manifest.chunks();
        if !full {
            return Err(format!("chunk {due} of snapshot {number} is too short").into());
        }
    }
    if let Some(manifest) = manifest {
        let due = manifest.meta_bytes.saturating_add(manifest.content_bytes);
        if chunks != manifest.chunks() || bytes != due {
            let number = manifest.number;
            return Err(format!("snapshot {number} has {bytes} bytes of {due}").into());
        }
    }
    Ok((meta.into(), strays))
}

/// The newest of last entry, purge marker and snapshot.
pub(super) fn tip(log: &LogState, snapshot: Option<LogId>) -> Option<LogId> {
    log.last.max(log.purged).max(snapshot)
}

impl Found {
    /// The newest of what was found.
    pub(super) fn tip(&self) -> Option<LogId> {
        tip(&self.log, self.manifest.and_then(|manifest| manifest.last))
    }

    /// Checks that this is the database of this node, and holds at least what the watermark says.
    pub(super) fn check(&self, identity: &Identity, mark: &Mark) -> Result<(), String> {
        match identity.membership {
            Membership::Forming => self.check_forming(),
            Membership::Ready(_) => {
                self.check_owner(identity)?;
                self.check_boots(mark)?;
                self.check_vote(mark.vote)?;
                self.check_tip(mark.tip)?;
                self.check_purged(mark.purged)
            }
        }
    }

    fn check_forming(&self) -> Result<(), String> {
        if self.vote.is_some() || self.tip().is_some() {
            return Err(
                "IDENTITY says that this node never joined a cluster, but the database \
                        holds a vote or a log: IDENTITY was replaced by an older copy"
                    .to_owned(),
            );
        }
        Ok(())
    }

    fn check_owner(&self, identity: &Identity) -> Result<(), String> {
        let Some(owner) = self.owner else {
            return Err("the database is empty, or lost the note of whose it is".to_owned());
        };
        if owner.instance != identity.instance || owner.node_id != identity.node_id {
            return Err(format!(
                "the database belongs to node {} (instance {}), IDENTITY names node {} \
                 (instance {})",
                owner.node_id, owner.instance, identity.node_id, identity.instance
            ));
        }
        Ok(())
    }

    fn check_boots(&self, mark: &Mark) -> Result<(), String> {
        if self.boots > mark.boots {
            return Err(format!(
                "WATERMARK counts {} starts, the database {}: WATERMARK was replaced by an older \
                 copy",
                mark.boots, self.boots
            ));
        }
        Ok(())
    }

    fn check_vote(&self, promised: Option<StoredVote>) -> Result<(), String> {
        let Some(promised) = promised else {
            return Ok(());
        };
        match self.vote {
            Some(vote) if vote == promised || vote.may_follow(&promised) => Ok(()),
            Some(vote) => Err(format!(
                "the vote went back: this node voted in term {}, the database holds a vote in \
                 term {}",
                promised.term, vote.term
            )),
            None => Err(format!("the vote of term {} is missing", promised.term)),
        }
    }

    /// The entry that the watermark names must be there: nothing removes it but a truncation,
    /// which lowers the watermark first, or a purge, which leaves its marker.
    fn check_tip(&self, promised: Option<LogId>) -> Result<(), String> {
        let Some(promised) = promised else {
            return Ok(());
        };
        let found = self.tip();
        let covered = self.log.purged.max(self.manifest.and_then(|m| m.last));
        let covered = covered.is_some_and(|covered| covered.index >= promised.index);
        if found >= Some(promised) && (covered || self.tip_term == Some(promised.term)) {
            return Ok(());
        }
        let found = match found {
            Some(found) => format!("ends at entry {} of term {}", found.index, found.term),
            None => "is empty".to_owned(),
        };
        Err(format!(
            "acknowledged entries are missing: the log went up to entry {} of term {}, the \
             database {found}",
            promised.index, promised.term
        ))
    }

    fn check_purged(&self, promised: Option<LogId>) -> Result<(), String> {
        let purged = self.log.purged;
        if purged.map(|id| id.index) < promised.map(|id| id.index) {
            return Err("the log was purged further than the database knows".to_owned());
        }
        let snapshot = self.manifest.and_then(|manifest| manifest.last);
        if snapshot.map(|id| id.index) < purged.map(|id| id.index) {
            return Err(format!(
                "the log was purged up to entry {}, but the snapshot ends at {}",
                purged.map_or(0, |id| id.index),
                snapshot.map_or_else(|| "nothing".to_owned(), |id| format!("entry {}", id.index)),
            ));
        }
        Ok(())
    }
}
