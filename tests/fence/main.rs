//! The guards: the resource's half of fencing, each behaviour against each guard that has it.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test reads clocks to bound its waiting, and a panic is its failure"
)]

mod conformance;
mod context;
#[path = "../databases/mod.rs"]
mod databases;
mod ended_runtimes;
mod enforcement;
#[path = "../interop/python/environment.rs"]
mod environment;
mod fenced;
mod files;
mod foreign;
mod http;
mod issuer_table;
mod job_queue;
mod memory;
mod model;
mod objects;
mod own_servers;
mod private_servers;
mod promise;
mod redis;
mod redis_page;
mod redis_servers;
mod scene;
mod sql;
mod stores;
mod unfenced;
mod watched;
