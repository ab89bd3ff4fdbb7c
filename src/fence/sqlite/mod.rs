//! SQLite: its dialect of the SQL guards, and the smallest storage that fences.
//!
//! SQLite has one writer at a time, so that the guards are serializable whatever the isolation level;
//! what differs is when a transaction takes the write lock. A transaction that has read cannot become
//! a writer once another has committed (`SQLITE_BUSY_SNAPSHOT`): it fails, and may be run again.
//! `BEGIN IMMEDIATE` takes the write lock at once.

mod dialect;
mod documents;

pub use documents::{Document, Documents};
