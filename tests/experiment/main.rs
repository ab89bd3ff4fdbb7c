//! Kleppmann's story as an experiment: a holder is stopped inside its critical section until others have
//! written, then goes on and writes, too.
//!
//! Real nodes, real client processes, a real PostgreSQL, and in each critical section the same update of
//! two registers: one that is fenced and one that is not. What each lost is counted exactly. The story
//! is told in `docs/experiment.md`, with the figures of a run.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test reads clocks to bound its waiting, and a panic is its failure"
)]

mod client;
#[path = "../databases/mod.rs"]
mod databases;
mod members;
#[allow(
    dead_code,
    reason = "the harness of tests/cluster does more than this story needs"
)]
#[path = "../cluster/nodes/mod.rs"]
mod nodes;
mod process;
mod reading;
mod registers;
mod report;
mod script;
mod settings;
mod story;
mod tally;
#[path = "../cluster/waiting.rs"]
mod waiting;
