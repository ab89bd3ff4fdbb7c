//! The table of marks in MySQL's dialect, and how a mark is raised there.

use sqlx::{MySql, MySqlConnection};

use crate::{
    fence::sql::{Driver as _, Marks, SqlError, Statement, TableName, comparison},
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
///    transaction's snapshot, if it has one already.
/// 3. The UPDATE that checks and raises, on condition that the row is still the one of that snapshot.
///    If it is not, all later plain reads of this transaction would be of a time before somebody else
///    was admitted, and a value worked out from them would undo what was written then.
///
/// At the other levels the second step reads what the first has locked, and the condition holds.
pub(super) async fn raise(
    connection: &mut MySqlConnection,
    marks: &Marks,
    sequencer: &Sequencer,
) -> Result<bool, SqlError> {
    let table = marks.table.quoted::<MySql>();
    let resource = sequencer.resource.as_str();
    let mut lock = Statement::<MySql>::new(format!(
        "INSERT INTO {table} (`resource`, `issuer`, `token`, `admissions`) VALUES ("
    ));
    lock.text(resource)
        .push(", ")
        .text(sequencer.issuer.as_str());
    lock.push(", 0, 0) ON DUPLICATE KEY UPDATE `resource` = `resource`");
    MySql::execute(connection, lock).await?;

    let mut look = Statement::<MySql>::new(format!(
        "SELECT CONVERT(`admissions` USING utf8mb4) FROM {table} WHERE `resource` = "
    ));
    look.text(resource);
    let rows = MySql::ask(connection, look).await?;
    let seen = rows.into_iter().flatten().flatten().next();
    // A row that is there, and that the snapshot does not have.
    let Some(Ok(seen)) = seen.map(|seen| seen.parse::<i64>()) else {
        return Err(OLD_SNAPSHOT);
    };

    let passes = comparison(&marks.rules);
    let mut raise = Statement::<MySql>::new(format!("UPDATE {table} SET `token` = "));
    raise.integer(sequencer.token.as_i64());
    raise
        .push(", `admissions` = `admissions` + 1 WHERE `resource` = ")
        .text(resource);
    raise
        .push(" AND `issuer` = ")
        .text(sequencer.issuer.as_str());
    raise
        .push(&format!(" AND `token`{passes}"))
        .integer(sequencer.token.as_i64());
    raise.push(" AND `admissions` = ").integer(seen);
    Ok(MySql::execute(connection, raise).await? > 0)
}
