//! The issuer's core: what a log entry does to the state, and nothing else.
//!
//! [`Machine::apply`] is synchronous, total and deterministic: no clock, no file, no socket, no random
//! number, no hash-map order, no panic on anything that can be in the log. Every node applies the same
//! entries in the same order and so has the same state; a chained hash over entries, outcomes and
//! events shows it if one does not.
//!
//! A token is minted here and nowhere else, from the log position of the entry that makes the grant,
//! and only after two checks: it is greater than the last one, and the log moved forward. If either
//! fails the node has to stop ([`Broken`]), because a doubtful token is worse than no token.
//!
//! Time is kept beside the state, not in it: the [`LeaseClock`] of each node holds its own deadlines,
//! and an `Expire` names the number of renewals that its deadline was computed for.
//!
//! What is left out, for now: waiting for a resource (`wait`, `Withdraw`, `Promote`) and the cluster's
//! own guard register (`Admit`); their places in the codec are taken. A limit for each holder.

pub mod codec;
mod command;
mod event;
mod grants;
mod lease_clock;
mod log_id;
mod machine;
mod outcome;
mod replica;
mod requests;

pub use codec::{
    CommandTooLong, DecodeError, SnapshotError, decode_command, decode_outcome, encode_command,
    encode_outcome,
};
pub use command::{
    Acquire, Command, DueLease, Expire, RaiseFloor, Release, Renew, Renewal, RequestKey, Revoke,
};
pub use event::Event;
pub use lease_clock::LeaseClock;
pub use log_id::{Broken, LogId};
pub use machine::{Applied, Bounds, InstanceId, Machine, NodeId, Page, StateDigest};
pub use outcome::{
    AcquireOutcome, HeldBy, Outcome, RaiseFloorOutcome, ReleaseOutcome, RenewOutcome, RevokeOutcome,
};
pub use replica::{Holding, Replica};
