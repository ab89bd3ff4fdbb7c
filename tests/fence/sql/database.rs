//! A database of its own for each story, in each of the three, and the account that a grant protects.

use std::{future::Future, str::FromStr as _, time::Duration};

use fencepost::fence::{
    Rules,
    sql::{Dialect, GuardTable, GuardedTable},
};
use sqlx::{
    AssertSqlSafe, Connection, Encode, Executor as _, MySql, MySqlConnection, PgConnection, Pool,
    Postgres, Row as _, Sqlite, SqliteConnection, Transaction, Type,
    pool::PoolOptions,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};

use crate::databases;

type Options<DB> = <<DB as sqlx::Database>::Connection as Connection>::Options;

/// A database of its own; every connection to it is a real one.
pub(crate) struct Database<DB: Server> {
    options: Options<DB>,
    /// Where SQLite keeps its file.
    _directory: Option<tempfile::TempDir>,
}

/// What the stories need of a database, beside what a guard needs.
pub(crate) trait Server: Dialect {
    /// `i64`, which every database takes; only said like this does the compiler believe it.
    type Number: From<i64> + for<'q> Encode<'q, Self> + Type<Self> + Send + Sync + 'static;

    /// `String`, likewise.
    type Text: From<String> + for<'q> Encode<'q, Self> + Type<Self> + Send + Sync + 'static;

    /// The isolation levels that it offers, by what begins a transaction there.
    const LEVELS: &[&str];

    /// The level at which most people work.
    const USUAL: &str;

    /// Whether only one transaction at a time can have written anything.
    const ONE_WRITER: bool = false;

    /// A type for keys that are names.
    const NAMES: &str;

    /// What makes a session give up on a lock soon.
    const IMPATIENT: &str;

    /// A guarded table `accounts`, account 1 in it, and a `history` that a trigger writes: the token of
    /// every write to an account, in the order in which the database carried them out.
    const BANK: &str;

    /// A new, empty database; `None` where the server is not installed.
    fn fresh() -> impl Future<Output = Option<(Options<Self>, Option<tempfile::TempDir>)>>;

    /// Begins a transaction at one of [`Server::LEVELS`].
    fn begin<'c>(
        connection: &'c mut Self::Connection,
        level: &'static str,
    ) -> impl Future<Output = sqlx::Result<Transaction<'c, Self>>> + Send;

    fn number(number: i64) -> Self::Number {
        number.into()
    }

    fn text(text: &str) -> Self::Text {
        text.to_owned().into()
    }

    /// Runs statements that have no parameters.
    fn run(
        connection: &mut Self::Connection,
        sql: &str,
    ) -> impl Future<Output = sqlx::Result<()>> + Send;

    /// Carries out one statement; the rows that it met.
    fn count(
        connection: &mut Self::Connection,
        sql: &str,
    ) -> impl Future<Output = sqlx::Result<u64>> + Send;

    /// Rows of whatever there is, shown as text.
    fn texts(
        connection: &mut Self::Connection,
        sql: &str,
    ) -> impl Future<Output = sqlx::Result<Vec<Vec<String>>>> + Send;

    /// Rows of whole numbers.
    fn numbers(
        connection: &mut Self::Connection,
        sql: &str,
    ) -> impl Future<Output = sqlx::Result<Vec<Vec<i64>>>> + Send;
}

impl<DB: Server> Database<DB> {
    /// With a bank in it; `None` where the server is not installed.
    pub(crate) async fn new() -> Option<Self> {
        let (options, _directory) = DB::fresh().await?;
        let database = Self {
            options,
            _directory,
        };
        database.run(DB::BANK).await;
        Some(database)
    }

    pub(crate) async fn connect(&self) -> DB::Connection {
        DB::Connection::connect_with(&self.options).await.unwrap()
    }

    pub(crate) async fn pool(&self, connections: u32) -> Pool<DB> {
        PoolOptions::new()
            .max_connections(connections)
            .connect_with(self.options.clone())
            .await
            .unwrap()
    }

