//! A guard, and fenced values, in Redis: one script, which Redis carries out as one step.
//!
//! The script (`fenced.lua`) compares the token with the mark, raises the mark and writes the value, or
//! does nothing. Each resource has two keys, the value's `PREFIX` + name and the mark's
//! `{PREFIX` + name + `}:fencing`, which a cluster keeps in one slot. The name is percent-encoded. The
//! mark is a hash of issuer and token; the time to live of a value stays as it is.
//!
//! ```no_run
//! use fencepost::fence::{Rules, fenced::FencedResource, redis::RedisStore};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let client = redis::Client::open("redis://127.0.0.1/")?;
//! let connection = client.get_multiplexed_async_connection().await?;
//! let store = RedisStore::open(connection, "jobs:").await?;
//! let jobs = FencedResource::new(store, Rules::issued_by("prod".parse()?));
//!
//! let nightly = "nightly".parse()?;
//! let sequencer = "prod:nightly:131".parse()?;
//! jobs.apply(&nightly, b"begun", &sequencer).await?.accepted()?;
//! # Ok(()) }
//! ```
//!
//! **Redis can forget.** It acknowledges a write before a replica has it, and unless told otherwise
//! before the disk has it; a failover or a crash may then bring back a lower mark, and a token that was
//! refused is admitted. `docs/fencing-redis.md` says what exactly is lost when, what `WAIT` and AOF
//! change about it, and for what a guard in Redis is right nevertheless.
//!
//! Any connection of the crate `redis` will do (a multiplexed one, a `ConnectionManager`, a cluster's).
//! Commands that a client gave up on may still be carried out later: that is safe, since the script
//! judges when it runs, and not when it was sent.

mod error;
mod keys;
mod reply;
mod store;

pub use error::RedisError;
pub use store::{RedisStore, VALUE_BYTES_MAX};
