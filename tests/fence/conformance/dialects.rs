//! What the tests of the SQL guards need of each database: a fresh one, and a table with a number
//! for each resource.

use fencepost::{
    fence::{
        conformance::{Fault, Write},
        sql::{Dialect, GuardedTable, SqlError, WriteOutcome},
    },
    resource::ResourceName,
    sequencer::Sequencer,
    token::TokenValue,
};
use sqlx::{Connection as _, Executor as _, MySql, Pool, Postgres, Row as _, Sqlite};

use crate::databases;

/// A database of one's own: its URL, and its directory where it is a file.
pub(super) struct Base {
    url: String,
    directory: Option<tempfile::TempDir>,
}

impl Base {
    /// A database on a server.
    pub(super) fn at(url: String) -> Self {
        Self {
            url,
            directory: None,
        }
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }
}

type Answered<T> = Result<T, SqlError>;

/// A database and a table `documents` in it: resource, value, fencing_token.
pub(super) trait Server: Dialect<Connection: Sync> {
    const BACKED_UP: bool;

    fn fresh() -> impl Future<Output = Option<Base>> + Send;
    fn connect(base: &Base) -> impl Future<Output = Answered<Self::Connection>> + Send;
    fn pool(base: &Base) -> Pool<Self>;
    fn make(connection: &mut Self::Connection) -> impl Future<Output = Answered<()>> + Send;
    fn say(
        connection: &mut Self::Connection,
        what: &'static str,
    ) -> impl Future<Output = Answered<()>> + Send;

    /// Writes a row that carries its token.
    fn upsert(
        rows: &GuardedTable<Self>,
        connection: &mut Self::Connection,
        write: &Write,
        sequencer: &Sequencer,
    ) -> impl Future<Output = Answered<WriteOutcome>> + Send;

    /// Writes a row that knows of no token.
    fn put(
        connection: &mut Self::Connection,
        write: &Write,
    ) -> impl Future<Output = Answered<()>> + Send;

    /// The value and the token of a row.
    fn row(
        connection: &mut Self::Connection,
        resource: &ResourceName,
    ) -> impl Future<Output = Result<(Option<u32>, Option<TokenValue>), Fault>> + Send;

    fn back_up(base: &Base) -> impl Future<Output = Result<(), Fault>> + Send;
    fn restore(base: &mut Base) -> impl Future<Output = Result<(), Fault>> + Send;
}

macro_rules! server {
    (
        $database:ident, fresh: $fresh:expr, backed_up: $backed_up:literal,
        make: $make:literal, put: $put:literal, row: $row:literal,
        back_up: $back_up:path, restore: $restore:path
    ) => {
        impl Server for $database {
            const BACKED_UP: bool = $backed_up;

            async fn fresh() -> Option<Base> {
                $fresh.await
            }

            async fn connect(base: &Base) -> Answered<Self::Connection> {
                Ok(Self::Connection::connect(&base.url).await?)
            }

            fn pool(base: &Base) -> Pool<Self> {
                Pool::connect_lazy(&base.url).unwrap()
            }

            async fn make(connection: &mut Self::Connection) -> Answered<()> {
                connection.execute($make).await?;
                Ok(())
            }

            async fn say(connection: &mut Self::Connection, what: &'static str) -> Answered<()> {
                connection.execute(what).await?;
                Ok(())
            }

            async fn upsert(
                rows: &GuardedTable<Self>,
                connection: &mut Self::Connection,
                write: &Write,
                sequencer: &Sequencer,
            ) -> Answered<WriteOutcome> {
                let row = rows.write(&write.resource, sequencer);
                let row = row.key(write.resource.as_str());
                row.set("value", i64::from(write.value))
                    .upsert(connection)
                    .await
            }

            async fn put(connection: &mut Self::Connection, write: &Write) -> Answered<()> {
                sqlx::query($put)
                    .bind(write.resource.as_str())
                    .bind(i64::from(write.value))
                    .execute(connection)
                    .await?;
                Ok(())
            }

            async fn row(
                connection: &mut Self::Connection,
                resource: &ResourceName,
            ) -> Result<(Option<u32>, Option<TokenValue>), Fault> {
                let row = sqlx::query($row).bind(resource.as_str());
                let Some(row) = row.fetch_optional(connection).await? else {
                    return Ok((None, None));
                };
                let (value, token): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
                let token = u64::try_from(token)?;
                Ok((Some(u32::try_from(value)?), TokenValue::new(token).ok()))
            }

            async fn back_up(base: &Base) -> Result<(), Fault> {
                $back_up(base).await
            }

            async fn restore(base: &mut Base) -> Result<(), Fault> {
                $restore(base).await
            }
        }
    };
}

