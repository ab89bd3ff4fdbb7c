//! The issuer node.

pub mod api;
pub mod config;
pub mod raft;
pub mod store;
