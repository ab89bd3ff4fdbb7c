//! A table of marks with connections of its own.

use sqlx::Pool;

use crate::{
    fence::{Guard, Mark, Verdict},
    resource::ResourceName,
    sequencer::Sequencer,
};

use super::{Dialect, GuardTable, SqlError, begin::begin};

/// A [`GuardTable`] with connections of its own, as a [`Guard`]: each `admit` is a transaction.
///
/// For marks that several processes share while the protected writes happen elsewhere. Where the
/// data is in the same database, use [`GuardTable::fenced`], which leaves no gap.
#[derive(Debug)]
pub struct SqlGuard<DB: Dialect> {
    pool: Pool<DB>,
    table: GuardTable<DB>,
}

impl<DB: Dialect> SqlGuard<DB> {
    /// A guard over `table` that takes its connections from `pool`.
    #[must_use]
    pub fn new(pool: Pool<DB>, table: GuardTable<DB>) -> Self {
        Self { pool, table }
    }
}

impl<DB: Dialect> Clone for SqlGuard<DB> {
    fn clone(&self) -> Self {
        Self {
            pool: self.pool.clone(),
            table: self.table.clone(),
        }
    }
}

impl<DB: Dialect> Guard for SqlGuard<DB> {
    type Error = SqlError;

    async fn admit(&self, sequencer: &Sequencer) -> Result<Verdict, SqlError> {
        let mut transaction = begin(&self.pool).await?;
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
