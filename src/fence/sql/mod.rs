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
//! ALTER TABLE accounts ADD COLUMN fencing_token BIGINT NOT NULL DEFAULT 0;
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
//! Both are the same for [`Sqlite`](sqlx::Sqlite), [`Postgres`](sqlx::Postgres) and
//! [`MySql`](sqlx::MySql) (MariaDB, too), each behind its feature; a [`Dialect`] is what differs.
//!
//! **Isolation.** Both are right at every level that these servers offer, or refuse. Where another
//! transaction was in the way, the error's [`may_retry`](SqlError::may_retry) says yes: run the whole
//! transaction again. `docs/fencing-sql.md` goes through the levels, and has all statements for those
//! who write their own. Let the guarded statement, or [`GuardTable::fenced`], come before the
//! transaction's first read; what was read earlier may be what another holder has changed since, and
//! no token can tell. [`RowWrite::expecting`] can, for a row that has a version.

mod begin;
mod comparison;
mod dialect;
mod error;
mod guard_table;
mod guarded_row;
mod guarded_table;
mod names;
mod outcome;
mod row_statements;
mod shape;
mod sql_guard;
mod statement;
mod stored;

pub use dialect::Dialect;
pub use error::{SqlError, refused_by_trigger};
pub use guard_table::GuardTable;
pub use guarded_row::RowWrite;
pub use guarded_table::GuardedTable;
pub use outcome::WriteOutcome;
pub use sql_guard::SqlGuard;

// For the dialects, and for other tables beside the data.
#[allow(
    unused_imports,
    reason = "a build with one dialect alone has no use for what another needs"
)]
pub(in crate::fence) use {
    begin::begin,
    comparison::comparison,
    dialect::{Driver, Upsert, carries_out},
    guard_table::Marks,
    names::{Identifier, TableName, quoted},
    shape::{Class, Column, Shape, by_index},
    statement::{Cells, Statement, ask, execute},
};
