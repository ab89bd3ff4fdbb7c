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
//! Waiting is state too. A queue is served first come first served, and the entry that ends a grant
//! gives the resource to the head in the same step. One entry issues at most one token: an entry that
//! ends several grants only ends them, and the leader proposes `Promote` for each queue that is left.
//!
//! The cluster's own guard register is state as well: for a resource with no store of its own, the
//! high-water mark that an `Admit` raises. It forgets no mark, because a forgotten mark would admit
//! tokens that it had refused.

pub mod codec;
mod command;
mod event;
mod grants;
mod holders;
mod lease_clock;
mod log_id;
mod machine;
mod marks;
mod outcome;
mod queues;
mod replica;
mod requests;

pub use codec::{
    CommandTooLong, DecodeError, SnapshotError, decode_command, decode_outcome, encode_command,
    encode_outcome,
};
pub use command::{
    Acquire, Admit, Command, DueLease, Expire, Leaving, Promote, RaiseFloor, Release, Renew,
    Renewal, RequestKey, Revoke, Withdraw,
};
pub use event::Event;
pub use lease_clock::LeaseClock;
pub use log_id::{Broken, LogId};
pub use machine::{
    Applied, Bounds, InstanceId, Machine, NodeId, Page, Standing, StateDigest, Weighed,
};
pub use outcome::{
    AcquireOutcome, AdmitOutcome, HeldBy, Outcome, PromoteOutcome, RaiseFloorOutcome,
    ReleaseOutcome, RenewOutcome, RevokeOutcome, WithdrawOutcome,
};
pub use queues::Waiter;
pub use replica::{Holding, Replica};
