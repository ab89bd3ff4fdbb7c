//! Who is told about applied entries.

use std::sync::Arc;

use crate::issuer::{Command, Event, InstanceId, LogId, Outcome, Replica};

/// Is told about each applied entry in log order, on every node, before any answer to it leaves.
///
/// A node has several: the audit log, the history that watches read, the calls that wait. Each is told
/// everything, in the order in which the node was given them. Calls come from the task that applies
/// entries and hold it up, so they are short.
pub trait AppliedSink: Send + Sync {
    /// Entries were applied, one behind the other. All sinks share the records, so that one may keep
    /// what it needs without a copy.
    fn applied(&self, records: &[Arc<Record>]);

    /// A snapshot replaced the state: this node's own at a start, the leader's later. The entries up
    /// to `at` are never told.
    fn replaced(&self, at: LogId, replica: &Replica);
}

/// One applied entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Its place in the log.
    pub at: LogId,
    /// The chained hash of the state after it.
    pub hash: [u8; 32],
    /// What it was.
    pub kind: RecordKind,
}

/// What an entry was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordKind {
    /// The first entry of a leader.
    Blank,
    /// The members, from here on.
    Members(Vec<(u64, InstanceId)>),
    /// A command, and what came of it.
    Command {
        /// What was asked.
        command: Command,
        /// The answer.
        outcome: Outcome,
        /// What changed.
        events: Vec<Event>,
    },
}

impl RecordKind {
    pub(super) fn outcome(&self) -> Option<&Outcome> {
        match self {
            Self::Command { outcome, .. } => Some(outcome),
            Self::Blank | Self::Members(_) => None,
        }
    }
}
