//! The smallest storage that fences: one text for each resource, in an SQLite file.
//!
//! It is a resource that refuses late writers by itself, for a demonstration, for a test that needs
//! one that is right, or for a small program that has nothing better. It also shows how
//! [`GuardedTable`] is meant to be used.

use std::{path::Path, time::Duration};

use sqlx::{
    Row as _, Sqlite, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions},
};

use crate::{
    fence::{
        Rules,
        sql::{GuardedTable, SqlError, WriteOutcome},
    },
    resource::{IssuerName, ResourceName},
    sequencer::Sequencer,
    token::TokenValue,
};

/// How long a write waits for another that holds the file's lock.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// Connections to the file; SQLite has one writer at a time, and readers beside it.
const CONNECTIONS_MAX: u32 = 4;

/// A text for each resource, in an SQLite file that several processes may share.
#[derive(Debug, Clone)]
pub struct Documents {
    pool: SqlitePool,
    table: GuardedTable<Sqlite>,
}

/// A stored text, and the token under which it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    /// The text.
    pub body: String,
    /// The high-water mark of its resource: the token of its last write.
    pub token: TokenValue,
}

impl Documents {
    /// Opens the file, or makes it. Only tokens of this issuer are admitted.
    ///
    /// # Errors
    ///
    /// [`SqlError::Database`] when the file cannot be opened or is no database, and
    /// [`SqlError::Unfit`] when it holds another table of that name.
    pub async fn open(file: &Path, issuer: IssuerName) -> Result<Self, SqlError> {
        let options = SqliteConnectOptions::new()
            .filename(file)
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .busy_timeout(BUSY_TIMEOUT);
        let pool = SqlitePoolOptions::new()
            .max_connections(CONNECTIONS_MAX)
            .connect_with(options)
            .await?;
        let mut connection = pool.acquire().await?;
        sqlx::query(
            "CREATE TABLE IF NOT EXISTS documents (
                 resource TEXT NOT NULL PRIMARY KEY,
                 body TEXT NOT NULL,
                 fencing_token INTEGER NOT NULL DEFAULT 0
             ) STRICT",
        )
        .execute(&mut *connection)
        .await?;
        let table = GuardedTable::<Sqlite>::open(
            &mut connection,
            "documents",
            &["resource"],
            "fencing_token",
            Rules::issued_by(issuer),
        )
        .await?;
        drop(connection);
        Ok(Self { pool, table })
    }

    /// Writes the text of the sequencer's resource, in one statement with the check of its token.
    ///
    /// # Errors
    ///
    /// [`SqlError::Database`]; it may be repeated with the same sequencer.
    pub async fn write(&self, sequencer: &Sequencer, body: &str) -> Result<WriteOutcome, SqlError> {
        // The row's key is the resource's name, so this row is protected by exactly that resource.
        let resource = &sequencer.resource;
        let mut connection = self.pool.acquire().await?;
        self.table
            .write(resource, sequencer)
            .key(resource.as_str())
            .set("body", body)
            .upsert(&mut connection)
            .await
    }

    /// The text of a resource, if there is one.
    ///
    /// # Errors
    ///
    /// [`SqlError::Database`], and [`SqlError::Mark`] for a stored mark that is no token.
    pub async fn read(&self, resource: &ResourceName) -> Result<Option<Document>, SqlError> {
        let row = sqlx::query("SELECT body, fencing_token FROM documents WHERE resource = ?1")
            .bind(resource.as_str())
            .fetch_optional(&self.pool)
            .await?;
        let Some(row) = row else { return Ok(None) };
        let stored: i64 = row.try_get(1)?;
        let token = u64::try_from(stored).ok().map(TokenValue::new);
        let Some(Ok(token)) = token else {
            return Err(SqlError::Mark {
                table: "documents".to_owned(),
                found: stored.to_string(),
            });
        };
        let body = row.try_get(0)?;
        Ok(Some(Document { body, token }))
    }

    /// Closes the file. What was written is safe without it too.
    pub async fn close(self) {
        self.pool.close().await;
    }
}
