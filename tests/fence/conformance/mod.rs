//! The conformance kit: against guards that are wrong, and against all of our own.

mod databases;
mod dialects;
mod grpc;
mod ours;
mod reports;
mod restarted;
mod service;
mod shelf;
mod stores;
mod wrong;
