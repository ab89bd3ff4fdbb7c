//! The layers for HTTP and gRPC, over real sockets.

mod client;
mod door;
mod hops;
mod rules;
pub(crate) mod scene;
mod streams;
