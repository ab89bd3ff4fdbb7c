//! SQLite in a file, with a write-ahead log that is synced at each commit.
//!
//! It has one writer at a time; others wait for the lock, in sleeps. So with many writers the figures say
//! how the waiting goes rather than what a guard costs, and only one writer is measured.

use std::path::Path;

use fencepost::fence::sql::{GuardTable, GuardedTable, WriteOutcome};
use sqlx::{
    Connection as _, Executor as _, Sqlite, SqliteConnection,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};

use crate::{
    ROWS, at, body,
    rounds::{self, Variant, Writes},
    row, rules, sequencers,
};

const SCHEMA: &str = "
    CREATE TABLE plain (id INTEGER PRIMARY KEY, body TEXT NOT NULL) STRICT;
    CREATE TABLE guarded (id INTEGER PRIMARY KEY, body TEXT NOT NULL, fencing_token INTEGER NOT NULL DEFAULT 0) STRICT;";

pub(crate) async fn measure(writers: u64) {
    if writers > 1 {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("guards.sqlite");
    let mut connection = connect(&file).await;
    connection.execute(SCHEMA).await.unwrap();
    for id in 0..ROWS {
        for sql in [
            "INSERT INTO plain (id, body) VALUES (?1, '')",
            "INSERT INTO guarded (id, body) VALUES (?1, '')",
        ] {
            sqlx::query(sql)
                .bind(id.cast_signed())
                .execute(&mut connection)
                .await
                .unwrap();
        }
    }
    let rows = GuardedTable::open(
        &mut connection,
        "guarded",
        &["id"],
        "fencing_token",
        rules(),
    );
    let rows = rows.await.unwrap();
    let marks = GuardTable::create(&mut connection, "marks", rules());
    let marks = marks.await.unwrap();
    let variants = vec![
        Variant::new("unguarded", 0, vec![plain(connect(&file).await)]),
        Variant::new(
            "token in the row, statement",
            0,
            vec![statement(connect(&file).await)],
        ),
        Variant::new(
            "token in the row, GuardedTable",
            0,
            vec![guarded(connect(&file).await, rows)],
        ),
        Variant::new(
            "unguarded, in a transaction",
            3,
            vec![in_transaction(connect(&file).await, None)],
        ),
        Variant::new(
            "GuardTable, in a transaction",
            3,
            vec![in_transaction(connect(&file).await, Some(marks))],
        ),
    ];
    rounds::measure("sqlite", 1, variants).await;
}

async fn connect(file: &Path) -> SqliteConnection {
    let options = SqliteConnectOptions::new()
        .filename(file)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full);
    SqliteConnection::connect_with(&options).await.unwrap()
}

fn plain(mut connection: SqliteConnection) -> Box<dyn Writes> {
    Box::new(async move |n| {
        let write = sqlx::query("UPDATE plain SET body = ?1 WHERE id = ?2");
        let write = write.bind(body(n)).bind(row(0, n).cast_signed());
        write.execute(&mut connection).await.unwrap();
    })
}

fn statement(mut connection: SqliteConnection) -> Box<dyn Writes> {
    let sequencers = sequencers(0);
    Box::new(async move |n| {
        let write = sqlx::query(
            "UPDATE guarded SET body = ?1, fencing_token = ?2 WHERE id = ?3 AND fencing_token <= ?2",
        );
        let token = sequencers[at(n)].token.as_i64();
        let write = write
            .bind(body(n))
            .bind(token)
            .bind(row(0, n).cast_signed());
        let done = write.execute(&mut connection).await.unwrap();
        assert_eq!(done.rows_affected(), 1);
    })
}

fn guarded(mut connection: SqliteConnection, table: GuardedTable<Sqlite>) -> Box<dyn Writes> {
    let sequencers = sequencers(0);
    Box::new(async move |n| {
        let sequencer = &sequencers[at(n)];
        let write = table.write(&sequencer.resource, sequencer);
        let write = write.key(row(0, n).cast_signed()).set("body", body(n));
        let outcome = write.update(&mut connection).await.unwrap();
        assert_eq!(outcome, WriteOutcome::Written);
    })
}

fn in_transaction(mut connection: SqliteConnection, marks: Option<GuardTable<Sqlite>>) -> Box<dyn Writes> {
    let sequencers = sequencers(0);
    Box::new(async move |n| {
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await.unwrap();
        if let Some(marks) = &marks {
            let verdict = marks.fenced(&mut transaction, &sequencers[at(n)]).await;
            verdict.unwrap().admitted().unwrap();
        }
        let write = sqlx::query("UPDATE plain SET body = ?1 WHERE id = ?2");
        let write = write.bind(body(n)).bind(row(0, n).cast_signed());
        write.execute(&mut *transaction).await.unwrap();
        transaction.commit().await.unwrap();
    })
}
