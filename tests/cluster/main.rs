//! Clusters of real `fencepost` processes on real sockets, and the histories that they are judged by.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test reads clocks to bound its waiting, and a panic is its failure"
)]

#[path = "../interop/python/environment.rs"]
mod environment;

mod asking;
mod calm;
mod chaos;
mod checks;
mod cut_off;
mod dice;
mod elections;
mod forming;
mod history;
mod holding;
mod interop;
mod judging;
mod late_copies;
mod left_over;
mod link;
mod nodes;
mod promises;
mod refusals;
mod register;
mod replacing;
mod stale_leader;
mod standing_in_line;
mod stopping;
mod waiting;
mod watching_over;
