//! The recorder: every client of a run writes its operations through it, on one clock.

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use super::{Call, Moment, Operation, Outcome};

/// Cheap to clone; all clones write one history on one clock.
#[derive(Clone)]
pub(crate) struct Recorder {
    origin: Instant,
    operations: Arc<Mutex<Vec<Operation>>>,
}

/// An operation that was begun; ending it writes its outcome. One that is dropped without an end (a
/// client that was aborted) stays unknown for ever, as it must.
pub(crate) struct Pending {
    recorder: Recorder,
    position: usize,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        Self {
            origin: Instant::now(),
            operations: Arc::default(),
        }
    }

    /// The time now on the clock of this history.
    pub(crate) fn now(&self) -> Moment {
        self.origin.elapsed()
    }

    /// Writes down that a call is about to be sent. The time is taken first: a send that is recorded
    /// too early only widens what the checks must allow, one recorded too late would be a lie.
    pub(crate) fn begin(&self, client: u32, resource: &str, call: Call) -> Pending {
        let sent = self.now();
        let mut operations = self.operations.lock().unwrap();
        let outcome = Outcome::Unknown("no answer yet".into());
        operations.push(Operation {
            client,
            resource: resource.into(),
            call,
            sent,
            returned: None,
            outcome,
            applied: None,
        });
        Pending {
            recorder: self.clone(),
            position: operations.len() - 1,
        }
    }

    /// How many operations were begun so far.
    pub(crate) fn len(&self) -> usize {
        self.operations.lock().unwrap().len()
    }

    /// A copy of the whole history so far.
    pub(crate) fn history(&self) -> Vec<Operation> {
        self.operations.lock().unwrap().clone()
    }
}

impl Pending {
    /// Writes down which index an answer said to be applied.
    pub(crate) fn saw(&self, applied: u64) {
        let mut operations = self.recorder.operations.lock().unwrap();
        let seen = &mut operations[self.position].applied;
        *seen = (*seen).max(Some(applied));
    }

    /// Writes down that a copy was sent before: the operation began then.
    pub(crate) fn was_sent_at(&self, first: Moment) {
        let mut operations = self.recorder.operations.lock().unwrap();
        let sent = &mut operations[self.position].sent;
        *sent = (*sent).min(first);
    }

    /// Writes down the answer, with the time at which it was there.
    pub(crate) fn end(self, outcome: Outcome) {
        let returned = self.recorder.now();
        let mut operations = self.recorder.operations.lock().unwrap();
        let operation = &mut operations[self.position];
        operation.returned = Some(returned);
        operation.outcome = outcome;
    }
}

#[test]
fn an_operation_that_is_dropped_stays_unknown() {
    let recorder = Recorder::new();
    drop(recorder.begin(1, "r", Call::Inspect));
    recorder
        .begin(1, "r", Call::Inspect)
        .end(Outcome::Inspected(None));
    let history = recorder.history();
    assert!(matches!(history[0].outcome, Outcome::Unknown(_)));
    assert_eq!(history[0].returned, None);
    assert_eq!(history[1].outcome, Outcome::Inspected(None));
    assert!(history[1].returned.unwrap() >= history[1].sent);
}
