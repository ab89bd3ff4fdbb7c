//! MariaDB, with its redo log synced at each commit, over a Unix socket.

use std::sync::OnceLock;

use fencepost::fence::{
    enforcement::Dialect,
    sql::{GuardTable, GuardedTable, WriteOutcome},
};
use sqlx::{AssertSqlSafe, Connection as _};

use crate::{
    at, body,
    databases::{Mariadb, Sync},
    rounds::{self, Writes},
    row, sequencers,
    sql::writers,
};

const SCHEMA: &str = "
    CREATE TABLE plain (id BIGINT PRIMARY KEY, body TEXT NOT NULL);
    CREATE TABLE bare LIKE plain;
    CREATE TABLE marked LIKE plain;
    CREATE TABLE by_hand (id BIGINT PRIMARY KEY, body TEXT NOT NULL, fencing_token BIGINT NOT NULL DEFAULT 0);
    CREATE TABLE by_library LIKE by_hand;
    CREATE TABLE enforced LIKE by_hand;
";

writers!(
    sqlx::MySql,
    Dialect::MariaDb,
    "START TRANSACTION",
    [
        "UPDATE plain SET body = ? WHERE id = ?",
        "UPDATE bare SET body = ? WHERE id = ?",
        "UPDATE marked SET body = ? WHERE id = ?"
    ],
    "UPDATE by_hand SET body = ?, fencing_token = ? WHERE id = ? AND fencing_token <= ?",
    "UPDATE enforced SET body = ?, fencing_token = ? WHERE id = ?"
);

pub(crate) async fn measure(writers: u64) {
    static SERVER: OnceLock<Option<Mariadb>> = OnceLock::new();
    let server = SERVER.get_or_init(|| Mariadb::start(Sync::EachCommit));
    let Some(server) = server else {
        println!("mariadb: not installed on this machine");
        return;
    };
    let url = server.fresh("guards").await;
    // The guard table's statements want READ COMMITTED, or a transaction that begins with them.
    let connect = async || {
        let mut connection = Connection::connect(&url).await.unwrap();
        let level = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
        sqlx::query(level).execute(&mut connection).await.unwrap();
        connection
    };
    let variants = variants(writers, SCHEMA, connect).await;
    rounds::measure("mariadb", 1, variants).await;
}
