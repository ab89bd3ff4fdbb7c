//! The dialect of the SQL guards that MySQL and MariaDB share. It is tested on MariaDB.
//!
//! Two things are different there, and the guards mind them. At REPEATABLE READ, the default, a plain
//! read is of the transaction's snapshot, while an UPDATE meets the newest row: whatever decides is a
//! locking read, and a transaction whose snapshot is older than the mark is refused. And
//! `ON DUPLICATE KEY UPDATE` has no condition and meets any unique key: it is used for the table of
//! marks alone, which has one key.

mod catalogue;
mod marks;
mod snapshots;

use sqlx::{
    Arguments as _, MySql, MySqlConnection, TypeInfo as _,
    error::BoxDynError,
    mysql::{MySqlArguments, MySqlTypeInfo},
};

use super::sql::{
    Class, Dialect, Driver, Identifier, Marks, Shape, SqlError, TableName, Upsert, carries_out,
};
use crate::fence::enforcement;
use crate::sequencer::Sequencer;

impl Dialect for MySql {}

impl Driver for MySql {
    const KIND: enforcement::Dialect = enforcement::Dialect::MySql;
    const CLOCK_US: &'static str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";
    const QUOTE: char = '`';
    const SCHEMAS: bool = true;
    const UPSERT: Upsert = Upsert::UpdateThenInsert;
    const NEWEST: &'static str = " FOR UPDATE";
    // sqlx asks the server for found rows. A proxy between may not pass that on, and a statement of
    // the caller's own may come from another client.
    const MAY_COUNT_CHANGED: bool = true;
    const MARKS_MORE: &'static [&'static str] = &["admissions"];

    fn add_text(arguments: &mut MySqlArguments, value: &str) -> Result<(), BoxDynError> {
        arguments.add(value)
    }

    fn add_integer(arguments: &mut MySqlArguments, value: i64) -> Result<(), BoxDynError> {
        arguments.add(value)
    }

    /// MySQL compares a number with a text as floats: 'x1' = 0, and above 2^53 one number equals
    /// several. A key must not be met like that.
    fn compares(class: Class, value: &MySqlTypeInfo) -> bool {
        let name = value.name();
        let integer = name.contains("INT") || name.contains("BOOL");
        let text = ["CHAR", "TEXT", "BLOB", "BINARY", "ENUM"];
        match class {
            Class::Integer => integer,
            Class::Text => text.iter().any(|text| name.contains(text)),
            Class::Other => true,
        }
    }

    fn number_as_text(column: &str) -> String {
        format!("CONVERT({column} USING utf8mb4)")
    }

    fn text_as_text(column: &str) -> String {
        format!("CONVERT({column} USING utf8mb4)")
    }

    carries_out!(MySqlConnection);

    async fn shape(
        connection: &mut MySqlConnection,
        table: &TableName,
        _key: &[Identifier],
    ) -> Result<Shape, SqlError> {
        catalogue::shape(connection, table).await
    }

    fn marks_sql(table: &TableName) -> String {
        marks::create_sql(table)
    }

    async fn refuses_old_snapshots(connection: &mut MySqlConnection) -> Result<bool, SqlError> {
        snapshots::can_be_refused(connection).await
    }

    async fn raise(
        connection: &mut MySqlConnection,
        marks: &Marks,
        sequencer: &Sequencer,
    ) -> Result<bool, SqlError> {
        marks::raise(connection, marks, sequencer).await
    }

    fn not_raised(_table: &TableName) -> SqlError {
        marks::OLD_SNAPSHOT
    }
}
