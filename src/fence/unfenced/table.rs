//! The durable record of calls, in the caller's own database.

use std::fmt;
use std::time::SystemTime;

use sqlx::Transaction;

use crate::fence::sql::{Dialect, GuardTable, SqlError, Statement, TableName};
use crate::fence::{EqualTokens, Refusal};
use crate::sequencer::Sequencer;

use super::call::{Call, CallState};
use super::error::CallError;
use super::key::IdempotencyKey;
use super::operation::Operation;
use super::row;
use super::terms::Terms;

/// The longest request that is recorded, in bytes.
pub const REQUEST_BYTES_MAX: usize = 64 * 1024;

/// Calls to one service, recorded in a table beside the marks that guard them and the data that they
/// are about.
///
/// `DB` is the database: `Calls::<sqlx::Sqlite>::create(...)`. One table serves one service.
pub struct Calls<DB> {
    pub(super) table: TableName,
    pub(super) guard: GuardTable<DB>,
    pub(super) terms: Terms,
}

/// What came of recording a call.
#[must_use = "a call may be made only when it is recorded"]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Recorded {
    /// It is recorded, once the caller's transaction commits. Then send it.
    New(Call),
    /// It was recorded before, by the same grant: whoever does its work again finds what it began.
    Again(Call),
    /// An earlier grant for this resource has left a call open, the oldest of which this is. Nothing
    /// was recorded. Settle it first: whether the new call is still wanted may hang on how it ended.
    Unsettled(Call),
    /// The guard refused: the grant is stale, or foreign. Nothing was recorded; roll back.
    Refused(Refusal),
}

impl<DB: Dialect> Calls<DB> {
    /// The statement that makes a table of calls, for those who keep their schema in migrations.
    ///
    /// # Errors
    ///
    /// [`SqlError::Identifier`] for a name that cannot be used.
    pub fn create_sql(table: &str) -> Result<String, SqlError> {
        Ok(row::create_sql::<DB>(&TableName::parse::<DB>(table)?))
    }

    /// Makes the table of calls if it is not there, and opens it.
    ///
    /// # Errors
    ///
    /// As [`Calls::open`].
    pub async fn create(
        connection: &mut DB::Connection,
        table: &str,
        guard: GuardTable<DB>,
        terms: Terms,
    ) -> Result<Self, SqlError> {
        DB::script(connection, Self::create_sql(table)?).await?;
        Self::open(connection, table, guard, terms).await
    }

    /// Opens a table of calls that was made by [`Calls::create_sql`].
    ///
    /// # Errors
    ///
    /// [`SqlError::Identifier`] for a name that cannot be used; [`SqlError::Unfit`] if there is no such
    /// table, it lacks a column, or the guard admits each token only once: a call asks it twice.
    pub async fn open(
        connection: &mut DB::Connection,
        table: &str,
        guard: GuardTable<DB>,
        terms: Terms,
    ) -> Result<Self, SqlError> {
        let table = TableName::parse::<DB>(table)?;
        if guard.rules().equal() == EqualTokens::Once {
            return Err(table.unfit(
                "its guard admits each token once, and a call asks it when it is recorded and again \
                 when it is sent; use a guard under which equal tokens may write again",
            ));
        }
        let table = row::open::<DB>(connection, table).await?;
        Ok(Self {
            table,
            guard,
            terms,
        })
    }

    /// What the service promises.
    #[must_use]
    pub fn terms(&self) -> &Terms {
        &self.terms
    }

    /// Records a call in the caller's transaction, after its guard admitted the grant: the mark, the
    /// record and the caller's own writes commit together, or not at all. Nothing is sent.
    ///
    /// Call it before the transaction's first read. The same grant, operation and request give the
    /// same call, however often the work is done again. `now` is for people and for the service's
    /// retention of keys.
    ///
    /// # Errors
    ///
    /// [`CallError::KeyTaken`] and [`CallError::NotTheOnly`] for calls that the service could not tell
    /// apart; [`CallError::Request`]; [`CallError::Sql`]. Roll back on all of them.
    pub async fn record(
        &self,
        transaction: &mut Transaction<'_, DB>,
        sequencer: &Sequencer,
        operation: &Operation,
        request: &str,
        now: SystemTime,
    ) -> Result<Recorded, CallError> {
        check(request)?;
        let verdict = self.guard.fenced(transaction, sequencer).await?;
        if let Err(refusal) = verdict.admitted() {
            return Ok(Recorded::Refused(refusal));
        }
        let key = IdempotencyKey::new(sequencer, operation, self.terms.form);
        let mut sql = self.of_grant(sequencer);
        sql.push(" AND ")
            .name("operation")
            .push(" = ")
            .text(operation.as_str());
        if let Some(call) = self.first(transaction, sql).await? {
            return match call.request == request {
                true => Ok(Recorded::Again(call)),
                false => Err(CallError::KeyTaken { key }),
            };
        }
        let mut sql = self.of_grant(sequencer);
        if *operation != Operation::Only {
            sql.push(" AND ").name("operation").push(" = ").text("");
        }
        sql.push(" LIMIT 1");
        if self.first(transaction, sql).await?.is_some() {
            return Err(CallError::NotTheOnly { key });
        }
        if let Some(call) = self.left_open(transaction, sequencer).await? {
            return Ok(Recorded::Unsettled(call));
        }
        let call = Call {
            key,
            sequencer: sequencer.clone(),
            operation: operation.clone(),
            request: request.to_owned(),
            state: CallState::Pending,
            attempts: 0,
            recorded_at: now,
            sent_at: None,
        };
        self.insert(transaction, &call).await?;
        Ok(Recorded::New(call))
    }

