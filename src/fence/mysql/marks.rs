//! The table of marks in MySQL's dialect, and how a mark is raised there.

use std::fmt::Write as _;

use sqlx::{AssertSqlSafe, MySql, MySqlConnection, Row as _};

use crate::{
    fence::sql::{Marks, SqlError, TableName, comparison},
    sequencer::Sequencer,
};

/// What a transaction is told that read before it was fenced, when somebody else was admitted between.
pub(super) const OLD_SNAPSHOT: SqlError = SqlError::Isolation {
    level: "REPEATABLE READ",
    reason: "the transaction has read before it was fenced, and its snapshot is older than the mark: \
             what it reads from now on would be what an earlier holder has overwritten since; roll \
             back, and call `fenced` before the first read, or use READ COMMITTED",
};

/// VARBINARY compares bytes, without blanks at the end being lost: two names must never share a mark.
/// Any text type of MySQL's needs a collation that MariaDB does not have, and the other way round.
/// A name has at most 160 characters of four bytes, an issuer's 80.
pub(super) fn create_sql(table: &TableName) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {} (\n    \
             `resource` VARBINARY(640) NOT NULL PRIMARY KEY,\n    \
             `issuer` VARBINARY(320) NOT NULL,\n    \
             `token` BIGINT NOT NULL CHECK (`token` >= 0),\n    \
             `admissions` BIGINT NOT NULL\n\
         ) ENGINE=InnoDB",
        table.quoted::<MySql>()
    )
}

/// Raises a mark, in three steps:
///
/// 1. An INSERT that makes the row with no mark yet, or meets it and changes nothing. Either way the
///    row is ours until the end of the transaction. A locking read would do as well for a row that is
///    there; for one that is not it locks the gap, and two first admissions would deadlock.
/// 2. A plain read of `admissions`, which each admission counts up. At REPEATABLE READ it is of the
///    transaction's snapshot, if it has one already; a row that is younger is not seen, and counts as
///    NULL, to which nothing is equal.
/// 3. The UPDATE that checks and raises, on condition that the row is still the one of that snapshot.
///    If it is not, all later plain reads of this transaction would be of a time before somebody else
///    was admitted, and a value worked out from them would undo what was written then.
///
/// At the other levels the second step reads what the first has locked, and the condition holds.
///
/// They go to the server in one message: all who want this mark wait for as long as we hold it, and
/// three round trips are most of that time. Such a message cannot have parameters, so that the names
/// are written as hexadecimal digits, which nothing can be hidden in.
pub(super) async fn raise(
    connection: &mut MySqlConnection,
    marks: &Marks,
    sequencer: &Sequencer,
) -> Result<bool, SqlError> {
    let table = marks.table.quoted::<MySql>();
    let resource = hexadecimal(sequencer.resource.as_str());
    let issuer = hexadecimal(sequencer.issuer.as_str());
    let token = sequencer.token.as_i64();
    let passes = comparison(&marks.rules);
    let steps = format!(
        "INSERT INTO {table} (`resource`, `issuer`, `token`, `admissions`) \
             VALUES ({resource}, {issuer}, 0, 0) ON DUPLICATE KEY UPDATE `resource` = `resource`; \
         SELECT MAX(`admissions`) INTO @fencepost_seen FROM {table} WHERE `resource` = {resource}; \
         UPDATE {table} SET `token` = {token}, `admissions` = `admissions` + 1 \
             WHERE `resource` = {resource} AND `issuer` = {issuer} \
             AND `token`{passes}{token} AND `admissions` = @fencepost_seen; \
         SELECT ROW_COUNT()"
    );
    let rows = sqlx::raw_sql(AssertSqlSafe(steps))
        .fetch_all(connection)
        .await?;
    let raised = rows.last().ok_or(sqlx::Error::RowNotFound)?;
    Ok(raised.try_get::<i64, _>(0)? > 0)
}

/// A text as a literal of its bytes.
fn hexadecimal(text: &str) -> String {
    let mut literal = String::from("x'");
    for byte in text.bytes() {
        let _ = write!(literal, "{byte:02x}");
    }
    literal + "'"
}
