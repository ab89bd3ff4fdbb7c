//! The store: its contract over both implementations, and what it does when the disk misbehaves.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test reads clocks to bound its waiting, and a panic is its failure"
)]

mod contract;
mod damage;
mod failing;
mod fixture;
mod judge;
mod kill;
mod opening;
mod power_cut;
mod reading;
mod sync;
mod worker;
