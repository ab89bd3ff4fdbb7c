//! What cannot be fenced: mail, payments, devices, and whatever else compares no tokens.
//!
//! Such a service does what it is told, by whomever, whenever it arrives. What can be had is less than
//! fencing, and takes four things together:
//!
//! 1. **A local guard before the call**, in the caller's own database, so that a holder who has lost its
//!    lease begins nothing new.
//! 2. **An idempotency key**, [`IdempotencyKey`], `resource:token` or `resource:token:operation`, so that
//!    a call that is sent again is done once. [`Operation`] makes the caller say which of the two.
//! 3. **A durable record** of the call before it goes out, [`Calls::record`], in the same transaction as the
//!    guard and the caller's own writes, so that a crash leaves a trace of what it may have done.
//! 4. **Reconciliation** afterwards: [`Calls::open_calls`] lists what was left open, oldest first, and
//!    [`Calls::send`], [`Calls::ask`] and [`Calls::conclude`] settle it. [`Calls::purge`] deletes what was
//!    settled long ago.
//!
//! ```no_run
//! use std::time::{Duration, SystemTime};
//! use fencepost::fence::unfenced::{Answer, Calls, Operation, Progress, Recorded, Terms};
//! # use fencepost::{fence::sql::{Dialect, GuardTable}, sequencer::Sequencer};
//! # async fn pay(key: &str, request: &str) -> Answer { Answer::Unknown }
//! # async fn example<DB: Dialect>(pool: sqlx::Pool<DB>, guard: GuardTable<DB>, grant: Sequencer, now: SystemTime) -> Result<(), Box<dyn std::error::Error>> {
//! let terms = Terms::remembers_keys_for(Duration::from_secs(23 * 60 * 60));
//! let calls = Calls::create(&mut *pool.acquire().await?, "payments", guard, terms).await?;
//!
//! let mut tx = pool.begin().await?;
//! let invoice = Operation::named("invoice 12")?;
//! let call = match calls.record(&mut tx, &grant, &invoice, "12.50 EUR", now).await? {
//!     Recorded::New(call) | Recorded::Again(call) => call,
//!     Recorded::Unsettled(older) => return Err(format!("settle {} first", older.key).into()),
//!     Recorded::Refused(refusal) => return Err(refusal.into()),
//! };
//! // ... what the program itself has to remember about it, in the same transaction ...
//! tx.commit().await?;
//!
//! let service = async |out: fencepost::fence::unfenced::Outgoing| pay(out.key.as_str(), &out.request).await;
//! match calls.send(&pool, &grant, &call.key, now, service).await? {
//!     Progress::Settled(call) => println!("{:?}", call.state),
//!     open => println!("to be settled later: {open:?}"),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # The states of a call
//!
//! | state | means | what to do |
//! |---|---|---|
//! | pending | recorded, certainly never sent | send it, or give it up by concluding it as refused |
//! | unknown | begun to be sent, no answer recorded | send it again with the same key while the service remembers that; ask by key; or let a person find out |
//! | done | it had its effect; the answer is kept | nothing |
//! | refused | it had none and never will; the answer is kept | nothing |
//!
//! # What remains
//!
//! A request that was sent before its holder died may *arrive* later, even after a newer holder was
//! admitted; nothing on this side can call it back. The key still keeps it to one effect. And where the
//! service promises nothing about keys ([`Terms::no_promise`]) a call that became unknown is not sent
//! again by anything here: at most once, not exactly once.

mod call;
mod error;
mod key;
mod list;
mod operation;
mod purge;
mod row;
mod send;
mod table;
mod terms;

pub use call::{Answer, Call, CallState, Outgoing};
pub use error::CallError;
pub use key::{IdempotencyKey, KEY_BYTES_MAX, KeyError, KeyForm, KeyTooShort};
pub use list::{Backlog, PAGE_MAX};
pub use operation::{OPERATION_CHARS_MAX, Operation, OperationError, OperationName};
pub use purge::PURGE_MAX;
pub use send::{ANSWER_BYTES_MAX, Progress};
pub use table::{Calls, REQUEST_BYTES_MAX, Recorded};
pub use terms::Terms;
