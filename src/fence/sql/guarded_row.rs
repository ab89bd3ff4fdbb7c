//! One write to a row that carries its own mark: building it, and what "no rows" meant.

use std::fmt;

use sqlx::{Encode, Type, TypeInfo as _, encode::IsNull};

use crate::{
    fence::{Foreign, enforcement::Refused},
    token::TokenValue,
};

use super::{
    Dialect, SqlError, WriteOutcome, dialect::Upsert, guarded_table::Carries, names::Identifier,
    statement::Statement, stored,
};

/// Rounds of statement and question. Each beyond the first means that the row changed between the two;
/// so many in a row mean that something else keeps the write from happening.
const ROUNDS_MAX: usize = 8;

/// A value that waits to be bound, as often as its statement has a place for it.
pub(super) type Value<'v, DB> = Box<dyn Fn(&mut Statement<DB>) + Send + Sync + 'v>;

/// A write in the making: name every key value, in the order of the key columns, then the columns
/// to set, then [`update`](RowWrite::update) or [`upsert`](RowWrite::upsert).
///
/// Both work on a plain connection and inside the caller's transaction; there, nothing is kept
/// until the caller commits.
pub struct RowWrite<'t, DB: Dialect> {
    pub(super) table: &'t Carries,
    pub(super) presented: TokenValue,
    foreign: Option<Foreign>,
    pub(super) key: Vec<Value<'t, DB>>,
    pub(super) columns: Vec<(Identifier, Value<'t, DB>)>,
    /// The column that counts versions, and the one that must be found there.
    pub(super) version: Option<(Identifier, i64)>,
    /// The first mistake made while building; reported before anything is sent.
    mistake: Option<SqlError>,
}

/// What a row turned out to be after a statement met none.
enum Found {
    Missing,
    Refuses(WriteOutcome),
    /// The write may pass; with `equal` the mark is already the presented token.
    Allows {
        equal: bool,
    },
}

impl<'t, DB: Dialect> RowWrite<'t, DB> {
    pub(super) fn new(table: &'t Carries, presented: TokenValue, foreign: Option<Foreign>) -> Self {
        Self {
            table,
            presented,
            foreign,
            key: Vec::new(),
            columns: Vec::new(),
            version: None,
            mistake: None,
        }
    }

    /// The value of the next key column, which is not NULL.
    #[must_use]
    pub fn key<V>(mut self, value: V) -> Self
    where
        V: Encode<'t, DB> + Type<DB> + Send + Sync + 't,
    {
        let Some(&class) = self.table.classes.get(self.key.len()) else {
            return self.wrong("it has more key values than the table has key columns");
        };
        let kind = value.produces().unwrap_or_else(V::type_info);
        if !DB::compares(class, &kind) {
            let column = &self.table.key[self.key.len()];
            let reason = format!(
                "key column {column} does not compare exactly with a value of type {}",
                kind.name()
            );
            return self.wrong(&reason);
        }
        let mut encoded = DB::ArgumentBuffer::default();
        // What cannot be encoded is told of when its statement is made.
        if let Ok(IsNull::Yes) = value.encode_by_ref(&mut encoded) {
            let column = &self.table.key[self.key.len()];
            let reason = format!(
                "key column {column} is given NULL, which names no row: any number of rows may have it"
            );
            return self.wrong(&reason);
        }
        self.key.push(Box::new(move |statement| {
            statement.bind(&value);
        }));
        self
    }

    /// Sets a column to a value.
    #[must_use]
    pub fn set<V>(mut self, column: &str, value: V) -> Self
    where
        V: Encode<'t, DB> + Type<DB> + Send + Sync + 't,
    {
        match self.free(column) {
            Ok(column) => self.columns.push((
                column,
                Box::new(move |statement| {
                    statement.bind(&value);
                }),
            )),
            Err(mistake) => drop(self.mistake.get_or_insert(mistake)),
        }
        self
    }

