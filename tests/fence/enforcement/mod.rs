//! Triggers that refuse stale writers in the database itself, on real servers.

mod beside_guards;
mod keeping;
mod limits;
mod odd_names;
mod page;
mod races;
mod right;
mod tables;
mod tools;
mod undone;
mod unfit;
mod wrong;

use std::str::FromStr as _;

use fencepost::fence::enforcement::{Dialect, Enforcement, Refused, Script};
use sqlx::{
    AssertSqlSafe, Column as _, Connection as _, Executor as _, MySqlConnection, PgConnection,
    Row as _, SqliteConnection, TypeInfo as _, sqlite::SqliteConnectOptions,
};

use crate::databases;

/// A database of its own on one of the three servers.
pub(crate) struct Place {
    pub(crate) dialect: Dialect,
    pub(crate) url: String,
    /// Keeps SQLite's file.
    _directory: Option<tempfile::TempDir>,
}

/// One connection, whatever the database.
pub(crate) enum Session {
    Postgres(PgConnection),
    MySql(MySqlConnection),
    Sqlite(SqliteConnection),
}

/// Three rows: the marks of the first two are 7 and 3, and nobody has fenced the third.
pub(crate) const ACCOUNTS: [&str; 4] = [
    "CREATE TABLE accounts (id BIGINT NOT NULL PRIMARY KEY, balance BIGINT NOT NULL, fencing_token BIGINT NOT NULL DEFAULT 0)",
    "INSERT INTO accounts VALUES (1, 10, 7)",
    "INSERT INTO accounts VALUES (2, 20, 3)",
    "INSERT INTO accounts VALUES (3, 30, 0)",
];

/// Every row of `accounts`.
pub(crate) const ALL: &str = "SELECT id, balance, fencing_token FROM accounts ORDER BY id";

impl Place {
    /// A fresh database, if its server is there.
    pub(crate) async fn fresh(dialect: Dialect, name: &str) -> Option<Self> {
        let mut directory = None;
        let url = match dialect {
            Dialect::Postgres => databases::postgres()?.fresh(name).await,
            Dialect::MariaDb | Dialect::MySql => databases::mariadb()?.fresh(name).await,
            Dialect::Sqlite => {
                let place = directory.insert(tempfile::tempdir().unwrap());
                format!("sqlite://{}", place.path().join("test.db").display())
            }
        };
        Some(Self {
            dialect,
            url,
            _directory: directory,
        })
    }

    pub(crate) async fn session(&self) -> Session {
        match self.dialect {
            Dialect::Postgres => Session::Postgres(PgConnection::connect(&self.url).await.unwrap()),
            Dialect::MariaDb | Dialect::MySql => {
                Session::MySql(MySqlConnection::connect(&self.url).await.unwrap())
            }
            Dialect::Sqlite => {
                let options = SqliteConnectOptions::from_str(&self.url)
                    .unwrap()
                    .create_if_missing(true)
                    .foreign_keys(true)
                    .busy_timeout(std::time::Duration::from_secs(60));
                Session::Sqlite(SqliteConnection::connect_with(&options).await.unwrap())
            }
        }
    }

    /// Fresh, with the accounts and the triggers of `plan`.
    pub(crate) async fn guarded(
        dialect: Dialect,
        name: &str,
        plan: impl FnOnce(Enforcement) -> Enforcement,
    ) -> Option<(Self, Session)> {
        let place = Self::fresh(dialect, name).await?;
        let mut session = place.session().await;
        session.all(&ACCOUNTS).await;
        let plan = plan(Enforcement::of_table(dialect, "accounts").unwrap());
        session.apply(&plan.apply().unwrap()).await.unwrap();
        Some((place, session))
    }
}

impl Session {
    /// How many rows the statement says that it changed.
    pub(crate) async fn run(&mut self, sql: &str) -> Result<u64, sqlx::Error> {
        let sql = sqlx::raw_sql(AssertSqlSafe(sql));
        Ok(match self {
            Self::Postgres(c) => c.execute(sql).await?.rows_affected(),
            Self::MySql(c) => c.execute(sql).await?.rows_affected(),
            Self::Sqlite(c) => c.execute(sql).await?.rows_affected(),
        })
    }

    pub(crate) async fn all(&mut self, statements: &[&str]) {
        for sql in statements {
            self.run(sql)
                .await
                .unwrap_or_else(|error| panic!("{sql}: {error}"));
        }
    }

    /// The script as a program applies it: one statement after the other, in a transaction where the
    /// database has one for its schema.
    pub(crate) async fn apply(&mut self, script: &Script) -> Result<(), String> {
        self.run("BEGIN").await.unwrap();
        for step in script.steps() {
            if let Err(error) = self.run(&step.sql).await {
                self.run("ROLLBACK").await.unwrap();
                return Err(format!("{}: {error}", step.sql));
            }
        }
        self.run("COMMIT").await.unwrap();
        Ok(())
    }

    /// The rows of a query, each as its whole numbers and texts with commas between them.
    pub(crate) async fn rows(&mut self, sql: &str) -> Vec<String> {
        macro_rules! texts {
            ($connection:expr) => {{
                let rows = $connection
                    .fetch_all(sqlx::raw_sql(AssertSqlSafe(sql)))
                    .await
                    .unwrap_or_else(|error| panic!("{sql}: {error}"));
                let mut all = Vec::new();
                for row in &rows {
                    all.push(texts!(row: row));
                }
                all
            }};
            (row: $row:expr) => {{
                let cells = $row.columns().iter().map(|column| {
                    let at = column.ordinal();
                    // Whole numbers decode from text as well, where the server sends text.
                    match $row.try_get_unchecked::<Option<i64>, _>(at) {
                        Ok(number) if column.type_info().name() != "TEXT" => {
                            number.map_or("NULL".to_owned(), |number| number.to_string())
                        }
                        _ => $row.try_get_unchecked::<String, _>(at).unwrap(),
                    }
                });
                cells.collect::<Vec<_>>().join(",")
            }};
        }
        match self {
            Self::Postgres(c) => texts!(c),
            Self::MySql(c) => texts!(c),
            Self::Sqlite(c) => texts!(c),
        }
    }

    /// Runs a statement that a trigger must refuse; says how.
    pub(crate) async fn refused(&mut self, sql: &str) -> Refused {
        let error = match self.run(sql).await {
            Ok(rows) => panic!("{sql}: passed, {rows} rows"),
            Err(error) => error,
        };
        let refused = Refused::from_message(&error.to_string());
        let refused = refused.unwrap_or_else(|| panic!("{sql}: {error}"));
        if !matches!(self, Self::Sqlite(_)) {
            let code = error.as_database_error().and_then(|error| error.code());
            assert_eq!(code.as_deref(), Some(refused.sqlstate()), "{sql}: {error}");
        }
        refused
    }
}

/// Runs a test's body once for each database, under a name of its own.
macro_rules! on_each_database {
    ($($(#[$meta:meta])* async fn $name:ident($dialect:ident) $body:block)*) => {$(
        $(#[$meta])*
        mod $name {
            use super::*;

            async fn story($dialect: Dialect) $body

            #[tokio::test(flavor = "multi_thread")]
            async fn in_postgres() {
                story(Dialect::Postgres).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn in_mariadb() {
                story(Dialect::MariaDb).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn in_sqlite() {
                story(Dialect::Sqlite).await;
            }
        }
    )*};
}
pub(crate) use on_each_database;
