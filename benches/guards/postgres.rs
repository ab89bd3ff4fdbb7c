//! PostgreSQL, with fsync at each commit, over a Unix socket.

use std::sync::OnceLock;

use fencepost::fence::{enforcement, sql::{GuardTable, GuardedTable, WriteOutcome}};
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, Postgres, PgConnection};

use crate::{
    ROWS, at, body,
    databases::{Postgres, Sync},
    rounds::{self, Variant, Writes},
    row, rules, sequencers,
};

const SCHEMA: &str = "
    CREATE TABLE plain (id BIGINT PRIMARY KEY, body TEXT NOT NULL);
    CREATE TABLE guarded (id BIGINT PRIMARY KEY, body TEXT NOT NULL, fencing_token BIGINT NOT NULL DEFAULT 0);";

pub(crate) async fn measure(writers: u64) {
    static SERVER: OnceLock<Option<Postgres>> = OnceLock::new();
    let server = SERVER.get_or_init(|| Postgres::start(Sync::EachCommit));
    let Some(server) = server else {
        println!("postgres: not installed on this machine");
        return;
    };
    let url = server.fresh("guards").await;
    let mut connection = PgConnection::connect(&url).await.unwrap();
    connection.execute(SCHEMA).await.unwrap();
    for table in ["plain", "guarded"] {
        let fill =
            format!("INSERT INTO {table} (id, body) SELECT id, '' FROM generate_series(0, $1) id");
        let fill = sqlx::query(sqlx::AssertSqlSafe(fill)).bind((writers * ROWS).cast_signed());
        fill.execute(&mut connection).await.unwrap();
    }
    let each = async |make: fn(u64, PgConnection) -> Box<dyn Writes>| {
        let mut all = Vec::new();
        for writer in 0..writers {
            all.push(make(writer, PgConnection::connect(&url).await.unwrap()));
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
    rounds::measure("postgres", 1, variants).await;
}

fn plain(writer: u64, mut connection: PgConnection) -> Box<dyn Writes> {
    Box::new(async move |n| {
        let write = sqlx::query("UPDATE plain SET body = $1 WHERE id = $2");
        let write = write.bind(body(n)).bind(row(writer, n).cast_signed());
        write.execute(&mut connection).await.unwrap();
    })
}

fn statement(writer: u64, mut connection: PgConnection) -> Box<dyn Writes> {
    Box::new(async move |n| {
        let id = row(writer, n);
        let write = sqlx::query(
            "UPDATE guarded SET body = $1, fencing_token = $2 WHERE id = $3 AND fencing_token <= $2",
        );
        let write = write
            .bind(body(n))
            .bind(sequencer(id).token.as_i64())
            .bind(id.cast_signed());
        let done = write.execute(&mut connection).await.unwrap();
        assert_eq!(done.rows_affected(), 1);
    })
}

fn plain_in_transaction(writer: u64, mut connection: PgConnection) -> Box<dyn Writes> {
    Box::new(async move |n| {
        let mut transaction = connection.begin().await.unwrap();
        let write = sqlx::query("UPDATE plain SET body = $1 WHERE id = $2");
        let write = write.bind(body(n)).bind(row(writer, n).cast_signed());
        write.execute(&mut *transaction).await.unwrap();
        transaction.commit().await.unwrap();
    })
}
