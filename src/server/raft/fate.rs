//! How a node ends: the first reason counts, and everybody who asks gets it.

use std::sync::Arc;

use tokio::sync::watch;

use super::{FatalError, FatalKind};

/// Where anything in a node reports that the node must end. Clones share it.
#[derive(Clone)]
pub(super) struct Fate {
    sealed: Arc<watch::Sender<Option<FatalError>>>,
}

impl Fate {
    pub(super) fn new() -> Self {
        Self {
            sealed: Arc::new(watch::Sender::new(None)),
        }
    }

    /// Seals it, unless it is sealed already.
    pub(super) fn seal(&self, kind: FatalKind, message: impl Into<String>) {
        let error = FatalError {
            kind,
            message: message.into(),
        };
        self.sealed.send_if_modified(|sealed| {
            if sealed.is_some() {
                return false;
            }
            *sealed = Some(error);
            true
        });
    }

    /// This node is not who it should be.
    pub(super) fn identity(&self, message: impl Into<String>) {
        self.seal(FatalKind::Identity, message);
    }

    /// What it is, if it is sealed.
    pub(super) fn now(&self) -> Option<FatalError> {
        self.sealed.borrow().clone()
    }

    /// Waits until it is sealed.
    pub(super) async fn sealed(&self) -> FatalError {
        let mut watch = self.sealed.subscribe();
        let sealed = watch.wait_for(Option::is_some).await;
        let sealed = sealed.expect("the sender lives in self");
        sealed.clone().expect("it was waited for")
    }
}
