//! A table of marks, for data whose own tables cannot change.

use std::{fmt, marker::PhantomData, sync::Arc};

use sqlx::Transaction;

use crate::{
    fence::{Mark, Rules, Verdict, enforcement::Refused},
    resource::{IssuerName, ResourceName},
    sequencer::Sequencer,
};

use super::{
    Dialect, SqlError,
    comparison::comparison,
    dialect::Driver,
    names::{Identifier, TableName, quoted},
    statement::Statement,
    stored,
};

/// Marks for any number of resources, in a table of their own beside the data that they protect.
///
/// Both must live in the same database: the mark and the caller's writes commit together. `DB` is
/// that database: `GuardTable::<sqlx::Postgres>::create(...)`.
pub struct GuardTable<DB> {
    marks: Arc<Marks>,
    dialect: PhantomData<fn() -> DB>,
}

/// What a table of marks is made of.
#[derive(Debug)]
pub(in crate::fence) struct Marks {
    pub(in crate::fence) table: TableName,
    pub(in crate::fence) rules: Rules,
    /// As [`Driver::refuses_old_snapshots`] said when the table was opened.
    #[allow(
        dead_code,
        reason = "a build with one dialect alone has no use for what another needs"
    )]
    pub(in crate::fence) refuses_old_snapshots: bool,
}

impl<DB: Dialect> GuardTable<DB> {
    /// The statement that makes a table of marks, for those who keep their schema in migrations.
    ///
    /// # Errors
    ///
    /// [`SqlError::Identifier`] for a name that cannot be used.
    pub fn create_sql(table: &str) -> Result<String, SqlError> {
        Ok(DB::marks_sql(&TableName::parse::<DB>(table)?))
    }

    /// Makes the table of marks if it is not there, and opens it.
    ///
    /// # Errors
    ///
    /// As [`GuardTable::open`].
    pub async fn create(
        connection: &mut DB::Connection,
        table: &str,
        rules: Rules,
    ) -> Result<Self, SqlError> {
        DB::script(connection, Self::create_sql(table)?).await?;
        Self::open(connection, table, rules).await
    }

    /// Opens a table of marks that was made by [`GuardTable::create_sql`]. A name without a schema is
    /// looked up once, on this connection, as by [`GuardedTable::open`](super::GuardedTable::open).
    ///
    /// # Errors
    ///
    /// [`SqlError::Identifier`] for a name that cannot be used, [`SqlError::Unfit`] if there is no
    /// such table or it lacks a column, [`SqlError::Database`].
    pub async fn open(
        connection: &mut DB::Connection,
        table: &str,
        rules: Rules,
    ) -> Result<Self, SqlError> {
        let mut table = TableName::parse::<DB>(table)?;
        let column = Identifier::column;
        let (resource, issuer, token) = (column("resource")?, column("issuer")?, column("token")?);
        let names = [resource, issuer];
        let shape = DB::shape(connection, &table, &names).await?;
        shape.check::<DB>(&table, &names[..1], &token)?;
        // The issuer is compared by the database, too.
        let issuer = shape.column::<DB>(&table, &names[1])?;
        if let Some(reason) = &issuer.unfit_for_keys {
            return Err(table.unfit(format!("column {} {reason}", names[1])));
        }
        for more in DB::MARKS_MORE {
            shape.column::<DB>(&table, &column(more)?)?;
        }
        table.schema = shape.schema;
        let marks = Marks {
            table,
            rules,
            refuses_old_snapshots: DB::refuses_old_snapshots(connection).await?,
        };
        Ok(Self {
            marks: Arc::new(marks),
            dialect: PhantomData,
        })
    }

