//! fencepost: a Raft-replicated issuer of fencing tokens, and the guards that check them.
//!
//! The tree is the architecture; imports only go down. `docs/architecture.md` walks through it.

// Floor 0: the words.
pub mod grant;
pub mod limits;
pub mod resource;
pub mod sequencer;
pub mod token;

// Floor 1: the parts that stand alone.
pub mod fence {
    //! Guards: the resource's half of fencing.
    mod guard;
    pub mod memory;
    mod rules;
    #[cfg(feature = "fence-sqlite")]
    pub mod sql;

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
