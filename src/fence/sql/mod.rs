//! Guards in an SQL database, where the mark commits together with what it protects.
//!
//! Reading the mark, comparing it, and then writing is the classic mistake: between the two, a
//! newer holder may come and write, and the old one overwrites it. Here the comparison is part of
//! the statement that writes, or of the transaction that holds the mark locked. There are two ways:
//!
//! **The row carries its token** ([`GuardedTable`]). Best where the table can have one more column.
//! Check and write are one statement:
//!
//! ```sql
//! ALTER TABLE accounts ADD COLUMN fencing_token INTEGER NOT NULL DEFAULT 0;
//!
//! UPDATE accounts SET balance = ?, fencing_token = ? WHERE id = ? AND fencing_token <= ?;
//!
//! INSERT INTO accounts (id, balance, fencing_token) VALUES (?, ?, ?)
//!     ON CONFLICT (id) DO UPDATE SET balance = excluded.balance, fencing_token = excluded.fencing_token
//!     WHERE accounts.fencing_token <= excluded.fencing_token;
//! ```
//!
//! Such a statement says "no rows" when it is refused, and also when there is no such row;
//! [`GuardedTable`] tells the two apart within the same transaction. The mark lives as long as the
//! row: whoever deletes rows under a lease should mark them deleted instead, or use the other way,
//! for a row that was deleted and made again has forgotten its mark.
//!
//! **A table of marks** ([`GuardTable`]), for data whose own tables cannot change, or where one
//! resource protects many rows. [`GuardTable::fenced`] locks the mark in the caller's transaction,
//! and the writes that follow commit with it or not at all.
//!
//! The dialect so far is SQLite. It has one writer at a time, so both ways are serializable there
//! whatever the isolation level; what differs is when a transaction takes the write lock. Let the
//! guarded statement, or [`GuardTable::fenced`], come before any read, or begin with
//! `BEGIN IMMEDIATE`: a transaction that has read cannot become a writer once another has committed
//! (`SQLITE_BUSY_SNAPSHOT`), and fails, safely but needlessly.

mod comparison;
mod documents;
mod error;
mod guard_table;
mod guarded_row;
mod guarded_table;
mod identifier;

pub use documents::{Document, Documents};
pub use error::SqlError;
pub use guard_table::{GuardTable, SqlGuard};
pub use guarded_row::{RowWrite, WriteOutcome};
pub use guarded_table::GuardedTable;
