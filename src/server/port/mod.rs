//! Taking connections in, within limits, so that nobody outside can use up what this process has.
//!
//! A connection holds a file descriptor and memory. Without a bound on them a node runs out of
//! descriptors, and then cannot open its own files or reach its peers; its accept loop would spin on the
//! error, in silence. So an [`Entrance`] counts, one connection too many is closed at once, and a failed
//! accept is told and waited out.
//!
//! Some connect and never say anything, or a byte at a time. [`Connection`] gives up on those.

mod connection;
mod entrance;

pub use connection::{Connection, LongCall, LongCalls, Patience};
pub use entrance::{Entrance, EntranceCounts};
