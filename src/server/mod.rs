//! The issuer node.

pub mod api;
pub mod clock;
pub mod config;
pub mod raft;
pub mod store;
pub mod telemetry;
