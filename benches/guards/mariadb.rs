//! MariaDB, with its redo log synced at each commit, over a Unix socket.

use std::sync::OnceLock;

use fencepost::fence::{enforcement, sql::{GuardTable, GuardedTable, WriteOutcome}};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, MySql, MySqlConnection};

use crate::{
    ROWS, at, body,
    databases::{Mariadb, Sync},
    rounds::{self, Variant, Writes},
    row, rules, sequencers,
};

pub(crate) async fn measure(writers: u64) {
    static SERVER: OnceLock<Option<Mariadb>> = OnceLock::new();
    let server = SERVER.get_or_init(|| Mariadb::start(Sync::EachCommit));
    let Some(server) = server else {
        println!("mariadb: not installed on this machine");
        return;
    };
    let url = server.fresh("guards").await;
    let mut connection = MySqlConnection::connect(&url).await.unwrap();
    for sql in [
        "CREATE TABLE plain (id BIGINT PRIMARY KEY, body TEXT NOT NULL)",
        "CREATE TABLE guarded (id BIGINT PRIMARY KEY, body TEXT NOT NULL, fencing_token BIGINT NOT NULL DEFAULT 0)",
    ] {
        connection.execute(sql).await.unwrap();
    }
    for id in 0..writers * ROWS {
        for sql in [
            "INSERT INTO plain (id, body) VALUES (?, '')",
            "INSERT INTO guarded (id, body) VALUES (?, '')",
        ] {
            let fill = sqlx::query(sql).bind(id.cast_signed());
            fill.execute(&mut connection).await.unwrap();
        }
    }
    let each = async |make: fn(u64, MySqlConnection) -> Box<dyn Writes>| {
        let mut all = Vec::new();
        for writer in 0..writers {
            all.push(make(writer, MySqlConnection::connect(&url).await.unwrap()));
        }
        all
    };
    let variants = vec![
        Variant::new("unguarded", 0, each(plain).await),
        Variant::new("token in the row, statement", 0, each(statement).await),
        Variant::new(
            "unguarded, in a transaction",
            2,
            each(plain_in_transaction).await,
        ),
    ];
    rounds::measure("mariadb", 1, variants).await;
}

fn plain(writer: u64, mut connection: MySqlConnection) -> Box<dyn Writes> {
    Box::new(async move |n| {
        let write = sqlx::query("UPDATE plain SET body = ? WHERE id = ?");
        let write = write.bind(body(n)).bind(row(writer, n).cast_signed());
        write.execute(&mut connection).await.unwrap();
    })
}

fn statement(writer: u64, mut connection: MySqlConnection) -> Box<dyn Writes> {
    Box::new(async move |n| {
        let id = row(writer, n);
        let token = sequencer(id).token.as_i64();
        let write = sqlx::query(
            "UPDATE guarded SET body = ?, fencing_token = ? WHERE id = ? AND fencing_token <= ?",
        );
        let write = write
            .bind(body(n))
            .bind(token)
            .bind(id.cast_signed())
            .bind(token);
        let done = write.execute(&mut connection).await.unwrap();
        assert_eq!(done.rows_affected(), 1);
    })
}

fn plain_in_transaction(writer: u64, mut connection: MySqlConnection) -> Box<dyn Writes> {
    Box::new(async move |n| {
        let mut transaction = connection.begin().await.unwrap();
        let write = sqlx::query("UPDATE plain SET body = ? WHERE id = ?");
        let write = write.bind(body(n)).bind(row(writer, n).cast_signed());
        write.execute(&mut *transaction).await.unwrap();
        transaction.commit().await.unwrap();
    })
}
