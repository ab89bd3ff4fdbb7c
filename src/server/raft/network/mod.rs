//! Raft over gRPC, between the nodes of one cluster.
//!
//! Each peer has lazy connections by kind of traffic, so that a heartbeat never waits behind a
//! megabyte of log or of snapshot. Appends are one bidirectional stream for as long as the leader
//! leads: requests go out without waiting, replies come back in order. Nothing here waits without a
//! bound; the bounds are ours, not gRPC's.
//!
//! Left out: encryption and authentication. Whoever reaches the peer port is trusted.

mod append;
mod client;
mod convert;
mod gate;
mod links;
mod local;
mod service;
mod sightings;
mod snapshot;

pub(super) use client::Dialer;
pub(super) use gate::{Gate, Refusal};
pub(super) use links::{Switchboard, Traffic};
pub(super) use local::Local;
pub(super) use service::PeerService;

/// Metadata key that tells a program why a call was refused before Raft saw it.
pub(super) const REFUSAL_KEY: &str = "fencepost-refusal";

/// The most bytes in one message either way: what gRPC takes by default.
pub(super) const MESSAGE_BYTES_MAX: usize = 4 << 20;
