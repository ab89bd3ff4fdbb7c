//! Fencing over any store that has a conditional update, and the way to plug one in.
//!
//! A store can be fenced as soon as it can do *one* thing atomically: change a value and its mark
//! together, on the condition that the mark lets the token pass. [`ConditionalStore`] is that one
//! thing, [`FencedResource`] the same handling of it for all stores:
//! [`apply`](FencedResource::apply) carries out a mutation, or answers what the store's bare
//! "nothing updated" meant: stale, or foreign, or (an error) nothing that a mark explains.
//!
//! ```
//! # use fencepost::fence::{EqualTokens, Rules};
//! use fencepost::fence::fenced::{Applied, FencedResource};
//! use fencepost::fence::memory::MemoryStore;
//! use fencepost::sequencer::Sequencer;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let rules = Rules::issued_by("prod".parse()?);
//! let inventory = FencedResource::new(MemoryStore::new(), rules);
//! let shelf = "shelf/7".parse()?;
//!
//! let newer: Sequencer = "prod:shelf/7:131".parse()?;
//! let older: Sequencer = "prod:shelf/7:130".parse()?;
//! assert_eq!(inventory.apply(&shelf, &"12 boxes", &newer).await?, Applied::Accepted);
//! let late = inventory.apply(&shelf, &"40 boxes", &older).await?;
//! assert_eq!(late, Applied::Stale { presented: older.token, required: newer.token });
//! # Ok(()) }
//! ```
//!
//! # Reading before writing
//!
//! Fencing the writes alone does not make "read, compute, write" safe. Holder 5 and its successor 6 both
//! read; 5 writes, rightly admitted, since the mark is still below; 6 writes what it computed from the
//! older value, and 5's acknowledged change is gone. Whoever computes a value from the old one raises
//! the mark *before* reading ([`FencedResource::raise`]): after that nothing older gets in. Where the
//! store can compute (`SET balance = balance + 5`), let it.
//!
//! # Plugging in a store
//!
//! Keep two things beside the value, and change all three together: `token`, the mark, as a number of
//! 64 bits (or text that is compared as a number), and `issuer`, whose it is. The condition is then,
//! in whatever language the store speaks,
//!
//! > there is no mark, **or** the issuer is the same **and** `token <= presented`
//!
//! with `<` instead of `<=` where each token counts once ([`EqualTokens`](super::EqualTokens)).
//! [`Update::passes`] is the same in Rust.
//!
//! **DynamoDB**: `UpdateItem` with the condition in the request. `ConditionalCheckFailedException` is
//! `Ok(false)`, anything else an error. Read with `ConsistentRead`.
//!
//! ```text
//! UpdateExpression:    SET balance = :balance, fencing_token = :token, fencing_issuer = :issuer
//! ConditionExpression: attribute_not_exists(fencing_token)
//!                      OR (fencing_issuer = :issuer AND fencing_token <= :token)
//! ```
//!
//! **MongoDB**: the filter is the condition, majority write concern the durability. `matchedCount` 0 is
//! `Ok(false)`; count *matched* and not modified documents. With `upsert: true` a refused filter tries
//! to insert and fails with the duplicate key error 11000, which is `Ok(false)` too.
//!
//! ```text
//! db.accounts.updateOne(
//!   { _id: "1", $or: [ { fencing_token: null },
//!                      { fencing_issuer: "prod", fencing_token: { $lte: Long("131") } } ] },
//!   { $set: { balance: 5, fencing_token: Long("131"), fencing_issuer: "prod" } },
//!   { writeConcern: { w: "majority" } })
//! ```
//!
//! **S3**, and everything else that knows no condition but "unchanged since I read it" (an `ETag`, a
//! version, a revision): implement the smaller [`VersionedStore`] and wrap it in [`CompareAndSwap`],
//! which has the loop. For S3 that is `HEAD` for the mark in `x-amz-meta-fencing` and the `ETag`, then
//! `PUT` with `If-Match: ETAG` (or `If-None-Match: *` where there was nothing); 412 is `Ok(false)`.
//! The module `object` has it ready made, for all stores of the crate `object_store`.
//!
//! A store written by hand, whole:
//!
//! ```
//! use std::{collections::HashMap, convert::Infallible, sync::Mutex};
//! use fencepost::fence::{Mark, Rules};
//! use fencepost::fence::fenced::{Applied, ConditionalStore, FencedResource, Update};
//! use fencepost::resource::ResourceName;
//!
//! /// Balances, to which amounts are added.
//! #[derive(Default)]
//! struct Balances(Mutex<HashMap<ResourceName, (i64, Option<Mark>)>>);
//!
//! impl ConditionalStore for Balances {
//!     type Mutation = i64;
//!     type Error = Infallible;
//!
//!     async fn conditional_update(&self, update: &Update<'_, i64>) -> Result<bool, Infallible> {
//!         // The lock makes check and change one step. In a database its own condition does.
//!         let mut balances = self.0.lock().expect("nothing panics under it");
//!         let (balance, mark) = balances.entry(update.resource.clone()).or_default();
//!         if !update.passes(mark.as_ref()) {
//!             return Ok(false);
//!         }
//!         *balance += update.mutation;
//!         *mark = Some(update.mark());
//!         Ok(true)
//!     }
//!
//!     async fn read_token(&self, resource: &ResourceName) -> Result<Option<Mark>, Infallible> {
//!         let balances = self.0.lock().expect("nothing panics under it");
//!         Ok(balances.get(resource).and_then(|(_, mark)| mark.clone()))
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let fenced = FencedResource::new(Balances::default(), Rules::issued_by("prod".parse()?));
//! let account = "account/1".parse()?;
//! assert_eq!(fenced.apply(&account, &5, &"prod:account/1:8".parse()?).await?, Applied::Accepted);
//! assert!(matches!(fenced.apply(&account, &5, &"prod:account/1:7".parse()?).await?, Applied::Stale { .. }));
//! # Ok(()) }
//! ```
//!
//! Hold such a store to the promise with the conformance kit (feature `fence-conformance`): a store
//! that reads, decides and then writes passes every test that has one caller.

mod applied;
mod resource;
mod store;
mod versioned;

pub use applied::{Applied, ApplyError, FoundMark};
pub use resource::FencedResource;
pub use store::{ConditionalStore, MarkStore, Update};
pub use versioned::{CompareAndSwap, Put, SWAP_ATTEMPTS_MAX, SwapError, Versioned, VersionedStore};
