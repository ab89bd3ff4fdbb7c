//! What the callers and the storage thread share.

use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sled::Db;
use tokio::sync::watch;

use super::error::StoreError;
use super::identity::{Identity, Membership};
use super::queue::Queue;
use super::quiet;
use super::trees::Trees;
use super::window::Window;

/// The open database, and the lock on its directory, which is given back last.
pub(super) struct Database {
    open: Option<(Trees, Db)>,
    _lock: File,
}

impl Database {
    pub(super) fn new(db: Db, trees: Trees, lock: File) -> Self {
        Self {
            open: Some((trees, db)),
            _lock: lock,
        }
    }

    fn open(&self) -> &(Trees, Db) {
        self.open.as_ref().expect("only `drop` takes it out")
    }

    pub(super) fn trees(&self) -> &Trees {
        &self.open().0
    }

    /// Makes everything that was written durable.
    pub(super) fn flush(&self) -> sled::Result<()> {
        self.open().1.flush().map(drop)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // sled flushes once more when it is dropped, and panics if that fails. Nothing is lost by
        // it: what was acknowledged was flushed before.
        if let Err(message) = quiet::catch(|| drop(self.open.take())) {
            tracing::warn!(message, "the database did not close cleanly");
        }
    }
}

pub(super) struct Shared {
    window: Mutex<Window>,
    identity: Mutex<Identity>,
    ready: AtomicBool,
    pub(super) queue: Queue,
    pub(super) space_low: AtomicBool,
    failure: watch::Sender<Option<StoreError>>,
}

impl Shared {
    pub(super) fn new(window: Window, identity: Identity) -> Self {
        Self {
            window: Mutex::new(window),
            ready: AtomicBool::new(matches!(identity.membership, Membership::Ready(_))),
            identity: Mutex::new(identity),
            queue: Queue::default(),
            space_low: AtomicBool::new(false),
            failure: watch::Sender::new(None),
        }
    }

    pub(super) fn window(&self) -> MutexGuard<'_, Window> {
        self.window.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn identity(&self) -> MutexGuard<'_, Identity> {
        self.identity.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }

    /// A node that belongs to no cluster has nothing to promise.
    pub(super) fn check_ready(&self) -> Result<(), StoreError> {
        if self.ready.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(StoreError::invalid(
            "this node does not belong to a cluster yet",
        ))
    }

    /// Ends the store. The first error stays.
    pub(super) fn fail(&self, error: StoreError) {
        self.failure.send_if_modified(|failure| {
            let first = failure.is_none();
            if first {
                *failure = Some(error);
            }
            first
        });
        self.queue.close();
    }

    pub(super) fn failure(&self) -> Option<StoreError> {
        self.failure.borrow().clone()
    }

    pub(super) fn watch_failure(&self) -> watch::Receiver<Option<StoreError>> {
        self.failure.subscribe()
    }
}
