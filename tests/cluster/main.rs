//! Clusters of real `fencepost` processes on real sockets, and the histories that they are judged by.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test reads clocks to bound its waiting, and a panic is its failure"
)]

mod asking;
mod chaos;
mod checks;
mod dice;
mod forming;
mod history;
mod interop;
mod left_over;
mod nodes;
mod promises;
mod refusals;
mod replacing;
mod stale_leader;
mod stopping;
mod waiting;
mod watching_over;
