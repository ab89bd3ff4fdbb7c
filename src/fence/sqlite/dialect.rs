//! What is SQLite's own.

use sqlx::{Arguments as _, Sqlite, SqliteConnection, error::BoxDynError, sqlite::SqliteArguments};

use crate::fence::enforcement;
use crate::fence::sql::{
    Cells, Class, Column, Dialect, Driver, Identifier, Shape, SqlError, Statement, TableName,
    Upsert, ask, by_index, carries_out, quoted,
};

impl Dialect for Sqlite {}

impl Driver for Sqlite {
    const KIND: enforcement::Dialect = enforcement::Dialect::Sqlite;
    const CLOCK_US: &'static str =
        "(CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) * 1000)";
    const QUOTE: char = '"';
    const SCHEMAS: bool = false;
    const UPSERT: Upsert = Upsert::OnConflict;
    // Who writes has the only write lock, and an old snapshot cannot get it.
    const NEWEST: &'static str = "";
    const MAY_COUNT_CHANGED: bool = false;

    fn add_text(arguments: &mut SqliteArguments, value: &str) -> Result<(), BoxDynError> {
        arguments.add(value)
    }

    fn add_integer(arguments: &mut SqliteArguments, value: i64) -> Result<(), BoxDynError> {
        arguments.add(value)
    }

    /// INTEGER affinity keeps what it cannot convert, so that a text or a float may be stored where
    /// a mark belongs. It is shown as it is, so that it does not read as a number.
    fn number_as_text(column: &str) -> String {
        format!(
            "CASE typeof({column}) WHEN 'integer' THEN CAST({column} AS TEXT) \
             WHEN 'null' THEN NULL ELSE typeof({column}) || ' ' || substr(quote({column}), 1, 80) END"
        )
    }

    carries_out!(SqliteConnection);

    async fn shape(
        connection: &mut SqliteConnection,
        table: &TableName,
        key: &[Identifier],
    ) -> Result<Shape, SqlError> {
        let columns = columns(connection, table).await?;
        let mut shape = Shape {
            unfit: kind(connection, table).await?,
            unique: unique(connection, table).await?,
            ..Shape::default()
        };
        let primary = columns.iter().filter(|column| column.primary);
        shape
            .unique
            .push(primary.map(|column| column.name.clone()).collect());
        for found in columns {
            let is_key = key.iter().any(|name| Self::is_column(&found.name, name));
            let unfit_for_keys = match is_key {
                true => unfit_for_keys(connection, table, &found).await?,
                false => None,
            };
            shape.columns.push(Column {
                class: Class::Other,
                unfit_for_tokens: unfit_for_tokens(&found),
                unfit_for_keys,
                name: found.name,
            });
        }
        Ok(shape)
    }

    fn marks_sql(table: &TableName) -> String {
        // STRICT, so that no tool can put text where a number must compare. The resource compares
        // byte for byte (BINARY is the default collation): two names must never share a mark.
        format!(
            "CREATE TABLE IF NOT EXISTS {} (\n    \
                 \"resource\" TEXT NOT NULL PRIMARY KEY,\n    \
                 \"issuer\" TEXT NOT NULL,\n    \
                 \"token\" INTEGER NOT NULL CHECK (\"token\" > 0)\n\
             ) STRICT, WITHOUT ROWID",
            table.quoted::<Self>()
        )
    }
}

/// One column, as SQLite's catalogue has it.
struct Found {
    name: String,
    declared: String,
    not_null: bool,
    primary: bool,
    generated: bool,
}

async fn columns(
    connection: &mut SqliteConnection,
    table: &TableName,
) -> Result<Vec<Found>, SqlError> {
    let mut sql = Statement::<Sqlite>::new(
        "SELECT name, type, \"notnull\" || '', (pk > 0) || '', (hidden > 1) || '' \
         FROM pragma_table_xinfo(",
    );
    sql.text(table.table.name()).push(")");
    let rows = ask(connection, sql).await?;
    let found = |cells: Cells| {
        let mut cells = cells.into_iter().map(Option::unwrap_or_default);
        let mut next = || cells.next().unwrap_or_default();
        Found {
            name: next(),
            declared: next(),
            not_null: next() == "1",
            primary: next() == "1",
            generated: next() == "1",
        }
    };
    Ok(rows.into_iter().map(found).collect())
}

