//! Raft: forming, membership, failover, snapshots, and openraft's own storage suite.
//!
//! Nodes run in this process, on loopback ports, each with a runtime of its own: to drop the runtime is
//! what kill -9 is to a process. Their disks are values that outlive them.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test reads clocks to bound its waiting, and a panic is its failure"
)]

mod conformance;
mod cut;
mod elections;
mod forming;
mod harness;
mod identity;
mod membership;
mod proposals;
mod snapshots;
mod vouching;
