//! PostgreSQL's dialect of the SQL guards.
//!
//! READ UNCOMMITTED is READ COMMITTED there. At REPEATABLE READ and SERIALIZABLE a statement that
//! meets a row, or a mark, which changed since the transaction's snapshot fails with 40001: run the
//! transaction again.

use sqlx::{Arguments as _, PgConnection, Postgres, error::BoxDynError, postgres::PgArguments};

use super::enforcement;
use super::sql::{
    Cells, Class, Column, Dialect, Driver, Identifier, Shape, SqlError, Statement, TableName,
    Upsert, ask, by_index, carries_out,
};

impl Dialect for Postgres {}

impl Driver for Postgres {
    const KIND: enforcement::Dialect = enforcement::Dialect::Postgres;
    const CLOCK_US: &'static str =
        "CAST(extract(epoch FROM clock_timestamp()) * 1000000 AS bigint)";
    const QUOTE: char = '"';
    const SCHEMAS: bool = true;
    const UPSERT: Upsert = Upsert::OnConflict;
    // Each statement sees what is newest, or, with a snapshot, fails where a newer row is.
    const NEWEST: &'static str = "";
    const MAY_COUNT_CHANGED: bool = false;

    fn add_text(arguments: &mut PgArguments, value: &str) -> Result<(), BoxDynError> {
        arguments.add(value)
    }

    fn add_integer(arguments: &mut PgArguments, value: i64) -> Result<(), BoxDynError> {
        arguments.add(value)
    }

    /// Quoted names are exact there: `"Id"` and `"id"` are two columns.
    fn is_column(catalogued: &str, name: &Identifier) -> bool {
        catalogued == name.name()
    }

    fn number_as_text(column: &str) -> String {
        format!("CAST({column} AS text)")
    }

    carries_out!(PgConnection);

    async fn shape(
        connection: &mut PgConnection,
        table: &TableName,
        _key: &[Identifier],
    ) -> Result<Shape, SqlError> {
        let Some(oid) = oid(connection, table).await? else {
            return Ok(Shape::default());
        };
        let (schema, unfit) = kind(connection, &oid).await?;
        Ok(Shape {
            schema: Some(schema),
            unfit,
            columns: columns(connection, &oid).await?,
            unique: unique(connection, &oid).await?,
        })
    }

    fn marks_sql(table: &TableName) -> String {
        // The lock, because two sessions that make the same table at once would otherwise fail on
        // each other in the catalogue, IF NOT EXISTS or not. "C" compares bytes: two names must never
        // share a mark.
        format!(
            "SELECT pg_advisory_xact_lock(hashtext('fencepost marks'));\n\
             CREATE TABLE IF NOT EXISTS {} (\n    \
                 \"resource\" text COLLATE \"C\" NOT NULL PRIMARY KEY,\n    \
                 \"issuer\" text COLLATE \"C\" NOT NULL,\n    \
                 \"token\" bigint NOT NULL CHECK (\"token\" > 0)\n\
             );\n",
            table.quoted::<Self>()
        )
    }
}

/// The table's number, found as PostgreSQL finds it: in the schema that was given, or along the search
/// path.
async fn oid(connection: &mut PgConnection, table: &TableName) -> Result<Option<String>, SqlError> {
    let mut sql = Statement::<Postgres>::new("SELECT CAST(CAST(to_regclass(");
    sql.text(&table.quoted::<Postgres>())
        .push(") AS oid) AS text)");
    let rows = ask(connection, sql).await?;
    Ok(rows.into_iter().flatten().flatten().next())
}

/// The schema in which the table is, and why a table of its kind cannot be guarded.
async fn kind(
    connection: &mut PgConnection,
    oid: &str,
) -> Result<(String, Option<String>), SqlError> {
    let mut sql = Statement::<Postgres>::new(
        "SELECT CAST(n.nspname AS text), CAST(c.relkind AS text), CAST(c.relpersistence AS text), \
         CAST(EXISTS (SELECT 1 FROM pg_inherits WHERE inhparent = c.oid) AS text) \
         FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = CAST(",
    );
    sql.text(oid).push(" AS oid)");
    let mut cells = ask(connection, sql).await?.into_iter().flatten();
    let mut next = || cells.next().flatten().unwrap_or_default();
    let (schema, kind, persistence, has_heirs) = (next(), next(), next(), next());
    let unfit = match (kind.as_str(), persistence.as_str()) {
        (_, "u") => Some("it is UNLOGGED: a crash empties it, and its marks are forgotten"),
        (_, "t") => Some("it is temporary, and so not seen by others"),
        ("p", _) => None,
        ("r", _) if has_heirs == "true" => {
            Some("other tables inherit from it, and a key is unique in each of them alone")
        }
        ("r", _) => None,
        _ => Some("it is no table, but a view or something foreign"),
    };
    Ok((schema, unfit.map(str::to_owned)))
}

