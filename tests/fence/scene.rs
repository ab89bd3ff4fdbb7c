//! What the stories play on: sequencers, a database file, and an account that a grant protects.

use std::{str::FromStr as _, time::Duration};

use fencepost::{
    fence::{
        Rules,
        sql::{GuardTable, GuardedTable},
    },
    resource::{IssuerName, ResourceName},
    sequencer::Sequencer,
    token::TokenValue,
};
use sqlx::{
    Connection as _, SqliteConnection, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous},
};

/// The resource whose holder may write account 1.
pub(crate) const ACCOUNT: &str = "account/1";

pub(crate) fn token(value: u64) -> TokenValue {
    TokenValue::new(value).unwrap()
}

pub(crate) fn resource(name: &str) -> ResourceName {
    ResourceName::new(name).unwrap()
}

pub(crate) fn issuer(name: &str) -> IssuerName {
    IssuerName::new(name).unwrap()
}

pub(crate) fn sequencer(value: u64) -> Sequencer {
    sequencer_for("bank", ACCOUNT, value)
}

pub(crate) fn sequencer_for(by: &str, of: &str, value: u64) -> Sequencer {
    Sequencer {
        issuer: issuer(by),
        resource: resource(of),
        token: token(value),
    }
}

pub(crate) fn rules() -> Rules {
    Rules::issued_by(issuer("bank"))
}

/// A database file of its own; every connection to it is a real one.
pub(crate) struct Database {
    directory: tempfile::TempDir,
}

impl Database {
    /// With a guarded table `accounts`, account 1 in it, and a `history` that a trigger writes: the
    /// token of every write to an account, in the order in which SQLite carried them out.
    pub(crate) async fn new() -> Self {
        let database = Self {
            directory: tempfile::tempdir().unwrap(),
        };
        let mut connection = database.connect().await;
        sqlx::raw_sql(
            "CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL,
                                    fencing_token INTEGER NOT NULL DEFAULT 0);
             CREATE TABLE history (n INTEGER PRIMARY KEY AUTOINCREMENT, token INTEGER NOT NULL);
             CREATE TRIGGER remember AFTER UPDATE ON accounts
                 BEGIN INSERT INTO history (token) VALUES (new.fencing_token); END;
             INSERT INTO accounts (id, balance) VALUES (1, 0);",
        )
        .execute(&mut connection)
        .await
        .unwrap();
        database
    }

    fn options(&self) -> SqliteConnectOptions {
        let url = format!("sqlite://{}/bank.db", self.directory.path().display());
        SqliteConnectOptions::from_str(&url)
            .unwrap()
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // These tests kill no machine, and an fsync for each write would only slow them down.
            .synchronous(SqliteSynchronous::Off)
            .busy_timeout(Duration::from_secs(60))
    }

    pub(crate) async fn connect(&self) -> SqliteConnection {
        SqliteConnection::connect_with(&self.options())
            .await
            .unwrap()
    }

    pub(crate) async fn pool(&self, connections: u32) -> SqlitePool {
        SqlitePoolOptions::new()
            .max_connections(connections)
            .connect_with(self.options())
            .await
            .unwrap()
    }

    pub(crate) async fn accounts(&self, rules: Rules) -> GuardedTable<sqlx::Sqlite> {
        let mut connection = self.connect().await;
        GuardedTable::open(&mut connection, "accounts", &["id"], "fencing_token", rules)
            .await
            .unwrap()
    }

    pub(crate) async fn marks(&self, rules: Rules) -> GuardTable<sqlx::Sqlite> {
        let mut connection = self.connect().await;
        GuardTable::create(&mut connection, "fencing_marks", rules)
            .await
            .unwrap()
    }

    /// Balance and mark of an account.
    pub(crate) async fn account(&self, id: i64) -> Option<(i64, i64)> {
        sqlx::query_as("SELECT balance, fencing_token FROM accounts WHERE id = ?")
            .bind(id)
            .fetch_optional(&mut self.connect().await)
            .await
            .unwrap()
    }

    /// The tokens of all writes, in the order in which they were carried out.
    pub(crate) async fn history(&self) -> Vec<i64> {
        sqlx::query_scalar("SELECT token FROM history ORDER BY n")
            .fetch_all(&mut self.connect().await)
            .await
            .unwrap()
    }
}
