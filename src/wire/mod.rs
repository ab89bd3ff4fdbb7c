//! The wire contract in Rust: generated code, and the translations between protobuf and the words.
//!
//! The code under `generated/` is checked in, so that nobody needs protoc; `tests/wire` fails when it
//! is stale and rewrites it with `FENCEPOST_REGENERATE=1 cargo test --test wire`.

pub mod failure;
pub mod words;

#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    reason = "generated"
)]
#[rustfmt::skip]
#[path = "generated/fencepost.v1.rs"]
pub mod v1;

/// The descriptors of `fencepost.v1`, for reflection.
pub const V1_DESCRIPTORS: &[u8] = include_bytes!("generated/fencepost.v1.binpb");

/// What the nodes of a cluster say to each other. For `server::raft` alone.
#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::allow_attributes_without_reason,
    reason = "generated"
)]
#[rustfmt::skip]
#[path = "generated/fencepost.peer.v1.rs"]
pub mod peer_v1;
