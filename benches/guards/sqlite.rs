//! SQLite in a file, with a write-ahead log that is synced at each commit.
//!
//! It has one writer at a time; others wait for the lock, in sleeps. So with many writers the figures say
//! how the waiting goes rather than what a guard costs, and only one writer is measured.

use fencepost::fence::{
    enforcement::Dialect,
    sql::{GuardTable, GuardedTable, WriteOutcome},
};
use sqlx::{
    AssertSqlSafe, Connection as _,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};

use crate::{
    at, body,
    rounds::{self, Writes},
    row, sequencers,
    sql::writers,
};

const SCHEMA: &str = "
    CREATE TABLE plain (id INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;
    CREATE TABLE bare (id INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;
    CREATE TABLE marked (id INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;
    CREATE TABLE by_hand (id INTEGER PRIMARY KEY, body TEXT NOT NULL, fencing_token INTEGER NOT NULL DEFAULT 0) STRICT;
    CREATE TABLE by_library (id INTEGER PRIMARY KEY, body TEXT NOT NULL, fencing_token INTEGER NOT NULL DEFAULT 0) STRICT;
    CREATE TABLE enforced (id INTEGER PRIMARY KEY, body TEXT NOT NULL, fencing_token INTEGER NOT NULL DEFAULT 0) STRICT;
";

writers!(
    sqlx::Sqlite,
    Dialect::Sqlite,
    "BEGIN IMMEDIATE",
    [
        "UPDATE plain SET body = ? WHERE id = ?",
        "UPDATE bare SET body = ? WHERE id = ?",
        "UPDATE marked SET body = ? WHERE id = ?"
    ],
    "UPDATE by_hand SET body = ?, fencing_token = ? WHERE id = ? AND fencing_token <= ?",
    "UPDATE enforced SET body = ?, fencing_token = ? WHERE id = ?"
);

pub(crate) async fn measure(writers: u64) {
    if writers > 1 {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let options = SqliteConnectOptions::new()
        .filename(directory.path().join("guards.sqlite"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full);
    let connect = async || Connection::connect_with(&options).await.unwrap();
    let variants = variants(writers, SCHEMA, connect).await;
    rounds::measure("sqlite", 1, variants).await;
}
