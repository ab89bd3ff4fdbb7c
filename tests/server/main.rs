//! A node as its callers and operators see it: in one process, over loopback, through its ports.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test reads clocks to bound its waiting, and a panic is its failure"
)]

mod conforming;
mod connections;
#[path = "../raft/cut.rs"]
mod cut;
mod expiry;
mod forwarding;
mod grants;
mod nodes;
mod odd_inputs;
mod pipeline;
mod ports;
mod probes;
mod refusals;
mod register;
mod serve;
mod stopping;
mod waiting;
mod watch;