    /// A call by its key.
    ///
    /// # Errors
    ///
    /// [`CallError::Sql`], [`CallError::Record`].
    pub async fn find(
        &self,
        connection: &mut DB::Connection,
        key: &IdempotencyKey,
    ) -> Result<Option<Call>, CallError> {
        let mut sql = row::select::<DB>(&self.table);
        sql.name("call_key").push(" = ").text(key.as_str());
        self.first(connection, sql).await
    }

    pub(super) async fn first(
        &self,
        connection: &mut DB::Connection,
        sql: Statement<DB>,
    ) -> Result<Option<Call>, CallError> {
        let rows = DB::ask(connection, sql).await?;
        rows.into_iter().next().map(row::read).transpose()
    }

    /// The calls of one grant.
    fn of_grant(&self, sequencer: &Sequencer) -> Statement<DB> {
        let mut sql = row::select::<DB>(&self.table);
        sql.name("resource")
            .push(" = ")
            .text(sequencer.resource.as_str());
        sql.push(" AND ").name("token").push(" = ");
        sql.integer(sequencer.token.as_i64());
        sql
    }

    /// The oldest open call of an earlier grant for the same resource.
    async fn left_open(
        &self,
        connection: &mut DB::Connection,
        sequencer: &Sequencer,
    ) -> Result<Option<Call>, CallError> {
        let mut sql = row::select::<DB>(&self.table);
        sql.name("resource")
            .push(" = ")
            .text(sequencer.resource.as_str());
        sql.push(" AND ").name("token").push(" < ");
        sql.integer(sequencer.token.as_i64()).push(" AND ");
        push_open(&mut sql);
        sql.push(" ORDER BY ")
            .name("token")
            .push(", ")
            .name("recorded_ms");
        sql.push(" LIMIT 1");
        self.first(connection, sql).await
    }

    async fn insert(&self, connection: &mut DB::Connection, call: &Call) -> Result<(), CallError> {
        let mut sql = Statement::<DB>::new("INSERT INTO ");
        sql.push(&self.table.quoted::<DB>()).push(" (");
        let texts = [
            ("call_key", call.key.as_str()),
            ("resource", call.sequencer.resource.as_str()),
            ("issuer", call.sequencer.issuer.as_str()),
            ("operation", call.operation.as_str()),
            ("request", call.request.as_str()),
            ("state", call.state.as_str()),
        ];
        let numbers = [
            ("token", call.sequencer.token.as_i64()),
            ("attempts", i64::from(call.attempts)),
            ("recorded_ms", row::millis(call.recorded_at)),
        ];
        let names = texts.iter().map(|(name, _)| name);
        let names = names.chain(numbers.iter().map(|(name, _)| name));
        sql.list(names, |sql, name| {
            sql.name(name);
        });
        sql.push(") VALUES (");
        sql.list(texts, |sql, (_, text)| {
            sql.text(text);
        });
        sql.push(", ");
        sql.list(numbers, |sql, (_, number)| {
            sql.integer(number);
        });
        sql.push(")");
        DB::execute(connection, sql).await?;
        Ok(())
    }
}

/// `state IN ('pending', 'unknown')`.
pub(super) fn push_open<DB: Dialect>(sql: &mut Statement<DB>) {
    sql.name("state").push(" IN (").text("pending").push(", ");
    sql.text("unknown").push(")");
}

/// PostgreSQL's texts hold no NUL, and a request must be sent again exactly as it was.
fn check(request: &str) -> Result<(), CallError> {
    let limit = REQUEST_BYTES_MAX;
    let reason = match request {
        long if long.len() > limit => "too long",
        nul if nul.contains('\0') => "not plain text",
        _ => return Ok(()),
    };
    Err(CallError::Request { reason, limit })
}

// By hand: a derive would ask the same of `DB`, of which there never is a value.
impl<DB> Clone for Calls<DB> {
    fn clone(&self) -> Self {
        Self {
            table: self.table.clone(),
            guard: self.guard.clone(),
            terms: self.terms.clone(),
        }
    }
}

impl<DB> fmt::Debug for Calls<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls")
            .field("table", &self.table)
            .field("terms", &self.terms)
            .finish_non_exhaustive()
    }
}
