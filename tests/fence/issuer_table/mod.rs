//! The issuer as a table, on real servers.

mod leases;
mod races;
mod restarts;
mod tokens;

use std::{str::FromStr as _, time::Duration};

use fencepost::{
    fence::{
        enforcement::{Dialect, IssuerTableScript},
        issuer_table::{Acquired, IssuerTable},
        sql,
    },
    grant::Ttl,
    resource::{Holder, IssuerName, ResourceName},
    sequencer::Sequencer,
};
use sqlx::{
    AssertSqlSafe, MySqlPool, PgPool, SqlitePool,
    mysql::MySqlPoolOptions,
    postgres::PgPoolOptions,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions},
};

use crate::databases;

const CONNECTIONS: u32 = 12;

pub(crate) fn resource(name: &str) -> ResourceName {
    ResourceName::new(name).unwrap()
}

pub(crate) fn holder(name: &str) -> Holder {
    Holder::new(name).unwrap()
}

pub(crate) fn bank() -> IssuerName {
    IssuerName::new("bank").unwrap()
}

pub(crate) fn ttl(ms: u64) -> Ttl {
    Ttl::from_ms(ms).unwrap()
}

/// A pool on a server, whose every connection begins with a statement, with a table and its triggers there.
macro_rules! pool_on_a_server {
    ($name:ident, $pool:ty, $options:ty, $dialect:expr) => {
        pub(crate) async fn $name(begin: &'static str) -> Option<$pool> {
            let url = databases::$name()?.fresh("issuer").await;
            let options = <$options>::new().max_connections(CONNECTIONS);
            let options = options.after_connect(move |connection, _| {
                Box::pin(async move {
                    sqlx::raw_sql(begin).execute(connection).await?;
                    Ok(())
                })
            });
            let pool = options.connect(&url).await.unwrap();
            // On one connection: a script may have things that only its connection sees.
            let mut connection = pool.acquire().await.unwrap();
            for sql in script($dialect) {
                let sql = sqlx::raw_sql(AssertSqlSafe(sql));
                sql.execute(&mut *connection).await.unwrap();
            }
            Some(pool)
        }
    };
}
pool_on_a_server!(postgres, PgPool, PgPoolOptions, Dialect::Postgres);
pool_on_a_server!(mariadb, MySqlPool, MySqlPoolOptions, Dialect::MariaDb);

pub(crate) async fn sqlite(directory: &tempfile::TempDir) -> SqlitePool {
    let url = format!("sqlite://{}/issuer.db", directory.path().display());
    let options = SqliteConnectOptions::from_str(&url)
        .unwrap()
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .busy_timeout(Duration::from_secs(60));
    let pool = SqlitePoolOptions::new().max_connections(CONNECTIONS);
    let pool = pool.connect_with(options).await.unwrap();
    let there = sqlx::query("SELECT 1 FROM sqlite_master WHERE name = 'lock_grants'");
    if there.fetch_optional(&pool).await.unwrap().is_none() {
        let mut connection = pool.acquire().await.unwrap();
        for sql in script(Dialect::Sqlite) {
            let sql = sqlx::raw_sql(AssertSqlSafe(sql));
            sql.execute(&mut *connection).await.unwrap();
        }
    }
    pool
}

fn script(dialect: Dialect) -> Vec<String> {
    let table = IssuerTableScript::new(dialect, "lock_grants").unwrap();
    let steps = table.apply();
    steps.steps().iter().map(|step| step.sql.clone()).collect()
}

/// Asks until the database carries the statement out: at some levels another transaction may be in the way.
pub(crate) async fn acquire<DB: sql::Dialect>(
    table: &IssuerTable<DB>,
    of: &ResourceName,
    by: &Holder,
    ttl: Ttl,
) -> Acquired {
    loop {
        match table.acquire(of, by, ttl).await {
            Ok(acquired) => return acquired,
            Err(error) => assert!(error.may_retry(), "{error}"),
        }
    }
}

pub(crate) fn granted(acquired: Acquired) -> Sequencer {
    match acquired {
        Acquired::Granted(sequencer) => sequencer,
        held @ Acquired::Held { .. } => panic!("{held:?}"),
    }
}

/// Runs a story, which takes an open table, on each database.
macro_rules! on_each_table {
    ($story:ident, $postgres:ident, $mariadb:ident, $sqlite:ident) => {
        #[tokio::test(flavor = "multi_thread")]
        async fn $postgres() {
            let Some(pool) = $crate::issuer_table::postgres("SELECT 1").await else {
                return;
            };
            let table = IssuerTable::open(pool, "lock_grants", bank())
                .await
                .unwrap();
            $story(table).await;
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn $mariadb() {
            let Some(pool) = $crate::issuer_table::mariadb("SELECT 1").await else {
                return;
            };
            let table = IssuerTable::open(pool, "lock_grants", bank())
                .await
                .unwrap();
            $story(table).await;
        }

        #[tokio::test(flavor = "multi_thread")]
        async fn $sqlite() {
            let directory = tempfile::tempdir().unwrap();
            let pool = $crate::issuer_table::sqlite(&directory).await;
            let table = IssuerTable::open(pool, "lock_grants", bank())
                .await
                .unwrap();
            $story(table).await;
        }
    };
}
pub(crate) use on_each_table;