    /// Locks the mark, raises it to the sequencer's token, or refuses, inside the caller's
    /// transaction. On [`Verdict::Admitted`] the mark stays locked until that transaction ends, and
    /// commits with the caller's writes or not at all. On anything else, roll back at once.
    ///
    /// Call it before the transaction's first read: what was read before may be what a newer holder
    /// has changed since. At MySQL's REPEATABLE READ even later reads would be of that old snapshot,
    /// so that it is refused there ([`SqlError::Isolation`]). In SQLite, begin with `BEGIN IMMEDIATE`
    /// where a read must come first.
    ///
    /// A savepoint that is rolled back takes the mark back with the writes since: ask again before
    /// writing again.
    ///
    /// **A refusal locks the mark, too**, until the transaction ends: roll back at once. In PostgreSQL
    /// and MySQL a [`Transaction`] that is merely dropped (by `?`, say) is rolled back when its
    /// connection is used next. A pool does so as soon as it has the connection back; with one of your
    /// own that may never be, and then the mark stays locked, and the next holder waits for ever.
    ///
    /// ```no_run
    /// # use fencepost::{fence::sql::GuardTable, sequencer::Sequencer};
    /// # async fn example(pool: sqlx::SqlitePool, guard: GuardTable<sqlx::Sqlite>, sequencer: Sequencer) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut tx = pool.begin().await?;
    /// let verdict = guard.fenced(&mut tx, &sequencer).await?; // an error: `tx` goes back to its pool
    /// if let Err(refused) = verdict.admitted() {
    ///     tx.rollback().await?;
    ///     return Err(refused.into());
    /// }
    /// sqlx::query("UPDATE invoices SET state = 'sent' WHERE id = 7").execute(&mut *tx).await?;
    /// tx.commit().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`SqlError::Database`], [`SqlError::Isolation`], and [`SqlError::Mark`] for a stored mark that
    /// is no token. The transaction must be rolled back then, too.
    pub async fn fenced(
        &self,
        transaction: &mut Transaction<'_, DB>,
        sequencer: &Sequencer,
    ) -> Result<Verdict, SqlError> {
        let Marks { table, rules, .. } = &*self.marks;
        if let Some(foreign) = rules.foreign(sequencer) {
            return Ok(Verdict::Foreign(foreign));
        }
        match DB::raise(transaction, &self.marks, sequencer).await {
            Ok(true) => return Ok(Verdict::Admitted),
            Ok(false) => {}
            // Where triggers judge as well, they may do so first.
            Err(error)
                if matches!(
                    error.refused(),
                    Some(Refused::Stale { .. } | Refused::IssuerChange)
                ) => {}
            Err(error) => return Err(error),
        }
        let mark = self
            .read(transaction, &sequencer.resource, DB::NEWEST)
            .await?;
        match rules.judge(sequencer, mark.as_ref()) {
            // The statement and the rule are the same rule; if they ever differ, refuse to go on.
            Verdict::Admitted => Err(DB::not_raised(table)),
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
        connection: &mut DB::Connection,
        resource: &ResourceName,
    ) -> Result<Option<Mark>, SqlError> {
        self.read(connection, resource, "").await
    }

    /// The table, as it was found.
    pub(in crate::fence) fn table(&self) -> &TableName {
        &self.marks.table
    }

    /// The rules by which it judges.
    pub(in crate::fence) fn rules(&self) -> &Rules {
        &self.marks.rules
    }

    async fn read(
        &self,
        connection: &mut DB::Connection,
        resource: &ResourceName,
        newest: &str,
    ) -> Result<Option<Mark>, SqlError> {
        let table = &self.marks.table;
        let mut sql = Statement::<DB>::new("SELECT ");
        sql.push(&DB::text_as_text(&quoted::<DB>("issuer")))
            .push(", ");
        sql.push(&DB::number_as_text(&quoted::<DB>("token")));
        sql.push(" FROM ")
            .push(&table.quoted::<DB>())
            .push(" WHERE ");
        sql.name("resource").push(" = ").text(resource.as_str());
        sql.push(newest);
        let rows = DB::ask(connection, sql).await?;
        let Some(cells) = rows.into_iter().next() else {
            return Ok(None);
        };
        let mut cells = cells.into_iter();
        let (issuer, token) = (cells.next().flatten(), cells.next().flatten());
        let Some(token) = stored::mark(table, token)? else {
            return Ok(None);
        };
        let name = issuer.as_deref().map(IssuerName::new);
        let Some(Ok(issuer)) = name else {
            return Err(SqlError::Mark {
                table: table.shown(),
                found: stored::shown(issuer),
            });
        };
        Ok(Some(Mark { issuer, token }))
    }
}

/// Raises a mark where `INSERT ... ON CONFLICT` has a condition: one statement that checks, raises and
/// locks. It writes, or at least locks the row, whatever comes of it.
pub(super) async fn raise_on_conflict<DB: Driver>(
    connection: &mut DB::Connection,
    marks: &Marks,
    sequencer: &Sequencer,
) -> Result<bool, SqlError> {
    let table = &marks.table;
    let own = quoted::<DB>(table.table.name());
    let passes = comparison(&marks.rules);
    let mut sql = Statement::<DB>::new("INSERT INTO ");
    sql.push(&table.quoted::<DB>());
    sql.push(" (\"resource\", \"issuer\", \"token\") VALUES (");
    sql.text(sequencer.resource.as_str()).push(", ");
    sql.text(sequencer.issuer.as_str()).push(", ");
    sql.integer(sequencer.token.as_i64());
    sql.push(&format!(
        ") ON CONFLICT (\"resource\") DO UPDATE SET \"token\" = excluded.\"token\" \
         WHERE {own}.\"issuer\" = excluded.\"issuer\" \
         AND {own}.\"token\"{passes}excluded.\"token\""
    ));
    Ok(DB::execute(connection, sql).await? > 0)
}

// By hand: a derive would ask the same of `DB`, of which there never is a value.
impl<DB> Clone for GuardTable<DB> {
    fn clone(&self) -> Self {
        Self {
            marks: Arc::clone(&self.marks),
            dialect: PhantomData,
        }
    }
}

impl<DB> fmt::Debug for GuardTable<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.marks.fmt(f)
    }
}
