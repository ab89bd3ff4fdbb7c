//! What the harness and a client process say to each other: one JSON object a line, orders on the client's
//! standard input, and what it did on its standard output.

use serde::{Deserialize, Serialize};

/// What makes a process a client; it finds it in its environment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Role {
    /// From 0; its updates are the numbers `number + n * clients`.
    pub(crate) number: u64,
    pub(crate) clients: u64,
    pub(crate) ttl_ms: u64,
    /// The nodes, as `Client::connect` takes them.
    pub(crate) endpoints: Vec<String>,
    /// The URL of the database.
    pub(crate) database: String,
    /// The process that started it.
    pub(crate) harness: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// In your next critical section, say when you have read and not yet written, and wait there.
    StandStill,
    /// Write now.
    GoOn,
    /// Finish your critical section, and end.
    End,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Said {
    /// It has read both registers, its lease is good, and it has not written yet: the worst moment for a
    /// pause. Said only when it was ordered to stand still there.
    Inside { token: u64 },
    /// A critical section that got as far as writing is over.
    Update(Update),
    /// One that did not: no grant came, or the lease had ended before anything was written.
    GaveUp { why: String },
}

/// The same update of both registers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Update {
    /// The number that it added to the sets.
    pub(crate) number: u64,
    /// The token of the grant under which it was made.
    pub(crate) token: u64,
    pub(crate) fenced: Outcome,
    pub(crate) unfenced: Outcome,
}

/// What became of an update of one register.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Outcome {
    /// The database has said that it is written.
    Acknowledged,
    /// The guard refused it: a newer holder has been there.
    Stale { required: u64 },
    /// Nobody knows: the answer was lost, or did not come in time.
    Unknown { why: String },
}
