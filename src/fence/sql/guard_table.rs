//! A table of marks, for data whose own tables cannot change.

use sqlx::{AssertSqlSafe, Row as _, Sqlite, SqliteConnection, SqlitePool, Transaction};

use crate::{
    fence::{Guard, Mark, Rules, Verdict},
    resource::{IssuerName, ResourceName},
    sequencer::Sequencer,
    token::TokenValue,
};

use super::{SqlError, comparison::comparison, guarded_table::columns, identifier::Identifier};

/// Marks for any number of resources, in a table of their own beside the data that they protect.
///
/// Both must live in the same database: the mark and the caller's writes commit together.
#[derive(Debug, Clone)]
pub struct GuardTable {
    table: Identifier,
    rules: Rules,
}

impl GuardTable {
    /// The statement that makes a table of marks, for those who keep their schema in migrations.
    ///
    /// # Errors
    ///
    /// [`SqlError::Identifier`] for a name that cannot be used.
    pub fn create_sql(table: &str) -> Result<String, SqlError> {
        let table = Identifier::table(table)?;
        // STRICT, so that no tool can put text where a number must compare. The resource compares
        // byte for byte (BINARY is the default collation): two names must never share a mark.
        Ok(format!(
            "CREATE TABLE IF NOT EXISTS {table} (\n    \
                 \"resource\" TEXT NOT NULL PRIMARY KEY,\n    \
                 \"issuer\" TEXT NOT NULL,\n    \
                 \"token\" INTEGER NOT NULL CHECK (\"token\" > 0)\n\
             ) STRICT, WITHOUT ROWID"
        ))
    }

    /// Makes the table of marks if it is not there, and opens it.
    ///
    /// # Errors
    ///
    /// As [`GuardTable::open`].
    pub async fn create(
        connection: &mut SqliteConnection,
        table: &str,
        rules: Rules,
    ) -> Result<Self, SqlError> {
        sqlx::query(AssertSqlSafe(Self::create_sql(table)?))
            .execute(&mut *connection)
            .await?;
        Self::open(connection, table, rules).await
    }

    /// Opens a table of marks that was made by [`GuardTable::create_sql`].
    ///
    /// # Errors
    ///
    /// [`SqlError::Identifier`] for a name that cannot be used, [`SqlError::Unfit`] if there is no
    /// such table or it lacks a column, [`SqlError::Database`].
    pub async fn open(
        connection: &mut SqliteConnection,
        table: &str,
        rules: Rules,
    ) -> Result<Self, SqlError> {
        let table = Identifier::table(table)?;
        let found = columns(connection, &table).await?;
        for wanted in ["resource", "issuer", "token"] {
            let wanted = Identifier::column(wanted)?;
            if !found.iter().any(|column| column.is(&wanted)) {
                return Err(SqlError::Unfit {
                    table: table.name().to_owned(),
                    reason: format!("there is no column {wanted}; make it by `GuardTable::create`"),
                });
            }
        }
        Ok(Self { table, rules })
    }

    /// Locks the mark, raises it to the sequencer's token, or refuses, inside the caller's
    /// transaction. On [`Verdict::Admitted`] the mark stays locked until that transaction ends, and
    /// commits with the caller's writes or not at all. On anything else, roll back.
    ///
    /// Call it before the transaction's first read, or begin with `BEGIN IMMEDIATE`.
    ///
    /// ```no_run
    /// # use fencepost::{fence::sql::GuardTable, sequencer::Sequencer};
    /// # async fn example(pool: sqlx::SqlitePool, guard: GuardTable, sequencer: Sequencer) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut tx = pool.begin().await?;
    /// guard.fenced(&mut tx, &sequencer).await?.admitted()?;
    /// sqlx::query("UPDATE invoices SET state = 'sent' WHERE id = 7").execute(&mut *tx).await?;
    /// tx.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`SqlError::Database`], and [`SqlError::Mark`] for a stored mark that is no token. The
    /// transaction must be rolled back then, too.
    pub async fn fenced(
        &self,
        transaction: &mut Transaction<'_, Sqlite>,
        sequencer: &Sequencer,
    ) -> Result<Verdict, SqlError> {
        if let Some(foreign) = self.rules.foreign(sequencer) {
            return Ok(Verdict::Foreign(foreign));
        }
        // One statement that checks and raises. It writes, so SQLite's write lock is taken here and
        // held to the end of the transaction, even if no row changes.
        let raised = sqlx::query(AssertSqlSafe(self.raise_sql()))
            .bind(sequencer.resource.as_str())
            .bind(sequencer.issuer.as_str())
            .bind(sequencer.token.as_i64())
            .execute(&mut **transaction)
            .await?;
        if raised.rows_affected() > 0 {
            return Ok(Verdict::Admitted);
        }
        let mark = self.mark(transaction, &sequencer.resource).await?;
        match self.rules.judge(sequencer, mark.as_ref()) {
            // The statement and the rule are the same rule; if they ever differ, refuse to go on.
            Verdict::Admitted => Err(SqlError::Unfit {
                table: self.table.name().to_owned(),
                reason: "its mark allows this token, and yet could not be raised; a trigger may \
                         stand in the way"
                    .to_owned(),
            }),
            refused => Ok(refused),
        }
    }

