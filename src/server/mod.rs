//! The issuer node.
//!
//! `store` is the disk and `raft` the agreement; `api` turns calls into commands and outcomes into
//! answers; `node` puts everything together. The rest is what these need: the clock, the ports, the
//! expiry of leases, the audit log, the history that watches read, configuration and telemetry.

pub mod api;
pub mod audit;
pub mod clock;
pub mod config;
pub mod expiry;
pub mod history;
pub mod node;
pub mod port;
pub mod raft;
pub mod store;
pub mod telemetry;
pub mod waits;
