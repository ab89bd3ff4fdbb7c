//! What can break between a guard and its files.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::resource::ResourceName;

use super::{super::frame::Damage, VALUE_BYTES_MAX};

/// A failure of a file guard. Refusals are not among them.
///
/// Nothing was written, save that after an [`FileError::Io`] the new value may be in place: whole, with
/// its mark, but perhaps not for good if power is lost. Repeating the call with the same sequencer is
/// safe.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The operating system refused or failed.
    #[error("cannot {doing} {}: {source}", path.display())]
    Io {
        /// What was being done, as a verb.
        doing: &'static str,
        /// To which file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is not what this guard wrote. It stays as it is, and nothing is admitted for its
    /// resource: its mark is unknown, which is not the same as none. Bring back a copy that is whole
    /// and *not older*, or take the file away once no stale writer can be left.
    #[error("{} is damaged: {damage}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        damage: Damage,
    },
    /// Another process kept the lock: it writes a great deal, or was stopped in the middle of it.
    #[error("{} is locked by another process; nothing was written, try again", path.display())]
    Busy {
        /// The lock file.
        path: PathBuf,
    },
    /// The value is longer than a file may hold here.
    #[error("the value for \"{resource}\" has {found} bytes, and the limit is {VALUE_BYTES_MAX}")]
    TooLong {
        /// What it was for.
        resource: ResourceName,
        /// Its length in bytes.
        found: usize,
    },
}

impl FileError {
    /// An I/O error in its place.
    pub(super) fn io(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            doing,
            path,
            source,
        }
    }

    /// True where the same call may succeed in a moment.
    #[must_use]
    pub fn may_retry(&self) -> bool {
        matches!(self, Self::Busy { .. })
    }
}
