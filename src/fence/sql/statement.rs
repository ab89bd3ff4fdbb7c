//! A statement in the making: its text, and its values in the order in which they stand in it.

use sqlx::{
    Arguments as _, AssertSqlSafe, ColumnIndex, Database, Decode, Encode, Executor, IntoArguments,
    Row as _, Type, error::BoxDynError,
};

use super::{SqlError, dialect::Driver, names};

/// SQL text with bound values.
///
/// Only the code's own words and quoted, checked names become text; whatever a caller gave is a bound
/// value. MySQL has no numbered parameters, so that a value is bound once for each place where it
/// stands.
pub(in crate::fence) struct Statement<DB: Database> {
    sql: String,
    arguments: DB::Arguments,
    /// The first value that could not be encoded; reported before anything is sent.
    failed: Option<BoxDynError>,
}

impl<DB: Driver> Statement<DB> {
    pub(in crate::fence) fn new(sql: impl Into<String>) -> Self {
        Self {
            sql: sql.into(),
            arguments: DB::Arguments::default(),
            failed: None,
        }
    }

    /// Appends text.
    pub(in crate::fence) fn push(&mut self, sql: &str) -> &mut Self {
        self.sql.push_str(sql);
        self
    }

    /// Appends a quoted name.
    pub(in crate::fence) fn name(&mut self, name: &str) -> &mut Self {
        self.push(&names::quoted::<DB>(name))
    }

    /// Appends a place for a value, and binds it.
    pub(in crate::fence) fn bind<'v, V>(&mut self, value: V) -> &mut Self
    where
        V: Encode<'v, DB> + Type<DB>,
    {
        let added = self.arguments.add(value);
        self.bound(added)
    }

    /// As [`Statement::bind`], for a text.
    pub(in crate::fence) fn text(&mut self, value: &str) -> &mut Self {
        let added = DB::add_text(&mut self.arguments, value);
        self.bound(added)
    }

    /// As [`Statement::bind`], for a token or another whole number.
    pub(in crate::fence) fn integer(&mut self, value: i64) -> &mut Self {
        let added = DB::add_integer(&mut self.arguments, value);
        self.bound(added)
    }

    /// Appends items, with a comma between.
    pub(in crate::fence) fn list<T>(
        &mut self,
        items: impl IntoIterator<Item = T>,
        mut item: impl FnMut(&mut Self, T),
    ) -> &mut Self {
        for (n, each) in items.into_iter().enumerate() {
            if n > 0 {
                self.push(", ");
            }
            item(self, each);
        }
        self
    }

    fn bound(&mut self, added: Result<(), BoxDynError>) -> &mut Self {
        if let Err(error) = added {
            self.failed.get_or_insert(error);
        }
        self.arguments
            .format_placeholder(&mut self.sql)
            .expect("writing to a String does not fail");
        self
    }

    fn finish(self) -> Result<(AssertSqlSafe<String>, DB::Arguments), sqlx::Error> {
        match self.failed {
            Some(error) => Err(sqlx::Error::Encode(error)),
            None => Ok((AssertSqlSafe(self.sql), self.arguments)),
        }
    }
}

/// A row of cells, each as text; `None` is NULL.
pub(in crate::fence) type Cells = Vec<Option<String>>;

/// Carries a statement out. What is written once here needs these bounds, which are true of each
/// dialect and which Rust cannot infer from [`Driver`] alone.
pub(in crate::fence) async fn execute<'c, DB, C>(
    connection: C,
    statement: Statement<DB>,
) -> Result<DB::QueryResult, SqlError>
where
    DB: Driver,
    C: Executor<'c, Database = DB>,
    DB::Arguments: IntoArguments<DB>,
{
    let (sql, arguments) = statement.finish()?;
    let done = sqlx::query_with(sql, arguments).execute(connection).await?;
    Ok(done)
}

/// Asks for rows, all of whose columns are text.
pub(in crate::fence) async fn ask<'c, DB, C>(
    connection: C,
    statement: Statement<DB>,
) -> Result<Vec<Cells>, SqlError>
where
    DB: Driver,
    C: Executor<'c, Database = DB>,
    DB::Arguments: IntoArguments<DB>,
    String: for<'r> Decode<'r, DB> + Type<DB>,
    usize: ColumnIndex<DB::Row>,
{
    let (sql, arguments) = statement.finish()?;
    let query = sqlx::query_with(sql, arguments);
    let rows = query.fetch_all(connection).await?;
    let cells = |row: &DB::Row| (0..row.len()).map(|n| row.try_get(n)).collect();
    let rows: Result<_, sqlx::Error> = rows.iter().map(cells).collect();
    Ok(rows?)
}
