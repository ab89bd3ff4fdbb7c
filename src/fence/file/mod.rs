//! Values in files, each in one file with its mark, for the processes of one machine.
//!
//! Right for configuration, state and results on a local disk that several processes write, and as the
//! resource of a small system that has no database. Wrong for a directory that several *machines* share
//! over a network file system: whether their locks reach each other, and whether a rename is atomic for
//! all, is up to its configuration, and a lock that was lost there lets two writers in at once.
//!
//! How a write goes: an advisory lock (`flock`) on one of 64 lock files, chosen by the resource's name;
//! read the mark in the first line of the file; refuse, or write value and mark together into a
//! temporary file, sync it, rename it over the old one, and sync the directory. So
//!
//! - a reader finds the old value or the new one, each with its own mark, and needs no lock;
//! - a crash at any point leaves the one or the other, and a temporary file that the next write, or
//!   the next [`FileStore::open`], does away with;
//! - a process that dies gives its lock back, by the kernel's hand; one that is merely *stopped* under
//!   the lock makes others fail with [`FileError::Busy`] after ten seconds ([`PATIENCE`]), and takes nothing from
//!   them: the lock keeps the steps of a write together, the token decides who may write;
//! - a write was accepted only when it is on disk.
//!
//! Files are named by the percent-encoded resource with `.value` behind it, in directories where a name
//! is longer than a file's may be. Whoever deletes such a file deletes its mark: write an empty value
//! instead. `head -1 FILE` shows the mark; `tail -n +2 FILE` is the value.

mod error;
mod place;
mod turn;

use std::{fs, io, path::PathBuf, sync::Arc, time::Duration};

use crate::{resource::ResourceName, sequencer::Sequencer};

use super::{
    EqualTokens, Mark,
    fenced::{ConditionalStore, MarkStore, Update},
    frame::{LINE_BYTES_MAX, Line, line},
};
use place::Place;

pub use super::frame::Damage;
pub use error::FileError;
pub(super) use turn::{Turn, Turns};

/// The most bytes of one value, 64 MiB: each is written as a whole, from memory.
pub const VALUE_BYTES_MAX: usize = 64 << 20;

/// How long a write waits for one of another process, unless told otherwise.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// A directory of fenced values: a [`ConditionalStore`] whose mutation is the new value.
///
/// Cloning shares it. Any number of processes may have the directory open.
#[derive(Debug, Clone)]
pub struct FileStore {
    root: Arc<PathBuf>,
    turns: Turns,
}

impl FileStore {
    /// Opens the directory, or makes it; its parent must be there. Removes what writers that died
    /// have left. Reads and writes a few directory entries, and so may block for a moment.
    ///
    /// # Errors
    ///
    /// [`FileError::Io`] when the directory cannot be made or written.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self, FileError> {
        let root = directory.into();
        let turns = Turns::prepare(&root)?;
        let root = Arc::new(root);
        Ok(Self { root, turns })
    }

    /// Sets how long a write waits for one of another process, [`PATIENCE`] unless set, to the next 10 ms.
    /// It need not fit the length of leases: what waits too long for its lease is stale by then.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.turns = self.turns.patience(patience);
        self
    }

    /// The value of a resource and the mark under which it was written, as of one moment.
    ///
    /// # Errors
    ///
    /// [`FileError::Io`], and [`FileError::Damaged`] for a file that this guard did not write so.
    pub async fn read(
        &self,
        resource: &ResourceName,
    ) -> Result<Option<(Vec<u8>, Mark)>, FileError> {
        let place = self.place(resource);
        blocking(move || place.value()).await
    }

    fn place(&self, resource: &ResourceName) -> Place {
        Place::new(&self.root, resource)
    }

    /// Judges the update under the lock, and writes what is to be there if it passes.
    async fn replace<M: ?Sized + Sync>(
        &self,
        update: &Update<'_, M>,
        new: New,
    ) -> Result<bool, FileError> {
        let place = self.place(update.resource);
        let turn = self.turns.take(update.resource).await?;
        let (sequencer, equal) = (update.sequencer.clone(), update.equal);
        // From here on it runs to its end, also when the caller stops waiting for it.
        blocking(move || {
            let mark = place.mark()?;
            if !passes(&sequencer, equal, mark.as_ref()) {
                return Ok(false);
            }
            let value = match new {
                New::Value(value) => value,
                // The mark is there. Its writer may have died before it was there for good.
                New::Same if mark.is_some_and(|mark| mark.token == sequencer.token) => {
                    place.settle()?;
                    return Ok(true);
                }
                New::Same => place.value()?.map_or_else(Vec::new, |(value, _)| value),
            };
            write(&turn, &place, &line(&sequencer, &value), &value)?;
            Ok(true)
        })
        .await
    }
}

/// What a write leaves behind.
enum New {
    Value(Vec<u8>),
    /// The value as it is, empty if there is none: only the mark rises.
    Same,
}

impl ConditionalStore for FileStore {
    type Mutation = [u8];
    type Error = FileError;

    async fn conditional_update(&self, update: &Update<'_, [u8]>) -> Result<bool, FileError> {
        if update.mutation.len() > VALUE_BYTES_MAX {
            return Err(FileError::TooLong {
                resource: update.resource.clone(),
                found: update.mutation.len(),
            });
        }
        self.replace(update, New::Value(update.mutation.to_vec()))
            .await
    }

    async fn read_token(&self, resource: &ResourceName) -> Result<Option<Mark>, FileError> {
        let place = self.place(resource);
        blocking(move || place.mark()).await
    }
}

impl MarkStore for FileStore {
    /// A resource that has no value yet gets an empty one.
    async fn raise(&self, update: &Update<'_, ()>) -> Result<bool, FileError> {
        self.replace(update, New::Same).await
    }
}

/// [`Update::passes`] where the update itself could not come along.
fn passes(sequencer: &Sequencer, equal: EqualTokens, mark: Option<&Mark>) -> bool {
    let update = Update {
        resource: &sequencer.resource,
        sequencer,
        mutation: &(),
        equal,
    };
    update.passes(mark)
}

/// Write aside, sync, rename, sync the directory. Needs the turn, whose temporary file it uses.
fn write(turn: &Turn, place: &Place, line: &str, value: &[u8]) -> Result<(), FileError> {
    use io::Write as _;
    let aside = turn.aside();
    let written = fs::File::create(aside).and_then(|mut file| {
        file.write_all(line.as_bytes())?;
        file.write_all(value)?;
        file.sync_all()
    });
    written.map_err(FileError::io("write", aside))?;
    place.install(aside)
}

/// Runs what waits for a disk where it holds up nobody.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FileError> + Send + 'static,
) -> Result<T, FileError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        // It panicked, or the runtime is shutting down and never began it.
        Err(error) => Err(FileError::Io {
            doing: "finish",
            path: PathBuf::new(),
            source: io::Error::other(error),
        }),
    }
}

/// Enough of a file to hold any line.
const HEAD_BYTES: u64 = LINE_BYTES_MAX as u64;

/// The line of a file of `total` bytes that begins with `head`.
fn check(head: &[u8], total: u64, resource: &ResourceName) -> Result<Line, Damage> {
    let line = Line::read(head, resource)?;
    line.fits(total)?;
    Ok(line)
}