/// Why the table is of a kind that cannot be guarded. A view would take the write and do whatever its
/// triggers do.
async fn kind(
    connection: &mut SqliteConnection,
    table: &TableName,
) -> Result<Option<String>, SqlError> {
    let mut sql = Statement::<Sqlite>::new(
        "SELECT type FROM sqlite_schema WHERE type IN ('table', 'view') AND name = ",
    );
    sql.text(table.table.name()).push(" COLLATE NOCASE");
    let rows = ask(connection, sql).await?;
    let kind = rows.into_iter().flatten().flatten().next();
    Ok(match kind.as_deref() {
        Some("table") => None,
        Some(kind) => Some(format!("it is a {kind}")),
        None => Some("it is not in the main database, and so not seen by others".to_owned()),
    })
}

/// The unique indexes over whole columns and all rows, as far as they compare byte for byte.
async fn unique(
    connection: &mut SqliteConnection,
    table: &TableName,
) -> Result<Vec<Vec<String>>, SqlError> {
    let mut sql = Statement::<Sqlite>::new("SELECT list.name, info.name FROM pragma_index_list(");
    sql.text(table.table.name()).push(
        ") AS list JOIN pragma_index_xinfo(list.name) AS info \
         WHERE list.\"unique\" = 1 AND list.partial = 0 AND info.key = 1 \
         ORDER BY list.seq, info.seqno",
    );
    let rows = ask(connection, sql).await?.into_iter();
    let pair = |cells: Cells| {
        let mut cells = cells.into_iter();
        let index = cells.next().flatten().unwrap_or_default();
        (index, cells.next().flatten())
    };
    Ok(by_index(rows.map(pair)))
}

/// Whether two texts that differ are equal in this column: asked of SQLite itself, in the way that its
/// documentation gives for compound selects, where the collation is that of the leftmost column. An
/// index of the column may have a collation of its own, which a conflict is judged by.
async fn unfit_for_keys(
    connection: &mut SqliteConnection,
    table: &TableName,
    column: &Found,
) -> Result<Option<String>, SqlError> {
    let mut sql = Statement::<Sqlite>::new("SELECT count(*) || '' FROM (SELECT ");
    sql.name(&column.name)
        .push(" FROM ")
        .push(&quoted::<Sqlite>(table.table.name()));
    sql.push(" WHERE 0 UNION SELECT 'a' UNION SELECT 'A' UNION SELECT 'a ' UNION SELECT 'á')");
    let distinct = ask(&mut *connection, sql)
        .await?
        .into_iter()
        .flatten()
        .flatten()
        .next();
    let mut sql = Statement::<Sqlite>::new("SELECT coll FROM pragma_index_list(");
    sql.text(table.table.name()).push(
        ") AS list JOIN pragma_index_xinfo(list.name) AS info \
         WHERE list.\"unique\" = 1 AND info.key = 1 AND coll <> 'BINARY' AND info.name = ",
    );
    sql.text(&column.name).push(" COLLATE NOCASE");
    let indexed = ask(connection, sql).await?;
    let exact = distinct.as_deref() == Some("4") && indexed.is_empty();
    Ok((!exact).then(|| {
        "has a collation (NOCASE, say) under which different names are equal; declare it and its \
         index COLLATE BINARY"
            .to_owned()
    }))
}

fn unfit_for_tokens(column: &Found) -> Option<String> {
    // SQLite's rule for INTEGER affinity (datatype3.html, section 3.1). Any other compares tokens as
    // text, or rounds them.
    let Found { declared, .. } = column;
    if !declared.to_ascii_uppercase().contains("INT") {
        return Some(format!(
            "is declared \"{declared}\"; declare it INTEGER NOT NULL DEFAULT 0, since tokens must \
             compare as whole numbers"
        ));
    }
    if column.generated {
        return Some("is generated from others, and cannot be written".to_owned());
    }
    (!column.not_null).then(|| {
        "may be NULL, and a row with a NULL mark refuses every write; declare it INTEGER NOT NULL \
         DEFAULT 0"
            .to_owned()
    })
}
