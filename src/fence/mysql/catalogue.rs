//! What the catalogue of MySQL and MariaDB says about a table.

use sqlx::{MySql, MySqlConnection};

use crate::fence::sql::{
    Cells, Class, Column, Driver as _, Shape, SqlError, Statement, TableName, by_index,
};

pub(super) async fn shape(
    connection: &mut MySqlConnection,
    table: &TableName,
) -> Result<Shape, SqlError> {
    let select = ["table_schema", "table_type", "engine"];
    let rows = from(connection, "tables", &select, table, "").await?;
    let Some(cells) = rows.into_iter().next() else {
        return Ok(Shape::default());
    };
    let mut cells = cells.into_iter();
    let (schema, kind, engine) = (cells.next(), cells.next(), cells.next());
    let (kind, engine) = (kind.flatten(), engine.flatten());
    let unfit = match (kind.as_deref(), engine.as_deref()) {
        (Some("BASE TABLE"), Some("InnoDB")) => None,
        (Some("BASE TABLE"), engine) => Some(format!(
            "its engine is {}, and only InnoDB is known to keep mark and data together; use \
             ENGINE=InnoDB",
            engine.unwrap_or("unknown")
        )),
        (kind, _) => Some(format!("it is a {}", kind.unwrap_or("thing of no kind"))),
    };
    Ok(Shape {
        schema: schema.flatten(),
        unfit,
        columns: columns(connection, table).await?,
        unique: unique(connection, table).await?,
    })
}

/// Rows of a view of `information_schema` about the table, all cells as text.
async fn from(
    connection: &mut MySqlConnection,
    view: &str,
    select: &[&str],
    table: &TableName,
    more: &str,
) -> Result<Vec<Cells>, SqlError> {
    let mut sql = Statement::<MySql>::new("SELECT ");
    sql.list(select, |sql, column| {
        sql.push(&format!("CONVERT({column} USING utf8mb4)"));
    });
    sql.push(&format!(
        " FROM information_schema.{view} WHERE table_schema = "
    ));
    match &table.schema {
        Some(schema) => sql.text(schema),
        None => sql.push("DATABASE()"),
    };
    sql.push(" AND BINARY table_name = ")
        .text(table.table.name());
    sql.push(more);
    MySql::ask(connection, sql).await
}

async fn columns(
    connection: &mut MySqlConnection,
    table: &TableName,
) -> Result<Vec<Column>, SqlError> {
    let select = [
        "column_name",
        "data_type",
        "column_type",
        "is_nullable",
        "generation_expression",
        "collation_name",
    ];
    let rows = from(
        connection,
        "columns",
        &select,
        table,
        " ORDER BY ordinal_position",
    )
    .await?;
    let column = |cells: Cells| {
        let mut cells = cells.into_iter();
        let mut next = || cells.next().flatten().unwrap_or_default();
        let (name, data, declared) = (next(), next().to_lowercase(), next());
        let (nullable, generated, collation) = (next() == "YES", !next().is_empty(), next());
        Column {
            name,
            class: class(&data),
            unfit_for_tokens: unfit_for_tokens(&data, &declared, nullable, generated),
            unfit_for_keys: unfit_for_keys(&data, &declared, &collation),
        }
    };
    Ok(rows.into_iter().map(column).collect())
}

fn class(data: &str) -> Class {
    match data {
        "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => Class::Integer,
        _ if ["char", "text", "binary", "blob", "enum"]
            .iter()
            .any(|kind| data.contains(kind)) =>
        {
            Class::Text
        }
        _ => Class::Other,
    }
}

fn unfit_for_tokens(data: &str, declared: &str, nullable: bool, generated: bool) -> Option<String> {
    if data != "bigint" || declared.contains("unsigned") {
        return Some(format!(
            "is declared {declared}; declare it BIGINT NOT NULL DEFAULT 0, since tokens are whole \
             numbers of up to 63 bits"
        ));
    }
    if generated {
        return Some("is generated from others, and cannot be written".to_owned());
    }
    nullable.then(|| {
        "may be NULL, and a row with a NULL mark refuses every write; declare it BIGINT NOT NULL \
         DEFAULT 0"
            .to_owned()
    })
}

/// Texts that differ and are equal would let a holder of one resource write another's row. Nearly all
/// collations take case, accents or blanks at the end for nothing; `utf8mb4_bin` the blanks.
fn unfit_for_keys(data: &str, declared: &str, collation: &str) -> Option<String> {
    if ["float", "double", "decimal"].contains(&data) {
        return Some(format!(
            "is declared {declared}, which may compare after rounding; use a whole number or a text"
        ));
    }
    let exact = collation.is_empty()
        || collation.ends_with("_nopad_bin")
        || collation.ends_with("_0900_bin")
        || collation == "binary";
    // CHAR loses blanks at the end whatever its collation.
    (!exact || data == "char").then(|| {
        format!(
            "is declared {declared}{}{collation}, under which different names are equal (case, \
             accents, or blanks at the end); declare it VARBINARY, or VARCHAR with COLLATE \
             utf8mb4_nopad_bin (MariaDB) or utf8mb4_0900_bin (MySQL)",
            if collation.is_empty() {
                ""
            } else {
                " COLLATE "
            }
        )
    })
}

/// The unique indexes over whole columns: one over a column's beginning has no name of ours.
async fn unique(
    connection: &mut MySqlConnection,
    table: &TableName,
) -> Result<Vec<Vec<String>>, SqlError> {
    let select = ["index_name", "column_name", "sub_part"];
    let more = " AND non_unique = 0 ORDER BY index_name, seq_in_index";
    let rows = from(connection, "statistics", &select, table, more).await?;
    let pair = |cells: Cells| {
        let mut cells = cells.into_iter();
        let index = cells.next().flatten().unwrap_or_default();
        let column = cells.next().flatten();
        let part = cells.next().flatten();
        (index, column.filter(|_| part.is_none()))
    };
    Ok(by_index(rows.into_iter().map(pair)))
}
