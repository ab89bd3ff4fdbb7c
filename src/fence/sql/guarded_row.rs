//! One write to a row that carries its own mark: the statement, and what "no rows" meant.

use std::fmt::Write as _;

use sqlx::{
    Arguments as _, AssertSqlSafe, Connection as _, Encode, Row as _, Sqlite, SqliteConnection,
    Type, sqlite::SqliteArguments,
};

use crate::{fence::Foreign, token::TokenValue};

use super::{GuardedTable, SqlError, comparison::comparison, identifier::Identifier};

/// What became of a write to a row that carries its own mark.
#[must_use = "only `Written` has had an effect"]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteOutcome {
    /// The row was written, and its mark is now the presented token.
    Written,
    /// A newer holder has written this row. Nothing was changed.
    Stale {
        /// The token that was presented.
        presented: TokenValue,
        /// The lowest token with which this row can be written.
        required: TokenValue,
    },
    /// There is no row with this key. Nothing was changed.
    NoSuchRow,
    /// The sequencer belongs elsewhere, and was not compared. Nothing was changed.
    Foreign(Foreign),
}

/// A write in the making: name every key value, in the order of the key columns, then the columns
/// to set, then [`update`](RowWrite::update) or [`upsert`](RowWrite::upsert).
///
/// Both work on a plain connection and inside the caller's transaction; there, nothing is kept
/// until the caller commits.
#[derive(Debug)]
pub struct RowWrite<'t> {
    table: &'t GuardedTable,
    presented: TokenValue,
    foreign: Option<Foreign>,
    /// The key values alone, for asking what became of a write.
    key: SqliteArguments,
    key_len: usize,
    /// The values of `columns`, in their order.
    values: SqliteArguments,
    columns: Vec<Identifier>,
    /// The first mistake made while building; reported before anything is sent.
    mistake: Option<SqlError>,
}

impl<'t> RowWrite<'t> {
    pub(super) fn new(
        table: &'t GuardedTable,
        presented: TokenValue,
        foreign: Option<Foreign>,
    ) -> Self {
        Self {
            table,
            presented,
            foreign,
            key: SqliteArguments::default(),
            key_len: 0,
            values: SqliteArguments::default(),
            columns: Vec::new(),
            mistake: None,
        }
    }

    /// The value of the next key column.
    #[must_use]
    pub fn key<'v, V: Encode<'v, Sqlite> + Type<Sqlite>>(mut self, value: V) -> Self {
        if self.key_len == self.table.key.len() {
            return self.wrong("it has more key values than the table has key columns");
        }
        self.key_len += 1;
        match self.key.add(&value).and_then(|()| self.values.add(value)) {
            Ok(()) => self,
            Err(error) => self.wrong(&error.to_string()),
        }
    }

    /// Sets a column to a value.
    #[must_use]
    pub fn set<'v, V: Encode<'v, Sqlite> + Type<Sqlite>>(mut self, column: &str, value: V) -> Self {
        let column = match Identifier::column(column) {
            Ok(column) => column,
            Err(error) => {
                self.mistake.get_or_insert(error);
                return self;
            }
        };
        if self.key_len < self.table.key.len() {
            return self.wrong("name the key values before the columns to set");
        }
        if self.is_taken(&column) {
            let reason = format!("column {column} is set already");
            return self.wrong(&reason);
        }
        self.columns.push(column);
        match self.values.add(value) {
            Ok(()) => self,
            Err(error) => self.wrong(&error.to_string()),
        }
    }

    /// Writes the row if it is there and its mark allows.
    ///
    /// # Errors
    ///
    /// [`SqlError::Write`] or [`SqlError::Identifier`] for a mistake in building the write,
    /// [`SqlError::Mark`] for a row whose mark is no token, [`SqlError::Database`].
    pub async fn update(self, connection: &mut SqliteConnection) -> Result<WriteOutcome, SqlError> {
        let sql = self.update_sql();
        self.run(connection, sql).await
    }

    /// Writes the row, or makes it if it is not there, if its mark allows.
    ///
    /// # Errors
    ///
    /// As [`RowWrite::update`].
    pub async fn upsert(self, connection: &mut SqliteConnection) -> Result<WriteOutcome, SqlError> {
        let sql = self.upsert_sql();
        self.run(connection, sql).await
    }

    /// Tells what became of the caller's own conditional statement on this row, from the number of
    /// rows that it changed. Only the key values need be named.
    ///
    /// Run the statement and this in one transaction; otherwise the row may have changed between.
    ///
    /// # Errors
    ///
    /// As [`RowWrite::update`].
    pub async fn explain(
        self,
        rows_changed: u64,
        connection: &mut SqliteConnection,
    ) -> Result<WriteOutcome, SqlError> {
        let mut this = self;
        if let Some(outcome) = this.settled_before(false)? {
            return Ok(outcome);
        }
        match rows_changed {
            0 => this.why_nothing(connection).await,
            _ => Ok(WriteOutcome::Written),
        }
    }

    async fn run(
        mut self,
        connection: &mut SqliteConnection,
        sql: String,
    ) -> Result<WriteOutcome, SqlError> {
        if let Some(outcome) = self.settled_before(true)? {
            return Ok(outcome);
        }
        self.values
            .add(self.presented.as_i64())
            .map_err(sqlx::Error::Encode)?;
        if self.execute(connection, &sql).await? > 0 {
            return Ok(WriteOutcome::Written);
        }
        if connection.is_in_transaction() {
            return self.why_nothing(connection).await;
        }
        // Nothing was changed, and outside a transaction the row may change before we ask why. So
        // once more, with the write lock held from the statement to the question.
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
        let outcome = match self.execute(&mut transaction, &sql).await? {
            0 => self.why_nothing(&mut transaction).await?,
            _ => WriteOutcome::Written,
        };
        transaction.commit().await?;
        Ok(outcome)
    }