    pub(crate) async fn run(&self, sql: &str) {
        let done = DB::run(&mut self.connect().await, sql).await;
        done.unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    pub(crate) async fn accounts(&self, rules: Rules) -> GuardedTable<DB> {
        let mut connection = self.connect().await;
        GuardedTable::<DB>::open(&mut connection, "accounts", &["id"], "fencing_token", rules)
            .await
            .unwrap()
    }

    pub(crate) async fn marks(&self, rules: Rules) -> GuardTable<DB> {
        let mut connection = self.connect().await;
        GuardTable::<DB>::create(&mut connection, "fencing_marks", rules)
            .await
            .unwrap()
    }

    /// Balance and mark of an account.
    pub(crate) async fn account(&self, id: i64) -> Option<(i64, i64)> {
        let sql = format!("SELECT balance, fencing_token FROM accounts WHERE id = {id}");
        let rows = DB::numbers(&mut self.connect().await, &sql).await.unwrap();
        rows.first().map(|row| (row[0], row[1]))
    }

    /// The tokens of all writes, in the order in which they were carried out.
    pub(crate) async fn history(&self) -> Vec<i64> {
        let sql = "SELECT token FROM history ORDER BY n";
        let rows = DB::numbers(&mut self.connect().await, sql).await.unwrap();
        rows.concat()
    }
}

/// How a driver carries out statements without parameters: the same in each, and a macro, since sqlx's
/// executors are of one database each.
macro_rules! plain_statements {
    ($connection:ty) => {
        async fn run(connection: &mut $connection, sql: &str) -> sqlx::Result<()> {
            let sql = sqlx::raw_sql(AssertSqlSafe(sql.to_owned()));
            sql.execute(connection).await.map(drop)
        }

        async fn count(connection: &mut $connection, sql: &str) -> sqlx::Result<u64> {
            let done = connection.execute(AssertSqlSafe(sql.to_owned())).await?;
            Ok(done.rows_affected())
        }

        async fn texts(connection: &mut $connection, sql: &str) -> sqlx::Result<Vec<Vec<String>>> {
            let rows = connection.fetch_all(AssertSqlSafe(sql.to_owned())).await?;
            Ok(rows.iter().map(shown).collect())
        }

        async fn numbers(connection: &mut $connection, sql: &str) -> sqlx::Result<Vec<Vec<i64>>> {
            let rows = connection.fetch_all(AssertSqlSafe(sql.to_owned())).await?;
            let row = |row: &<Self as sqlx::Database>::Row| {
                (0..row.len()).map(|n| row.try_get(n)).collect()
            };
            rows.iter().map(row).collect()
        }
    };
}

impl Database<MySql> {
    /// With a bank in it, on a server that is not known to refuse old snapshots itself.
    pub(crate) async fn old() -> Option<Self> {
        let url = databases::old_mariadb()?.fresh("bank").await;
        let database = Self {
            options: url.parse().unwrap(),
            _directory: None,
        };
        database.run(MySql::BANK).await;
        Some(database)
    }
}

impl Server for Sqlite {
    type Number = i64;
    type Text = String;
    const LEVELS: &[&str] = &["BEGIN", "BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"];
    const USUAL: &str = "BEGIN";
    const ONE_WRITER: bool = true;
    const NAMES: &str = "TEXT";
    const IMPATIENT: &str = "PRAGMA busy_timeout = 0";
    const BANK: &str = "
        CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL,
            version INTEGER NOT NULL DEFAULT 0, fencing_token BIGINT NOT NULL DEFAULT 0);
        CREATE TABLE history (n INTEGER PRIMARY KEY AUTOINCREMENT, token INTEGER NOT NULL);
        CREATE TRIGGER remember AFTER UPDATE ON accounts
            BEGIN INSERT INTO history (token) VALUES (new.fencing_token); END;
        INSERT INTO accounts (id, balance) VALUES (1, 0);";

    async fn fresh() -> Option<(SqliteConnectOptions, Option<tempfile::TempDir>)> {
        let directory = tempfile::tempdir().unwrap();
        let url = format!("sqlite://{}/bank.db", directory.path().display());
        let options = SqliteConnectOptions::from_str(&url)
            .unwrap()
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // These tests kill no machine, and an fsync for each write would only slow them down.
            .synchronous(SqliteSynchronous::Off)
            .busy_timeout(Duration::from_secs(60));
        Some((options, Some(directory)))
    }

