//! `fencepost guard probe` against services written in Python: a right one passes every time, and each
//! of many subtly wrong ones fails the check that names its mistake, and no other. And the snippets of
//! `docs/fencing-guide.md`, which the right service is one of.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test reads clocks to bound its waiting, and a panic is its failure"
)]

#[path = "../databases/mod.rs"]
mod databases;
#[path = "../interop/python/environment.rs"]
mod environment;
#[path = "../server/ports.rs"]
mod ports;
#[path = "../cli/running.rs"]
#[allow(
    dead_code,
    reason = "the command line's tests ask more of a process than these"
)]
mod running;

mod asking;
mod guide;
mod ours;
mod right;
mod service;
mod tls;
mod unanswered;
mod usage;
mod wrong;