    /// Writes only if `column` still holds `version`, and then counts it up, in the same statement as
    /// the check of the token. For writers that share a lease, or that read the row before they had
    /// one. For [`update`](RowWrite::update) alone: a row that is not there has no version.
    #[must_use]
    pub fn expecting(mut self, column: &str, version: i64) -> Self {
        let free = self.free(column);
        match (free, version.checked_add(1)) {
            (Ok(_), _) if self.version.is_some() => self.wrong("it expects two versions"),
            (Ok(_), None) => self.wrong("no version can follow the one that it expects"),
            (Ok(column), Some(_)) => {
                self.version = Some((column, version));
                self
            }
            (Err(mistake), _) => {
                self.mistake.get_or_insert(mistake);
                self
            }
        }
    }

    /// Writes the row if it is there and its mark allows.
    ///
    /// # Errors
    ///
    /// [`SqlError::Write`] or [`SqlError::Identifier`] for a mistake in building the write,
    /// [`SqlError::Mark`] for a row whose mark is no token, [`SqlError::Database`].
    pub async fn update(self, connection: &mut DB::Connection) -> Result<WriteOutcome, SqlError> {
        self.run(connection, false).await
    }

    /// Writes the row, or makes it if it is not there, if its mark allows.
    ///
    /// # Errors
    ///
    /// As [`RowWrite::update`].
    pub async fn upsert(self, connection: &mut DB::Connection) -> Result<WriteOutcome, SqlError> {
        if self.version.is_some() {
            let reason = "an expected version is for `update`: a row that is not there has none";
            return self.wrong(reason).run(connection, true).await;
        }
        self.run(connection, true).await
    }

    /// Tells what became of the caller's own conditional statement on this row, from the number of
    /// rows that it changed. Only the key values need be named, and the version if one is expected.
    ///
    /// Run the statement and this in one transaction; otherwise the row may have changed between. In
    /// MySQL's dialect a client may count rows that were found, or only those that were changed, so
    /// that no row may be the same values once more; if the row carries the presented token, that is
    /// what it is taken for.
    ///
    /// # Errors
    ///
    /// As [`RowWrite::update`].
    pub async fn explain(
        mut self,
        rows_changed: u64,
        connection: &mut DB::Connection,
    ) -> Result<WriteOutcome, SqlError> {
        if let Some(outcome) = self.settled_before(false)? {
            return Ok(outcome);
        }
        if rows_changed > 0 {
            return Ok(WriteOutcome::Written);
        }
        match self.look(connection).await? {
            Found::Missing => Ok(WriteOutcome::NoSuchRow),
            Found::Refuses(outcome) => Ok(outcome),
            Found::Allows { equal: true } if DB::MAY_COUNT_CHANGED => Ok(WriteOutcome::Written),
            Found::Allows { .. } => Err(self.prevented()),
        }
    }

    /// Statement, and question if it met no row. Without a transaction the row may change between the
    /// two; then the question finds that the write may pass after all, and it is tried again. Marks
    /// only rise, so that any refusal found is one that the write would have met at that moment.
    async fn run(
        mut self,
        connection: &mut DB::Connection,
        or_insert: bool,
    ) -> Result<WriteOutcome, SqlError> {
        if let Some(outcome) = self.settled_before(true)? {
            return Ok(outcome);
        }
        let on_conflict = or_insert && DB::UPSERT == Upsert::OnConflict;
        let mut met_another = None;
        for round in 0..ROUNDS_MAX {
            let statement = match on_conflict {
                true => self.upsert_statement(),
                false => self.update_statement(),
            };
            match DB::execute(connection, statement).await {
                Ok(0) => {}
                Ok(_) => return Ok(WriteOutcome::Written),
                Err(error) => return self.refused_or(error),
            }
            match self.look(connection).await? {
                Found::Refuses(outcome) => return Ok(outcome),
                Found::Missing if !or_insert => return Ok(WriteOutcome::NoSuchRow),
                Found::Missing if !on_conflict => {
                    // Met twice with no row of ours between: it is another unique key's row.
                    if let Some(error) = met_another.take() {
                        return Err(error);
                    }
                    match DB::execute(connection, self.insert_statement()).await {
                        Ok(_) => return Ok(WriteOutcome::Written),
                        Err(error) if error.met_a_row() => met_another = Some(error),
                        Err(error) => return self.refused_or(error),
                    }
                }
                Found::Allows { equal: true } if DB::MAY_COUNT_CHANGED && round > 0 => {
                    return Ok(WriteOutcome::Written);
                }
                Found::Missing | Found::Allows { .. } => {}
            }
        }
        Err(self.prevented())
    }

