//! The layers for HTTP and gRPC, over real sockets.

mod client;
mod door;
mod hops;
mod rules;
mod scene;
mod streams;