    /// The mark of a resource, for monitoring. Nothing may be decided by it.
    ///
    /// # Errors
    ///
    /// [`SqlError::Database`], and [`SqlError::Mark`] for a stored mark that is no token.
    pub async fn mark(
        &self,
        connection: &mut SqliteConnection,
        resource: &ResourceName,
    ) -> Result<Option<Mark>, SqlError> {
        let table = &self.table;
        let row = sqlx::query(AssertSqlSafe(format!(
            "SELECT \"issuer\", \"token\" FROM {table} WHERE \"resource\" = ?1"
        )))
        .bind(resource.as_str())
        .fetch_optional(connection)
        .await?;
        let Some(row) = row else { return Ok(None) };
        let (issuer, token): (String, i64) = (row.try_get(0)?, row.try_get(1)?);
        let bad = |found: String| SqlError::Mark {
            table: table.name().to_owned(),
            found: found.chars().take(80).collect(),
        };
        let issuer = IssuerName::new(&*issuer).map_err(|_| bad(issuer.clone()))?;
        let token = u64::try_from(token)
            .ok()
            .and_then(|token| TokenValue::new(token).ok())
            .ok_or_else(|| bad(token.to_string()))?;
        Ok(Some(Mark { issuer, token }))
    }

    fn raise_sql(&self) -> String {
        let table = &self.table;
        let passes = comparison(&self.rules);
        format!(
            "INSERT INTO {table} (\"resource\", \"issuer\", \"token\") VALUES (?1, ?2, ?3) \
             ON CONFLICT (\"resource\") DO UPDATE SET \"token\" = excluded.\"token\" \
             WHERE {table}.\"issuer\" = excluded.\"issuer\" \
             AND {table}.\"token\" {passes} excluded.\"token\""
        )
    }
}

/// A [`GuardTable`] with connections of its own, as a [`Guard`]: each `admit` is a transaction.
///
/// For marks that several processes share while the protected writes happen elsewhere. Where the
/// data is in the same database, use [`GuardTable::fenced`], which leaves no gap.
#[derive(Debug, Clone)]
pub struct SqlGuard {
    pool: SqlitePool,
    table: GuardTable,
}

impl SqlGuard {
    /// A guard over `table` that takes its connections from `pool`.
    #[must_use]
    pub fn new(pool: SqlitePool, table: GuardTable) -> Self {
        Self { pool, table }
    }
}

impl Guard for SqlGuard {
    type Error = SqlError;

    async fn admit(&self, sequencer: &Sequencer) -> Result<Verdict, SqlError> {
        let mut transaction = self.pool.begin().await?;
        let verdict = self.table.fenced(&mut transaction, sequencer).await?;
        match verdict {
            Verdict::Admitted => transaction.commit().await?,
            _ => transaction.rollback().await?,
        }
        Ok(verdict)
    }

    async fn high_water(&self, resource: &ResourceName) -> Result<Option<Mark>, SqlError> {
        let mut connection = self.pool.acquire().await?;
        self.table.mark(&mut connection, resource).await
    }
}
