//! What differs between the databases.
//!
//! Everything else about the SQL guards is written once, over [`Dialect`]. A dialect says how names
//! are quoted, which statement writes a row that may or may not be there, how a mark is raised, and
//! what the catalogue says about a table. Each lives in a module of its own beside `sql`, behind its
//! own feature.

use std::future::Future;

use sqlx::{Database, error::BoxDynError};

use crate::{fence::enforcement, sequencer::Sequencer};

use super::{
    SqlError,
    guard_table::{self, Marks},
    names::{Identifier, TableName},
    shape::{Class, Shape},
    statement::{Cells, Statement},
};

/// A database that the SQL guards know: [`Sqlite`](sqlx::Sqlite), [`Postgres`](sqlx::Postgres) or
/// [`MySql`](sqlx::MySql), each with its feature. It cannot be implemented elsewhere.
#[expect(
    private_bounds,
    reason = "what a dialect must do is the guards' own affair, and is free to change"
)]
pub trait Dialect: Driver {}

/// How a row is written that may or may not be there.
#[allow(
    dead_code,
    reason = "a build with one dialect alone has no use for what another needs"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::fence) enum Upsert {
    /// `INSERT ... ON CONFLICT (key) DO UPDATE ... WHERE`: one statement that names the key which may
    /// be met, and has a condition.
    OnConflict,
    /// An UPDATE, and where it finds no row, an INSERT. MySQL's `ON DUPLICATE KEY UPDATE` has no
    /// condition, and takes *any* unique key that it meets for the row's own: a row of somebody else
    /// who has the same e-mail address would be overwritten, whoever protects it.
    UpdateThenInsert,
}

/// What a dialect does for the guards.
pub(in crate::fence) trait Driver: Database<ArgumentBuffer: Default> {
    /// Its name among those for which triggers and tables are written as text.
    const KIND: enforcement::Dialect;

    /// An expression that reads the database's clock, in microseconds since 1970, whatever the time zone
    /// of the connection is. It is read anew after waiting for a lock, or for the statement that did.
    const CLOCK_US: &'static str;

    /// The character around names.
    const QUOTE: char;

    /// Whether a table may be named `schema.table`.
    const SCHEMAS: bool;

    /// How a row is written that may or may not be there.
    const UPSERT: Upsert;

    /// What makes a read see the newest committed row, the one that a write would meet, and not that
    /// of a snapshot. Empty where the two never differ without an error.
    const NEWEST: &'static str;

    /// Whether "rows affected" may count changed rows instead of found ones, so that writing the same
    /// values again looks like no row.
    const MAY_COUNT_CHANGED: bool;

    /// Binds a text.
    fn add_text(arguments: &mut Self::Arguments, value: &str) -> Result<(), BoxDynError>;

    /// Binds a whole number.
    fn add_integer(arguments: &mut Self::Arguments, value: i64) -> Result<(), BoxDynError>;

    /// Whether the catalogue's name of a column is this one.
    fn is_column(catalogued: &str, name: &Identifier) -> bool {
        catalogued.eq_ignore_ascii_case(name.name())
    }

    /// Whether a key column compares exactly with a value of this type.
    fn compares(class: Class, value: &Self::TypeInfo) -> bool {
        let _ = (class, value);
        true
    }

    /// An expression that shows a column of whole numbers as text, and whatever else is stored there
    /// so that it does not read as one.
    fn number_as_text(column: &str) -> String;

    /// An expression that gives a column of text as one that can be read as text.
    fn text_as_text(column: &str) -> String {
        column.to_owned()
    }

    /// Carries out a statement; how many rows it says that it met.
    fn execute(
        connection: &mut Self::Connection,
        statement: Statement<Self>,
    ) -> impl Future<Output = Result<u64, SqlError>> + Send;

    /// Asks for rows of text.
    fn ask(
        connection: &mut Self::Connection,
        statement: Statement<Self>,
    ) -> impl Future<Output = Result<Vec<Cells>, SqlError>> + Send;

    /// Runs statements without parameters, for making tables.
    fn script(
        connection: &mut Self::Connection,
        sql: String,
    ) -> impl Future<Output = Result<(), SqlError>> + Send;

    /// What the catalogue says about a table, and about those of its columns that are to be keys.
    fn shape(
        connection: &mut Self::Connection,
        table: &TableName,
        key: &[Identifier],
    ) -> impl Future<Output = Result<Shape, SqlError>> + Send;

    /// The statements that make a table of marks.
    fn marks_sql(table: &TableName) -> String;

    /// Columns of a table of marks beside `resource`, `issuer` and `token`.
    const MARKS_MORE: &'static [&'static str] = &[];

    /// Whether [`Driver::raise`] may ask the server to refuse old snapshots itself. Only where a raised
    /// mark can be newer than what the transaction reads does it matter, and is it asked, once, when the
    /// table is opened.
    fn refuses_old_snapshots(
        connection: &mut Self::Connection,
    ) -> impl Future<Output = Result<bool, SqlError>> + Send {
        let _ = connection;
        std::future::ready(Ok(false))
    }

    /// Raises a mark to the sequencer's token and locks it to the end of the transaction; false if
    /// the mark did not allow it.
    fn raise(
        connection: &mut Self::Connection,
        marks: &Marks,
        sequencer: &Sequencer,
    ) -> impl Future<Output = Result<bool, SqlError>> + Send {
        guard_table::raise_on_conflict::<Self>(connection, marks, sequencer)
    }

    /// Why a mark that allows a token could not be raised to it.
    fn not_raised(table: &TableName) -> SqlError {
        table.unfit(
            "its mark allows this token, and yet could not be raised; a trigger may stand in the \
             way",
        )
    }
}

/// How a dialect carries statements out: the same in each, and a macro, since sqlx's executors are of one
/// database each.
macro_rules! carries_out {
    ($connection:ty) => {
        async fn execute(
            connection: &mut $connection,
            statement: $crate::fence::sql::Statement<Self>,
        ) -> Result<u64, $crate::fence::sql::SqlError> {
            let done = $crate::fence::sql::execute(connection, statement).await?;
            Ok(done.rows_affected())
        }

        async fn ask(
            connection: &mut $connection,
            statement: $crate::fence::sql::Statement<Self>,
        ) -> Result<Vec<$crate::fence::sql::Cells>, $crate::fence::sql::SqlError> {
            $crate::fence::sql::ask(connection, statement).await
        }

        async fn script(
            connection: &mut $connection,
            sql: String,
        ) -> Result<(), $crate::fence::sql::SqlError> {
            let sql = sqlx::raw_sql(sqlx::AssertSqlSafe(sql));
            sql.execute(connection).await?;
            Ok(())
        }
    };
}
pub(in crate::fence) use carries_out;
