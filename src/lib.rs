//! fencepost: a Raft-replicated issuer of fencing tokens, and the guards that check them.
//!
//! A program that only talks to a cluster turns the defaults off: without openraft, sled, clap and axum
//! there is much less to build.
//!
//! ```toml
//! fencepost = { version = "0.1", default-features = false, features = ["client", "fence-sqlite"] }
//! tokio = { version = "1", features = ["macros", "rt-multi-thread", "time"] }
//! ```
//!
//! | feature | brings | in the defaults |
//! |---|---|---|
//! | none | the words, and the guard in memory ([`fence::memory`]) | |
//! | `client` | `client`: acquire, hold, watch, release, and the operator's verbs | yes |
//! | `fence-sqlite` `fence-postgres` `fence-mysql` | `fence::sql`: guards in SQLite, PostgreSQL, MariaDB and MySQL; `fence::sqlite`: documents in a file | yes |
//! | `fence-redis` | `fence::redis`: a guard in Redis | yes |
//! | `fence-object-store` | `fence::object`: guarded objects, by conditional put | yes |
//! | `fence-http` | `fence::http`: layers for HTTP and gRPC services and clients | yes |
//! | `fence-conformance` | `fence::conformance`: holds anybody's guard to the promise | yes |
//! | `fence` | all guards | yes |
//! | `server` | `server`, `issuer`: a node | yes |
//! | `cli` | the binary `fencepost`, with all of the above | yes |
//!
//! A holder's whole life, as in `examples/guarded_write.rs`:
//!
#![cfg_attr(
    all(feature = "client", feature = "fence-sqlite"),
    doc = concat!("```no_run\n", include_str!("../examples/guarded_write.rs"), "```")
)]
//!
//! The tree is the architecture; imports only go down. `docs/architecture.md` walks through it.

// Floor 0: the words.
pub mod grant;
pub mod id;
pub mod limits;
pub mod resource;
pub mod sequencer;
pub mod token;

// Floor 1: the parts that stand alone.
pub mod fence {
    //! Guards: the resource's half of fencing.
    #[cfg(feature = "fence-conformance")]
    pub mod conformance;
    pub mod context;
    pub mod enforcement;
    pub mod fenced;
    pub mod file;
    mod frame;
    mod guard;
    #[cfg(feature = "fence-http")]
    pub mod http;
    #[cfg(feature = "fence-sql")]
    pub mod issuer_table;
    pub mod memory;
    #[cfg(feature = "fence-mysql")]
    mod mysql;
    mod naming;
    #[cfg(feature = "fence-object-store")]
    pub mod object;
    #[cfg(feature = "fence-postgres")]
    mod postgres;
    #[cfg(feature = "fence-redis")]
    pub mod redis;
    mod rules;
    #[cfg(feature = "fence-sql")]
    pub mod sql;
    #[cfg(feature = "fence-sqlite")]
    pub mod sqlite;
    #[cfg(feature = "fence-sql")]
    pub mod unfenced;
    pub mod watched;

    pub use guard::*;
    pub use rules::*;
}
#[cfg(feature = "server")]
pub mod issuer;
#[cfg(feature = "wire")]
pub mod wire;

// Floors 2 and 3: what talks to a cluster, and what is one.
#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "server")]
pub mod server;
