//! The issuer's core: golden scripts, random commands against a naive oracle, planted bugs that the
//! oracle must catch, golden bytes, and one test for each thing that the core promises.
//!
//! `UPDATE_GOLDENFILES=1` rewrites what the scripts in `scripts/` expect; read the difference.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test reads clocks to have an instant to start from, and a panic is its failure"
)]

mod against_oracle;
mod bytes;
#[path = "../cluster/dice.rs"]
mod dice;
mod doctored;
mod golden;
mod late_copies;
mod lease_clock;
mod names;
mod oracle;
mod planted_bugs;
mod play;
mod queues;
mod register;
mod request_ids;
mod samples;
mod scene;
mod simulation;
mod snapshots;
mod telling;
mod tokens;
mod traffic;
mod world;
