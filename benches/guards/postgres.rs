//! PostgreSQL, with fsync at each commit, over a Unix socket.

use std::sync::OnceLock;

use fencepost::fence::{
    enforcement::Dialect,
    sql::{GuardTable, GuardedTable, WriteOutcome},
};
use sqlx::{AssertSqlSafe, Connection as _};

use crate::{
    at, body,
    databases::{Postgres, Sync},
    rounds::{self, Writes},
    row, sequencers,
    sql::writers,
};

const SCHEMA: &str = "
    CREATE TABLE plain (id BIGINT PRIMARY KEY, body TEXT NOT NULL);
    CREATE TABLE bare (LIKE plain INCLUDING ALL);
    CREATE TABLE marked (LIKE plain INCLUDING ALL);
    CREATE TABLE by_hand (id BIGINT PRIMARY KEY, body TEXT NOT NULL, fencing_token BIGINT NOT NULL DEFAULT 0);
    CREATE TABLE by_library (LIKE by_hand INCLUDING ALL);
    CREATE TABLE enforced (LIKE by_hand INCLUDING ALL);
";

writers!(
    sqlx::Postgres,
    Dialect::Postgres,
    "BEGIN",
    [
        "UPDATE plain SET body = $1 WHERE id = $2",
        "UPDATE bare SET body = $1 WHERE id = $2",
        "UPDATE marked SET body = $1 WHERE id = $2"
    ],
    "UPDATE by_hand SET body = $1, fencing_token = $2 WHERE id = $3 AND fencing_token <= $4",
    "UPDATE enforced SET body = $1, fencing_token = $2 WHERE id = $3"
);

pub(crate) async fn measure(writers: u64) {
    static SERVER: OnceLock<Option<Postgres>> = OnceLock::new();
    let server = SERVER.get_or_init(|| Postgres::start(Sync::EachCommit));
    let Some(server) = server else {
        println!("postgres: not installed on this machine");
        return;
    };
    let url = server.fresh("guards").await;
    let connect = async || Connection::connect(&url).await.unwrap();
    let variants = variants(writers, SCHEMA, connect).await;
    rounds::measure("postgres", 1, variants).await;
}
