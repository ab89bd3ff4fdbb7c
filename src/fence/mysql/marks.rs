//! The table of marks in MySQL's dialect, and how a mark is raised there.

use std::fmt::Write as _;

use sqlx::{AssertSqlSafe, MySql, MySqlConnection, Row as _};

use super::snapshots::{REFUSE_OLD, told_apart};
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

/// What it is told where the server itself noticed, which does not say at which level. It has rolled the
/// transaction back, so that nothing can be asked in it any more.
const CHANGED_SINCE: SqlError = SqlError::Isolation {
    level: "REPEATABLE READ or SERIALIZABLE",
    reason: "the mark has changed since the transaction's snapshot, which is of its first read, or at \
             SERIALIZABLE of its first statement: what it reads from now on would be what an earlier \
             holder has overwritten since; the server has rolled it back: begin again, and call `fenced` \
             before the first read, or use READ COMMITTED",
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

/// Raises a mark: with the server's help where there is any, and else in steps that need none.
pub(super) async fn raise(
    connection: &mut MySqlConnection,
    marks: &Marks,
    sequencer: &Sequencer,
) -> Result<bool, SqlError> {
    // In steps, too: the session may have asked for it.
    let raised = match marks.refuses_old_snapshots {
        true => raise_at_once(connection, marks, sequencer).await,
        false => raise_in_steps(connection, marks, sequencer).await,
    };
    raised.map_err(|error| told_apart(error, CHANGED_SINCE))
}

/// Raises a mark where the server itself refuses old snapshots. One INSERT does nearly all of it: for a
/// row that is there it locks, checks and raises. It counts two rows then, and less where the token was
/// refused, and where the row is new, which it makes with no mark yet. An UPDATE tells these two apart, and
/// raises the new one.
///
/// A mere UPDATE first would be a little less work. For a row that is not there it locks the gap, and
/// two first admissions would deadlock.
///
/// The `admissions` are counted here, too: an equal token must change the row, or nobody's snapshot would
/// ever be too old for it; and other clients of the table may raise in steps.
///
/// It goes as text, with the names as hexadecimal digits: a caller who gives up while sqlx 0.9.0 prepares
/// a statement leaves a connection behind that waits for ever for an answer.
async fn raise_at_once(
    connection: &mut MySqlConnection,
    marks: &Marks,
    sequencer: &Sequencer,
) -> Result<bool, SqlError> {
    let table = marks.table.quoted::<MySql>();
    let resource = hexadecimal(sequencer.resource.as_str());
    let issuer = hexadecimal(sequencer.issuer.as_str());
    let token = sequencer.token.as_i64();
    let passes = comparison(&marks.rules);
    // The token comes last: assignments are carried out from left to right.
    let allowed = format!("`issuer` = {issuer} AND `token`{passes}{token}");
    let insert = format!(
        "{REFUSE_OLD}INSERT INTO {table} (`resource`, `issuer`, `token`, `admissions`) \
             VALUES ({resource}, {issuer}, 0, 0) ON DUPLICATE KEY UPDATE \
             `admissions` = `admissions` + ({allowed}), `token` = IF({allowed}, {token}, `token`)"
    );
    if count(connection, insert).await? > 1 {
        return Ok(true);
    }
    // The row is locked, and the server has compared it with the snapshot, or it is our own.
    let update = format!(
        "UPDATE {table} SET `token` = {token}, `admissions` = `admissions` + 1 \
             WHERE `resource` = {resource} AND {allowed}"
    );
    Ok(count(connection, update).await? > 0)
}

/// How many rows a statement without parameters counts.
async fn count(connection: &mut MySqlConnection, sql: String) -> Result<u64, SqlError> {
    let done = sqlx::raw_sql(AssertSqlSafe(sql))
        .execute(connection)
        .await?;
    Ok(done.rows_affected())
}

/// Raises a mark where the server knows nothing of old snapshots, in three steps:
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
async fn raise_in_steps(
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
