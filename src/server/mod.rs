//! The issuer node.

pub mod api;
pub mod raft;
pub mod store;
