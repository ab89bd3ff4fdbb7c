//! Enforcement in the database itself: triggers that refuse what a guard would have refused.
//!
//! A guarded statement says `WHERE ... AND fencing_token <= ?`. Nothing makes anybody write that
//! condition: one forgotten `WHERE`, one script by hand, and a stale holder has overwritten its
//! successor. With the triggers of this module the table refuses such a statement itself, whoever
//! sends it, and nothing of it is done.
//!
//! This module only writes text: statements with comments, to be reviewed and applied by whoever
//! keeps the schema, and what takes them back. It opens no connection. Taking them back drops no mark
//! unless that is asked for ([`Enforcement::undo_and_drop`]): a script cannot know whether the column or
//! the table was there before it.
//!
//! ```
//! use fencepost::fence::enforcement::{Dialect, Enforcement};
//!
//! let accounts = Enforcement::of_table(Dialect::Postgres, "accounts")?.add_column();
//! let (apply, undo) = (accounts.apply()?, accounts.undo()?);
//! assert!(apply.to_string().contains("CREATE TRIGGER"));
//! assert!(undo.to_string().contains("DROP TRIGGER"));
//! # Ok::<(), fencepost::fence::enforcement::EnforcementError>(())
//! ```
//!
//! What the triggers do, and what they cannot:
//!
//! - An UPDATE must present a token that is not lower than the row's mark (with
//!   [`EqualTokens::Once`](crate::fence::EqualTokens::Once): a higher one). Every row that the
//!   statement touches is judged, and one refused row undoes the whole statement.
//! - An UPDATE that does not name the token column at all carries no token, and is refused where the
//!   database can tell ([`Unnamed`]). Maintenance says `SET fencing_token = fencing_token`.
//! - An INSERT must carry a number, 0 for a row that nobody has fenced yet. REPLACE and upserts are
//!   judged as what they do: an insert over a row is an update of it, or its removal.
//! - A row cannot be deleted, nor its key be changed, unless its mark is kept elsewhere
//!   ([`Deletes`]): made again, it would have forgotten its mark.
//! - A trigger can be switched off by whoever may change the schema, and some operations fire none
//!   (`TRUNCATE` and cascading foreign keys in MySQL and MariaDB). Each script names those of its
//!   database in its comments.
//!
//! A refusal is an error of the database with a text and a code that [`Refused`] reads.

mod error;
mod mysql;
mod name;
mod plan;
mod postgres;
mod refused;
mod script;
mod sqlite;
mod tables;

pub use error::EnforcementError;
pub use name::Dialect;
pub use plan::{Deletes, Enforcement, Unnamed};
pub use refused::Refused;
pub use script::{Script, Step};
pub use tables::{GuardTableScript, IssuerTableScript};