    async fn execute(&self, connection: &mut SqliteConnection, sql: &str) -> Result<u64, SqlError> {
        // Only checked identifiers and numbered parameters are spliced into the statement.
        let done = sqlx::query_with(AssertSqlSafe(sql), self.values.clone())
            .execute(connection)
            .await?;
        Ok(done.rows_affected())
    }

    /// The outcome that is known before any statement: a mistake, or a foreign sequencer.
    fn settled_before(&mut self, sets: bool) -> Result<Option<WriteOutcome>, SqlError> {
        if let Some(mistake) = self.mistake.take() {
            return Err(mistake);
        }
        if self.key_len < self.table.key.len() {
            return Err(self.incomplete("it has fewer key values than the table has key columns"));
        }
        if sets && self.columns.is_empty() {
            return Err(self.incomplete("it sets no column"));
        }
        Ok(self.foreign.take().map(WriteOutcome::Foreign))
    }

    /// Why a guarded statement changed no row, asked in the transaction in which it ran.
    async fn why_nothing(
        &self,
        connection: &mut SqliteConnection,
    ) -> Result<WriteOutcome, SqlError> {
        let sql = self.why_sql();
        let row = sqlx::query_with(AssertSqlSafe(sql), self.key.clone())
            .fetch_optional(connection)
            .await?;
        let Some(row) = row else {
            return Ok(WriteOutcome::NoSuchRow);
        };
        let mark = self.mark(row.try_get(0)?, row.try_get(1)?)?;
        let rules = &self.table.rules;
        match mark {
            Some(mark) if !rules.passes(self.presented, mark) => Ok(WriteOutcome::Stale {
                presented: self.presented,
                required: rules.required(mark),
            }),
            _ => Err(SqlError::Unfit {
                table: self.table.table.name().to_owned(),
                reason: format!(
                    "token {} may write this row, and yet nothing was written; a trigger may \
                     stand in the way",
                    self.presented
                ),
            }),
        }
    }

    /// A mark as it is stored. Zero, the column's default, is below every token and so no mark yet.
    fn mark(&self, stored_as: &str, shown: String) -> Result<Option<TokenValue>, SqlError> {
        let number = match stored_as {
            "integer" => shown.parse::<u64>().ok(),
            _ => None,
        };
        let mark = match number {
            Some(0) => return Ok(None),
            Some(number) => TokenValue::new(number).ok(),
            None => None,
        };
        mark.map(Some).ok_or_else(|| SqlError::Mark {
            table: self.table.table.name().to_owned(),
            found: shown,
        })
    }

    /// Whether a column is set already, or is the key or the mark, which are set by themselves.
    fn is_taken(&self, column: &Identifier) -> bool {
        let fixed = self.table.key.iter().chain([&self.table.token]);
        fixed
            .chain(&self.columns)
            .any(|other| other.name().eq_ignore_ascii_case(column.name()))
    }

    fn wrong(mut self, reason: &str) -> Self {
        let mistake = self.incomplete(reason);
        self.mistake.get_or_insert(mistake);
        self
    }

    fn incomplete(&self, reason: &str) -> SqlError {
        SqlError::Write {
            table: self.table.table.name().to_owned(),
            reason: reason.to_owned(),
        }
    }
}

/// The statements. Parameters are numbered: the key values, the values, then the token.
impl RowWrite<'_> {
    fn update_sql(&self) -> String {
        let GuardedTable { table, token, .. } = self.table;
        let (first, last) = (self.table.key.len() + 1, self.token_parameter());
        let mut sql = format!("UPDATE {table} SET ");
        for (n, column) in self.columns.iter().enumerate() {
            let _ = write!(sql, "{column} = ?{}, ", first + n);
        }
        let _ = write!(sql, "{token} = ?{last} WHERE ");
        let _ = write!(
            sql,
            "{} AND {table}.{token} {} ?{last}",
            self.key_matches(),
            comparison(&self.table.rules)
        );
        sql
    }

    fn upsert_sql(&self) -> String {
        let GuardedTable {
            table, token, key, ..
        } = self.table;
        let list =
            |columns: &mut dyn Iterator<Item = String>| columns.collect::<Vec<_>>().join(", ");
        let all = key.iter().chain(&self.columns).chain([token]);
        let updated = self.columns.iter().chain([token]);
        format!(
            "INSERT INTO {table} ({}) VALUES ({}) ON CONFLICT ({}) DO UPDATE SET {} \
             WHERE {table}.{token} {} excluded.{token}",
            list(&mut all.map(ToString::to_string)),
            list(&mut (1..=self.token_parameter()).map(|n| format!("?{n}"))),
            list(&mut key.iter().map(ToString::to_string)),
            list(&mut updated.map(|column| format!("{column} = excluded.{column}"))),
            comparison(&self.table.rules),
        )
    }

    fn why_sql(&self) -> String {
        let GuardedTable { table, token, .. } = self.table;
        format!(
            "SELECT typeof({table}.{token}), substr(quote({table}.{token}), 1, 80) FROM {table} WHERE {}",
            self.key_matches()
        )
    }

    fn key_matches(&self) -> String {
        let GuardedTable { table, key, .. } = self.table;
        let one = |(n, column): (usize, &Identifier)| format!("{table}.{column} = ?{}", n + 1);
        key.iter()
            .enumerate()
            .map(one)
            .collect::<Vec<_>>()
            .join(" AND ")
    }

    fn token_parameter(&self) -> usize {
        self.table.key.len() + self.columns.len() + 1
    }
}
