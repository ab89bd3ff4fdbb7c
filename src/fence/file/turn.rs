//! Taking turns: one writer of a file at a time, over threads and processes.

use std::{
    fs::{self, File, TryLockError},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::resource::ResourceName;

use super::{FileError, PATIENCE, place::sync_directory};

/// Lock files, so that writers of different resources seldom meet and a directory with a million
/// values has not a million locks. A lock file is never removed: that would let two processes lock two
/// files of one name.
const LOCKS: u32 = 64;
/// Where the locks and the temporary files are. No value's file has this name.
const DIRECTORY: &str = ".fencepost";
/// Between two tries to get a lock that another process has.
const PAUSE: Duration = Duration::from_millis(10);

/// The turns of one directory. Tasks of this process queue up in order; other processes are asked for.
#[derive(Debug, Clone)]
pub(in crate::fence) struct Turns {
    directory: Arc<PathBuf>,
    here: Arc<[Arc<Mutex<()>>]>,
    /// How often a lock that another process has is tried for.
    tries_max: u128,
}

/// The right to write the files of one lock, until it is dropped.
pub(in crate::fence) struct Turn {
    /// Closing it unlocks it.
    _file: File,
    aside: PathBuf,
    _here: OwnedMutexGuard<()>,
}

impl Turn {
    /// A temporary file that belongs to whoever has the turn. Whatever it holds is left over.
    pub(super) fn aside(&self) -> &Path {
        &self.aside
    }
}

impl Turns {
    /// Makes the directories, and removes the temporary files of writers that died.
    pub(in crate::fence) fn prepare(root: &Path) -> Result<Self, FileError> {
        let directory = root.join(DIRECTORY);
        for path in [root, &directory] {
            match fs::create_dir(path) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(FileError::io("make", path)(error));
                }
                _ => {}
            }
        }
        if let Some(parent) = root.parent().filter(|path| !path.as_os_str().is_empty()) {
            sync_directory(parent)?;
        }
        let here = (0..LOCKS).map(|_| Arc::default()).collect();
        let turns = Self {
            directory: Arc::new(directory),
            here,
            tries_max: 0,
        }
        .patience(PATIENCE);
        for number in 0..LOCKS {
            turns.clean(number)?;
        }
        Ok(turns)
    }

    /// Sets how long to wait for other processes.
    pub(in crate::fence) fn patience(mut self, patience: Duration) -> Self {
        self.tries_max = 1 + patience.as_millis() / PAUSE.as_millis();
        self
    }

    /// Removes the temporary file of a lock, unless somebody is just writing it.
    fn clean(&self, number: u32) -> Result<(), FileError> {
        let aside = self.aside(number);
        if !aside.exists() {
            return Ok(());
        }
        // Kept until the file is gone: the next to have the lock writes a file of that name.
        let Some(_locked) = try_lock(&self.lock(number))? else {
            return Ok(());
        };
        match fs::remove_file(&aside) {
            // Gone already is as good: another process cleans, too.
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(FileError::io("remove", &aside)(error))
            }
            _ => Ok(()),
        }
    }

    /// Waits for the turn to write a resource's file.
    pub(in crate::fence) async fn take(&self, resource: &ResourceName) -> Result<Turn, FileError> {
        let number = crc32c::crc32c(resource.as_str().as_bytes()) % LOCKS;
        let here = self.here[number as usize].clone().lock_owned().await;
        let path = self.lock(number);
        for _ in 0..self.tries_max {
            if let Some(file) = try_lock(&path)? {
                return Ok(Turn {
                    _file: file,
                    aside: self.aside(number),
                    _here: here,
                });
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(FileError::Busy { path })
    }

    fn lock(&self, number: u32) -> PathBuf {
        self.directory.join(format!("{number:02}.lock"))
    }

    fn aside(&self, number: u32) -> PathBuf {
        self.directory.join(format!("{number:02}.new"))
    }
}

/// The locked file, or `None` while another has it.
fn try_lock(path: &Path) -> Result<Option<File>, FileError> {
    let opened = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path);
    let file = opened.map_err(FileError::io("open", path))?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(FileError::io("lock", path)(error)),
    }
}