server!(
    Sqlite,
    fresh: in_a_file(),
    backed_up: true,
    make: "CREATE TABLE documents (resource TEXT NOT NULL PRIMARY KEY, value INTEGER NOT NULL,
           fencing_token INTEGER NOT NULL DEFAULT 0) STRICT",
    put: "INSERT INTO documents (resource, value) VALUES (?1, ?2)
          ON CONFLICT (resource) DO UPDATE SET value = excluded.value",
    row: "SELECT value, fencing_token FROM documents WHERE resource = ?1",
    back_up: vacuum_into, restore: put_file_back
);

server!(
    Postgres,
    fresh: async {
        Some(Base::at(databases::postgres()?.fresh("conformance").await))
    },
    backed_up: false,
    make: "CREATE TABLE documents (resource TEXT NOT NULL PRIMARY KEY, value BIGINT NOT NULL,
           fencing_token BIGINT NOT NULL DEFAULT 0)",
    put: "INSERT INTO documents (resource, value) VALUES ($1, $2)
          ON CONFLICT (resource) DO UPDATE SET value = excluded.value",
    row: "SELECT value, fencing_token FROM documents WHERE resource = $1",
    back_up: never_backed_up, restore: never_restored
);

server!(
    MySql,
    fresh: async {
        Some(Base::at(databases::mariadb()?.fresh("conformance").await))
    },
    backed_up: false,
    make: "CREATE TABLE documents (
           resource VARCHAR(160) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL PRIMARY KEY,
           value BIGINT NOT NULL, fencing_token BIGINT NOT NULL DEFAULT 0) ENGINE=InnoDB",
    put: "INSERT INTO documents (resource, value) VALUES (?, ?)
          ON DUPLICATE KEY UPDATE value = VALUES(value)",
    row: "SELECT value, fencing_token FROM documents WHERE resource = ?",
    back_up: never_backed_up, restore: never_restored
);

async fn in_a_file() -> Option<Base> {
    let directory = tempfile::tempdir().unwrap();
    let url = url_of(&directory);
    let mut connection = sqlx::SqliteConnection::connect(&url).await.unwrap();
    connection
        .execute("PRAGMA journal_mode = WAL")
        .await
        .unwrap();
    Some(Base {
        url,
        directory: Some(directory),
    })
}

/// As SQLite recommends for a database in use.
async fn vacuum_into(base: &Base) -> Result<(), Fault> {
    let mut connection = Sqlite::connect(base).await?;
    let directory = base.directory.as_ref().ok_or("it is no file")?;
    let backup = directory.path().join("backup.db");
    let sql = sqlx::query("VACUUM INTO ?").bind(backup.display().to_string());
    sql.execute(&mut connection).await?;
    connection.close().await?;
    Ok(())
}

/// Into a new directory: a connection that was dropped is closed a little later, and would then
/// tidy up in the old one.
async fn put_file_back(base: &mut Base) -> Result<(), Fault> {
    let old = base.directory.take().ok_or("it is no file")?;
    let new = tempfile::tempdir()?;
    std::fs::copy(old.path().join("backup.db"), new.path().join("data.db"))?;
    *base = Base {
        url: url_of(&new),
        directory: Some(new),
    };
    Ok(())
}

fn url_of(directory: &tempfile::TempDir) -> String {
    format!("sqlite://{}/data.db?mode=rwc", directory.path().display())
}

/// The shared server is other tests', too: `restarted` has servers of its own for this.
async fn never_backed_up(_: &Base) -> Result<(), Fault> {
    Err("not backed up here".into())
}

async fn never_restored(_: &mut Base) -> Result<(), Fault> {
    Err("not restored here".into())
}
