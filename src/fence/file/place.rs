//! Where the value of a resource lies, and how it gets there.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use crate::resource::ResourceName;

use super::{FileError, HEAD_BYTES, check};
use crate::fence::{Mark, frame::Damage};

/// File systems take names of 255 bytes; a longer one is cut into directories of this length.
const PIECE_BYTES_MAX: usize = 200;
/// Ends the name of a file. No directory ends so.
const VALUE: &str = ".value";
/// Ends the name of a directory that holds the rest of a name. Percent-encoding leaves no plus sign.
const CONTINUED: &str = "+";

/// The file of one resource.
pub(super) struct Place {
    root: PathBuf,
    file: PathBuf,
    resource: ResourceName,
}

impl Place {
    pub(super) fn new(root: &Path, resource: &ResourceName) -> Self {
        Self {
            root: root.to_owned(),
            file: root.join(relative(resource)),
            resource: resource.clone(),
        }
    }

    /// The mark, from the file's first bytes.
    pub(super) fn mark(&self) -> Result<Option<Mark>, FileError> {
        let Some(file) = self.opened()? else {
            return Ok(None);
        };
        let total = file.metadata().map_err(self.failed("read"))?.len();
        let mut head = Vec::new();
        let read = file.take(HEAD_BYTES).read_to_end(&mut head);
        read.map_err(self.failed("read"))?;
        let line = check(&head, total, &self.resource).map_err(self.damaged())?;
        Ok(Some(line.mark()))
    }

    /// The value and its mark.
    pub(super) fn value(&self) -> Result<Option<(Vec<u8>, Mark)>, FileError> {
        let Some(mut file) = self.opened()? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(self.failed("read"))?;
        let line = check(&bytes, bytes.len() as u64, &self.resource).map_err(self.damaged())?;
        let value = bytes.split_off(line.bytes);
        line.agrees(&value).map_err(self.damaged())?;
        Ok(Some((value, line.mark())))
    }

    fn opened(&self) -> Result<Option<File>, FileError> {
        match File::open(&self.file) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("open")(error)),
        }
    }

    /// Renames a synced file into this place, and makes that last.
    pub(super) fn install(&self, aside: &Path) -> Result<(), FileError> {
        let parent = self.file.parent().unwrap_or(&self.root);
        fs::create_dir_all(parent).map_err(FileError::io("make", parent))?;
        fs::rename(aside, &self.file).map_err(self.failed("replace"))?;
        self.sync_directories(parent)
    }

    /// Makes what is in this place last, whoever put it there.
    pub(super) fn settle(&self) -> Result<(), FileError> {
        if let Some(file) = self.opened()? {
            file.sync_all().map_err(self.failed("sync"))?;
        }
        self.sync_directories(self.file.parent().unwrap_or(&self.root))
    }

    fn sync_directories(&self, parent: &Path) -> Result<(), FileError> {
        // New directories are entries of the ones above them, up to the root.
        for directory in parent.ancestors() {
            sync_directory(directory)?;
            if directory == self.root {
                break;
            }
        }
        Ok(())
    }

    fn failed(&self, doing: &'static str) -> impl FnOnce(io::Error) -> FileError {
        FileError::io(doing, &self.file)
    }

    fn damaged(&self) -> impl Fn(Damage) -> FileError {
        let path = self.file.clone();
        move |damage| FileError::Damaged {
            path: path.clone(),
            damage,
        }
    }
}

/// Makes what was renamed into a directory survive a loss of power.
pub(super) fn sync_directory(directory: &Path) -> Result<(), FileError> {
    let synced = File::open(directory).and_then(|opened| opened.sync_all());
    synced.map_err(FileError::io("sync", directory))
}

/// The path below the root. It is exact: no two names share one, however long they are.
fn relative(resource: &ResourceName) -> PathBuf {
    let encoded = resource.percent_encoded();
    let mut path = PathBuf::new();
    let mut rest = encoded.as_str();
    // It is ASCII, so that it can be cut anywhere.
    while rest.len() > PIECE_BYTES_MAX {
        let (piece, after) = rest.split_at(PIECE_BYTES_MAX);
        path.push(format!("{piece}{CONTINUED}"));
        rest = after;
    }
    path.join(format!("{rest}{VALUE}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn path(name: &str) -> PathBuf {
        relative(&name.parse().unwrap())
    }

    #[test]
    fn names_become_safe_and_readable_file_names() {
        assert_eq!(path("accounts/1"), Path::new("accounts%2F1.value"));
        assert_eq!(path(".."), Path::new("...value"));
        assert_eq!(path("a b+c"), Path::new("a%20b%2Bc.value"));
        for odd in ["../../etc/passwd", "/", ".", "..", "a\\b", "C:x", "🦀"] {
            let path = path(odd);
            assert_eq!(path.components().count(), 1, "{odd}");
            assert!(path.to_str().unwrap().is_ascii(), "{odd}");
        }
    }

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let names = [
            "a".repeat(160),
            "🦀".repeat(160),
            "🦀".repeat(159),
            format!("{}é", "🦀".repeat(159)),
            "é".repeat(34),
            "é".repeat(33),
        ];
        let paths: BTreeSet<_> = names.iter().map(|name| path(name)).collect();
        assert_eq!(paths.len(), names.len());
        for part in paths.iter().flat_map(|path| path.iter()) {
            assert!(part.len() <= 255, "{part:?}");
        }
    }
}