    async fn begin<'c>(
        connection: &'c mut SqliteConnection,
        level: &'static str,
    ) -> sqlx::Result<Transaction<'c, Self>> {
        connection.begin_with(level).await
    }

    plain_statements!(SqliteConnection);
}

impl Server for Postgres {
    type Number = i64;
    type Text = String;
    const LEVELS: &[&str] = &[
        "READ UNCOMMITTED",
        "READ COMMITTED",
        "REPEATABLE READ",
        "SERIALIZABLE",
    ];
    const USUAL: &str = "READ COMMITTED";
    const NAMES: &str = "TEXT";
    const IMPATIENT: &str = "SET lock_timeout = '20ms'";
    const BANK: &str = "
        CREATE TABLE accounts (id BIGINT PRIMARY KEY, balance BIGINT NOT NULL,
            version BIGINT NOT NULL DEFAULT 0, fencing_token BIGINT NOT NULL DEFAULT 0);
        CREATE TABLE history (n BIGSERIAL PRIMARY KEY, token BIGINT NOT NULL);
        CREATE FUNCTION remember() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN INSERT INTO history (token) VALUES (new.fencing_token); RETURN NULL; END $$;
        CREATE TRIGGER remember AFTER UPDATE ON accounts
            FOR EACH ROW EXECUTE FUNCTION remember();
        INSERT INTO accounts (id, balance) VALUES (1, 0);";

    async fn fresh() -> Option<(Options<Self>, Option<tempfile::TempDir>)> {
        let url = databases::postgres()?.fresh("bank").await;
        Some((url.parse().unwrap(), None))
    }

    async fn begin<'c>(
        connection: &'c mut PgConnection,
        level: &'static str,
    ) -> sqlx::Result<Transaction<'c, Self>> {
        let begin = format!("BEGIN ISOLATION LEVEL {level}");
        connection.begin_with(AssertSqlSafe(begin)).await
    }

    plain_statements!(PgConnection);
}

impl Server for MySql {
    type Number = i64;
    type Text = String;
    const LEVELS: &[&str] = &[
        "READ UNCOMMITTED",
        "READ COMMITTED",
        "REPEATABLE READ",
        "SERIALIZABLE",
    ];
    const USUAL: &str = "REPEATABLE READ";
    const NAMES: &str = "VARCHAR(200) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin";
    const IMPATIENT: &str = "SET innodb_lock_wait_timeout = 1";
    const BANK: &str = "
        CREATE TABLE accounts (id BIGINT PRIMARY KEY, balance BIGINT NOT NULL,
            version BIGINT NOT NULL DEFAULT 0, fencing_token BIGINT NOT NULL DEFAULT 0);
        CREATE TABLE history (n BIGINT AUTO_INCREMENT PRIMARY KEY, token BIGINT NOT NULL);
        CREATE TRIGGER remember AFTER UPDATE ON accounts FOR EACH ROW
            INSERT INTO history (token) VALUES (new.fencing_token);
        INSERT INTO accounts (id, balance) VALUES (1, 0);";

    async fn fresh() -> Option<(Options<Self>, Option<tempfile::TempDir>)> {
        let url = databases::mariadb()?.fresh("bank").await;
        Some((url.parse().unwrap(), None))
    }

    async fn begin<'c>(
        connection: &'c mut MySqlConnection,
        level: &'static str,
    ) -> sqlx::Result<Transaction<'c, Self>> {
        let set = format!("SET TRANSACTION ISOLATION LEVEL {level}");
        connection.execute(AssertSqlSafe(set)).await?;
        connection.begin().await
    }

    plain_statements!(MySqlConnection);
}

/// The cells of a row: whole numbers, and else what can be read as text.
fn shown<R>(row: &R) -> Vec<String>
where
    R: sqlx::Row,
    usize: sqlx::ColumnIndex<R>,
    i64: for<'r> sqlx::Decode<'r, R::Database> + Type<R::Database>,
    String: for<'r> sqlx::Decode<'r, R::Database>,
{
    let cell = |n: usize| match row.try_get::<i64, _>(n) {
        Ok(number) => number.to_string(),
        Err(_) => {
            // Unchecked, since MySQL's names of bytes are not of a text type.
            row.try_get_unchecked::<String, _>(n).unwrap()
        }
    };
    (0..row.len()).map(cell).collect()
}
