//! Where the value of a resource lies, and how it gets there.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use crate::resource::ResourceName;

use super::{FileError, HEAD_BYTES, check};
use crate::fence::{Mark, frame::Damage, naming::pieces};

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
            file: root.join(pieces(resource).iter().collect::<PathBuf>()),
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

    /// The file, or `None` where nothing has its name. A link to a file that is not there now has it,
    /// and its mark is unknown, which is not the same as none; a pipe would be waited for without end.
    fn opened(&self) -> Result<Option<File>, FileError> {
        match fs::symlink_metadata(&self.file) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            found => found.map_err(self.failed("open"))?,
        };
        let found = fs::metadata(&self.file).map_err(self.failed("open"))?;
        if !found.is_file() {
            let kind = io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file");
            return Err(self.failed("open")(kind));
        }
        File::open(&self.file)
            .map(Some)
            .map_err(self.failed("open"))
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
