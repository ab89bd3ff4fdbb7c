//! A guard, and a store of fenced values, in this process's memory.
//!
//! Right for a resource that lives and dies with the process: a cache, an in-memory index, a
//! connection to a device. Wrong for anything that outlives it: a restarted process has forgotten
//! its marks and admits the first token that comes, however old. Keep the mark where the data is.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use crate::{resource::ResourceName, sequencer::Sequencer};

use super::{
    Guard, Mark, Rules, Verdict,
    fenced::{ConditionalStore, MarkStore, Update},
};

/// Resources that one [`MemoryGuard`] keeps a mark for, unless told otherwise: about 200 MiB with
/// names of usual length.
pub const RESOURCES_MAX: usize = 1 << 20;

/// A guard in memory. Share it by reference or in an `Arc`.
///
/// It never forgets a mark, since forgetting one would admit old tokens. Names often come from
/// callers, so the number of marks has a limit, at which further *new* resources are refused.
#[derive(Debug)]
pub struct MemoryGuard {
    rules: Rules,
    resources_max: usize,
    marks: Mutex<HashMap<ResourceName, Mark>>,
}

/// What a [`MemoryGuard`] can fail with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the guard keeps marks for {resources_max} resources already, and may not forget any")]
pub struct TooManyResources {
    /// The limit that was reached.
    pub resources_max: usize,
}

impl MemoryGuard {
    /// An empty guard: it admits the first token for each resource, whatever it is.
    #[must_use]
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            resources_max: RESOURCES_MAX,
            marks: Mutex::default(),
        }
    }

    /// Sets how many resources may have a mark; [`RESOURCES_MAX`] unless set.
    #[must_use]
    pub fn resources_max(mut self, resources_max: usize) -> Self {
        self.resources_max = resources_max;
        self
    }

    /// [`Guard::admit`] for callers that are not async.
    ///
    /// # Errors
    ///
    /// [`TooManyResources`] for a new resource at the limit.
    pub fn admit_now(&self, sequencer: &Sequencer) -> Result<Verdict, TooManyResources> {
        // No code that can panic runs under the lock, and a mark is replaced whole.
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let verdict = self.rules.judge(sequencer, marks.get(&sequencer.resource));
        if verdict != Verdict::Admitted {
            return Ok(verdict);
        }
        if let Some(mark) = marks.get_mut(&sequencer.resource) {
            mark.token = sequencer.token;
            return Ok(verdict);
        }
        if marks.len() >= self.resources_max {
            return Err(TooManyResources {
                resources_max: self.resources_max,
            });
        }
        let mark = Mark {
            issuer: sequencer.issuer.clone(),
            token: sequencer.token,
        };
        marks.insert(sequencer.resource.clone(), mark);
        Ok(verdict)
    }
}

impl Guard for MemoryGuard {
    type Error = TooManyResources;

    async fn admit(&self, sequencer: &Sequencer) -> Result<Verdict, TooManyResources> {
        self.admit_now(sequencer)
    }

    async fn high_water(&self, resource: &ResourceName) -> Result<Option<Mark>, TooManyResources> {
        let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(marks.get(resource).cloned())
    }
}

/// Values in memory, each with its mark: a [`ConditionalStore`] whose mutation is the new value.
///
/// Put it behind a [`FencedResource`](super::fenced::FencedResource). It never forgets a mark and
/// has the same limit as [`MemoryGuard`].
#[derive(Debug)]
pub struct MemoryStore<V> {
    resources_max: usize,
    values: Mutex<HashMap<ResourceName, (Mark, Option<V>)>>,
}

impl<V> Default for MemoryStore<V> {
    fn default() -> Self {
        Self {
            resources_max: RESOURCES_MAX,
            values: Mutex::default(),
        }
    }
}

impl<V: Clone> MemoryStore<V> {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets how many resources may have a mark; [`RESOURCES_MAX`] unless set.
    #[must_use]
    pub fn resources_max(mut self, resources_max: usize) -> Self {
        self.resources_max = resources_max;
        self
    }

    /// The value of a resource, if it has one, and the mark, as of one moment.
    pub fn read(&self, resource: &ResourceName) -> Option<(Option<V>, Mark)> {
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        let (mark, value) = values.get(resource)?;
        Some((value.clone(), mark.clone()))
    }

    /// Raises the mark, and with `Some` replaces the value, if the update passes.
    fn replace<M: ?Sized>(
        &self,
        update: &Update<'_, M>,
        new: Option<V>,
    ) -> Result<bool, TooManyResources> {
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((mark, value)) = values.get_mut(update.resource) {
            if !update.passes(Some(mark)) {
                return Ok(false);
            }
            *mark = update.mark();
            if new.is_some() {
                *value = new;
            }
            return Ok(true);
        }
        if values.len() >= self.resources_max {
            return Err(TooManyResources {
                resources_max: self.resources_max,
            });
        }
        values.insert(update.resource.clone(), (update.mark(), new));
        Ok(true)
    }
}

impl<V: Clone + Send + Sync> ConditionalStore for MemoryStore<V> {
    type Mutation = V;
    type Error = TooManyResources;

    async fn conditional_update(&self, update: &Update<'_, V>) -> Result<bool, TooManyResources> {
        // Cloning may run foreign code, so it comes before the lock.
        self.replace(update, Some(update.mutation.clone()))
    }

    async fn read_token(&self, resource: &ResourceName) -> Result<Option<Mark>, TooManyResources> {
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(values.get(resource).map(|(mark, _)| mark.clone()))
    }
}

impl<V: Clone + Send + Sync> MarkStore for MemoryStore<V> {
    async fn raise(&self, update: &Update<'_, ()>) -> Result<bool, TooManyResources> {
        self.replace(update, None)
    }
}