    /// Where triggers judge as well, they may do so first: SQLite's see an upsert as an INSERT, and one
    /// that knows the mark of a row that was deleted refuses what meets no row.
    fn refused_or(&self, error: SqlError) -> Result<WriteOutcome, SqlError> {
        let Some(Refused::Stale { required, .. }) = error.refused() else {
            return Err(error);
        };
        let required = TokenValue::new(required).map_err(|_| error)?;
        Ok(WriteOutcome::Stale {
            presented: self.presented,
            required,
        })
    }

    /// Asks why a guarded statement met no row.
    async fn look(&self, connection: &mut DB::Connection) -> Result<Found, SqlError> {
        let rows = DB::ask(connection, self.question()).await?;
        let Some(cells) = rows.into_iter().next() else {
            return Ok(Found::Missing);
        };
        let mut cells = cells.into_iter();
        let mark = stored::mark(&self.table.table, cells.next().flatten())?;
        let rules = &self.table.rules;
        if let Some(mark) = mark.filter(|mark| !rules.passes(self.presented, *mark)) {
            return Ok(Found::Refuses(WriteOutcome::Stale {
                presented: self.presented,
                required: rules.required(mark),
            }));
        }
        if let Some((column, expected)) = &self.version {
            let found = stored::version(&self.table.table, column, cells.next().flatten())?;
            if found != *expected {
                let expected = *expected;
                let conflict = WriteOutcome::VersionConflict { expected, found };
                return Ok(Found::Refuses(conflict));
            }
        }
        let equal = mark == Some(self.presented) && self.version.is_none();
        Ok(Found::Allows { equal })
    }

    /// The outcome that is known before any statement: a mistake, or a foreign sequencer.
    fn settled_before(&mut self, sets: bool) -> Result<Option<WriteOutcome>, SqlError> {
        if let Some(mistake) = self.mistake.take() {
            return Err(mistake);
        }
        if self.key.len() < self.table.key.len() {
            return Err(self.incomplete("it has fewer key values than the table has key columns"));
        }
        if sets && self.columns.is_empty() {
            return Err(self.incomplete("it sets no column"));
        }
        Ok(self.foreign.take().map(WriteOutcome::Foreign))
    }

    /// A column that may be set: not the key nor the mark, which are set by themselves, and not twice.
    fn free(&self, column: &str) -> Result<Identifier, SqlError> {
        let column = Identifier::column(column)?;
        if self.key.len() < self.table.key.len() {
            return Err(self.incomplete("name the key values before the columns to set"));
        }
        let set = self.columns.iter().map(|(column, _)| column);
        let fixed = self.table.key.iter().chain([&self.table.token]);
        let version = self.version.iter().map(|(column, _)| column);
        let mut taken = fixed.chain(set).chain(version);
        if taken.any(|other| other.name().eq_ignore_ascii_case(column.name())) {
            return Err(self.incomplete(&format!("column {column} is set already")));
        }
        Ok(column)
    }

    fn wrong(mut self, reason: &str) -> Self {
        let mistake = self.incomplete(reason);
        self.mistake.get_or_insert(mistake);
        self
    }

    fn incomplete(&self, reason: &str) -> SqlError {
        SqlError::Write {
            table: self.table.table.shown(),
            reason: reason.to_owned(),
        }
    }

    fn prevented(&self) -> SqlError {
        self.table.table.unfit(format!(
            "token {} may write this row, and yet nothing was written; a trigger may stand in the \
             way",
            self.presented
        ))
    }
}

impl<DB: Dialect> fmt::Debug for RowWrite<'_, DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns: Vec<_> = self.columns.iter().map(|(column, _)| column).collect();
        f.debug_struct("RowWrite")
            .field("table", &self.table.table)
            .field("presented", &self.presented)
            .field("columns", &columns)
            .finish_non_exhaustive()
    }
}
