//! What is stored where a mark or a version should be.

use crate::token::TokenValue;

use super::{
    SqlError,
    names::{Identifier, TableName},
};

/// How much of a wrong value is shown.
const SHOWN_CHARS_MAX: usize = 80;

/// A mark. Zero, the column's default, is below every token and so no mark yet.
pub(in crate::fence) fn mark(
    table: &TableName,
    cell: Option<String>,
) -> Result<Option<TokenValue>, SqlError> {
    let number = cell.as_deref().and_then(|text| text.parse::<u64>().ok());
    let mark = match number {
        Some(0) => return Ok(None),
        Some(number) => TokenValue::new(number).ok(),
        None => None,
    };
    mark.map(Some).ok_or_else(|| SqlError::Mark {
        table: table.shown(),
        found: shown(cell),
    })
}

/// A version.
pub(super) fn version(
    table: &TableName,
    column: &Identifier,
    cell: Option<String>,
) -> Result<i64, SqlError> {
    let number = cell.as_deref().and_then(|text| text.parse().ok());
    number.ok_or_else(|| SqlError::Version {
        table: table.shown(),
        column: column.name().to_owned(),
        found: shown(cell),
    })
}

pub(in crate::fence) fn shown(cell: Option<String>) -> String {
    let text = cell.unwrap_or_else(|| "NULL".to_owned());
    text.chars().take(SHOWN_CHARS_MAX).collect()
}
