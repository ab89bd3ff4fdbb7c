//! What cannot be fenced: recorded calls, and what becomes of them.

mod crashes;
mod ledger;
mod listing;
mod names;
mod purge;
mod record;
mod scene;
mod send;
mod settle;
mod worker;
