//! Marks alone, in files.

use crate::{resource::ResourceName, sequencer::Sequencer};

use super::{
    super::{Guard, Mark, Rules, Verdict, fenced::ConditionalStore as _},
    FileError, FileStore, New,
};

/// A guard whose marks are files, for a resource that has no room for a mark of its own.
///
/// The store may hold values too: admitting raises the mark of a value and leaves the value as it is.
/// For what the store itself holds, use a [`FencedResource`](super::super::fenced::FencedResource)
/// instead, where check and write are one step.
#[derive(Debug, Clone)]
pub struct FileGuard {
    store: FileStore,
    rules: Rules,
}

impl FileGuard {
    /// A guard by these rules over the marks in a store.
    #[must_use]
    pub fn new(store: FileStore, rules: Rules) -> Self {
        Self { store, rules }
    }
}

impl Guard for FileGuard {
    type Error = FileError;

    async fn admit(&self, sequencer: &Sequencer) -> Result<Verdict, FileError> {
        // Most of those who come late are told so without a lock: a mark that refused them will not
        // come down again.
        let mark = self.store.read_token(&sequencer.resource).await?;
        match self.rules.judge(sequencer, mark.as_ref()) {
            Verdict::Admitted => {
                let rules = self.rules.clone();
                self.store.replace(sequencer, rules, New::Same).await
            }
            refused => Ok(refused),
        }
    }

    async fn high_water(&self, resource: &ResourceName) -> Result<Option<Mark>, FileError> {
        self.store.read_token(resource).await
    }
}