async fn columns(connection: &mut PgConnection, oid: &str) -> Result<Vec<Column>, SqlError> {
    let mut sql = Statement::<Postgres>::new(
        "SELECT CAST(a.attname AS text), format_type(a.atttypid, a.atttypmod), \
         CAST(a.attnotnull AS text), CAST(a.attgenerated <> '' OR a.attidentity = 'a' AS text), \
         CAST(base.typcategory AS text), CAST(base.typname AS text), \
         CAST(coalesce(l.collisdeterministic, true) AS text) \
         FROM pg_attribute a JOIN pg_type t ON t.oid = a.atttypid \
         JOIN pg_type base ON base.oid = CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.oid END \
         LEFT JOIN pg_collation l ON l.oid = a.attcollation \
         WHERE a.attnum > 0 AND NOT a.attisdropped AND a.attrelid = CAST(",
    );
    sql.text(oid).push(" AS oid) ORDER BY a.attnum");
    let rows = ask(connection, sql).await?;
    let column = |cells: Cells| {
        let mut cells = cells.into_iter().map(Option::unwrap_or_default);
        let mut next = || cells.next().unwrap_or_default();
        let (name, declared, not_null, generated) = (next(), next(), next(), next());
        let (category, base, deterministic) = (next(), next(), next());
        Column {
            name,
            class: Class::Other,
            unfit_for_tokens: unfit_for_tokens(&declared, not_null == "true", generated == "true"),
            unfit_for_keys: unfit_for_keys(&declared, &category, &base, deterministic == "true"),
        }
    };
    Ok(rows.into_iter().map(column).collect())
}

fn unfit_for_tokens(declared: &str, not_null: bool, generated: bool) -> Option<String> {
    if declared != "bigint" {
        return Some(format!(
            "is declared {declared}; declare it bigint NOT NULL DEFAULT 0, since tokens are whole \
             numbers of up to 63 bits"
        ));
    }
    if generated {
        return Some("is generated, and cannot be written".to_owned());
    }
    (!not_null).then(|| {
        "may be NULL, and a row with a NULL mark refuses every write; declare it bigint NOT NULL \
         DEFAULT 0"
            .to_owned()
    })
}

/// Texts that differ and are equal would let a holder of one resource write another's row.
fn unfit_for_keys(
    declared: &str,
    category: &str,
    base: &str,
    deterministic: bool,
) -> Option<String> {
    if ["A", "C", "R"].contains(&category) {
        return Some(format!(
            "is declared {declared}, made of parts for which different values may be equal; use \
             columns of their own, or text"
        ));
    }
    if category != "S" {
        return None;
    }
    if !["text", "varchar", "name"].contains(&base) {
        return Some(format!(
            "is declared {declared}, for which different names are equal (case, or blanks at the \
             end); declare it text"
        ));
    }
    (!deterministic).then(|| {
        "has a nondeterministic collation, under which different names are equal; declare it \
         COLLATE \"C\""
            .to_owned()
    })
}

/// The unique indexes over whole columns and all rows that are checked at once, and not at the end of
/// the transaction. One with a nondeterministic collation of its own takes different names for one.
async fn unique(connection: &mut PgConnection, oid: &str) -> Result<Vec<Vec<String>>, SqlError> {
    let mut sql = Statement::<Postgres>::new(
        "SELECT CAST(i.indexrelid AS text), \
         CASE WHEN coalesce(l.collisdeterministic, true) THEN CAST(a.attname AS text) END \
         FROM pg_index i CROSS JOIN LATERAL \
         unnest(CAST(i.indkey AS int2[]), CAST(i.indcollation AS oid[])) WITH ORDINALITY \
         AS k (attnum, collation_oid, n) \
         LEFT JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.attnum \
         LEFT JOIN pg_collation l ON l.oid = k.collation_oid \
         WHERE i.indisunique AND i.indisvalid AND i.indimmediate AND i.indpred IS NULL \
         AND k.n <= i.indnkeyatts AND i.indrelid = CAST(",
    );
    sql.text(oid).push(" AS oid) ORDER BY 1, k.n");
    let rows = ask(connection, sql).await?.into_iter();
    let pair = |cells: Cells| {
        let mut cells = cells.into_iter();
        let index = cells.next().flatten().unwrap_or_default();
        (index, cells.next().flatten())
    };
    Ok(by_index(rows.map(pair)))
}
