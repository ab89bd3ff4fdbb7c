//! The only two outcomes that are allowed for a data directory, whatever happened to it.

use std::path::Path;

use fencepost::server::store::{LogId, OpenError, SnapshotManifest, Store, StoredVote};

use crate::fixture::*;

/// What a store had acknowledged when its directory was damaged.
#[derive(Debug, Clone, Default)]
pub(crate) struct Promise {
    pub(crate) vote: Option<StoredVote>,
    /// Entries that must be there, with their terms, in order.
    pub(crate) entries: Vec<LogId>,
    pub(crate) snapshot: Option<SnapshotManifest>,
}

impl Promise {
    /// What a directory that opens holds now.
    pub(crate) fn of(dir: &Path) -> Self {
        let (store, recovered) = open(dir).unwrap();
        let entries = store.all().iter().map(|entry| entry.log_id()).collect();
        Self {
            vote: recovered.vote,
            entries,
            snapshot: recovered.snapshot,
        }
    }
}

/// What came of opening a directory.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// It opened and holds all that was promised.
    Whole,
    /// It was refused as damaged, and this is what it says.
    Refused(String),
}

impl Verdict {
    pub(crate) fn refused(self) -> String {
        match self {
            Self::Refused(what) => what,
            Self::Whole => panic!("damage went unnoticed"),
        }
    }

    pub(crate) fn whole(self) {
        if let Self::Refused(what) = self {
            panic!("a healthy directory was refused: {what}");
        }
    }
}

/// Opens a directory and holds what it finds against what was promised.
pub(crate) fn judge(dir: &Path, promise: &Promise) -> Verdict {
    let (store, recovered) = match open(dir) {
        Ok(opened) => opened,
        Err(OpenError::Damaged(damage)) => {
            let text = damage.to_string();
            assert_eq!(damage.dir, dir);
            assert!(
                text.contains("remove-node 3") && text.contains("add-node NEW-ID"),
                "{text}"
            );
            return Verdict::Refused(damage.what);
        }
        Err(error) => panic!("not a refusal for damage: {error}"),
    };
    if let Some(promised) = promise.vote {
        let vote = recovered.vote.expect("the vote was lost");
        assert!(
            vote == promised || vote.may_follow(&promised),
            "{vote:?} after {promised:?}"
        );
    }
    let first = store.log_state().first_index();
    let found = store.all();
    for entry in &found {
        let expected = crate::fixture::entry(entry.term, entry.index);
        assert_eq!(*entry, expected, "entry {} was changed", entry.index);
    }
    for promised in promise
        .entries
        .iter()
        .filter(|promised| promised.index >= first)
    {
        let at = usize::try_from(promised.index - first).unwrap();
        let entry = found.get(at).map(|entry| entry.log_id());
        assert_eq!(
            entry,
            Some(*promised),
            "an acknowledged entry was lost, opened unnoticed"
        );
    }
    let snapshot = store.read_snapshot().unwrap();
    if let Some(promised) = &promise.snapshot {
        let reader = snapshot.expect("the snapshot was lost");
        assert!(reader.manifest.number >= promised.number);
        let last = reader.manifest.last.unwrap();
        let bytes = usize::try_from(reader.manifest.bytes).unwrap();
        let expected = crate::fixture::snapshot(last, bytes).pieces.concat();
        assert_eq!(reader.read_all().unwrap(), expected);
    }
    // It must also go on from here.
    let next = store.log_state().next_index();
    store.appended(entries(1_000_000, next..next + 1)).unwrap();
    Verdict::Whole
}
