//! What the catalogue says about a table, and whether that is fit to be guarded.
//!
//! Each mistake that is refused here would let a stale write through, or block every write, without
//! a word. The dialects fill in the [`Shape`]; what is asked of it is the same for all.

use super::{
    SqlError,
    dialect::Driver,
    names::{Identifier, TableName},
};

/// A table, as the catalogue has it.
#[derive(Debug, Default)]
pub(in crate::fence) struct Shape {
    /// The schema or database in which it was found.
    pub(in crate::fence) schema: Option<String>,
    /// Why nothing of its kind can be guarded: a view, say.
    pub(in crate::fence) unfit: Option<String>,
    /// Empty if there is no such table.
    pub(in crate::fence) columns: Vec<Column>,
    /// The sets of columns that name one row at most, each an index over whole columns and all rows.
    pub(in crate::fence) unique: Vec<Vec<String>>,
}

/// One column.
#[derive(Debug)]
pub(in crate::fence) struct Column {
    pub(in crate::fence) name: String,
    /// How it compares with a value.
    pub(in crate::fence) class: Class,
    /// Why it cannot carry tokens.
    pub(in crate::fence) unfit_for_tokens: Option<String>,
    /// Why it cannot be a key: two names that are not the same would meet the same row.
    pub(in crate::fence) unfit_for_keys: Option<String>,
}

/// How a column compares with a value.
#[allow(
    dead_code,
    reason = "a build with one dialect alone has no use for what another needs"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::fence) enum Class {
    Integer,
    Text,
    Other,
}

impl Shape {
    /// Checks that `key` names one row, and that `token` can carry its mark.
    pub(in crate::fence) fn check<DB: Driver>(
        &self,
        table: &TableName,
        key: &[Identifier],
        token: &Identifier,
    ) -> Result<(), SqlError> {
        if self.columns.is_empty() {
            return Err(table.unfit("there is no such table"));
        }
        if let Some(reason) = &self.unfit {
            return Err(table.unfit(reason));
        }
        if key.is_empty() {
            return Err(table.unfit("no key column was named"));
        }
        for column in key {
            let found = self.column::<DB>(table, column)?;
            if let Some(reason) = &found.unfit_for_keys {
                return Err(table.unfit(format!("key column {column} {reason}")));
            }
        }
        let found = self.column::<DB>(table, token)?;
        if let Some(reason) = &found.unfit_for_tokens {
            return Err(table.unfit(format!("column {token} {reason}")));
        }
        if key.iter().any(|column| DB::is_column(&found.name, column)) {
            return Err(table.unfit(format!("{token} cannot be key and token at once")));
        }
        let names_one_row = |index: &Vec<String>| same_columns::<DB>(index, key);
        if self.unique.iter().any(names_one_row) {
            return Ok(());
        }
        Err(table.unfit(
            "its key columns are neither its primary key nor those of a unique index, so that a \
             write could meet several rows with several marks",
        ))
    }

    /// A column that must be there.
    pub(in crate::fence) fn column<DB: Driver>(
        &self,
        table: &TableName,
        wanted: &Identifier,
    ) -> Result<&Column, SqlError> {
        let mut columns = self.columns.iter();
        columns
            .find(|column| DB::is_column(&column.name, wanted))
            .ok_or_else(|| table.unfit(format!("it has no column {wanted}")))
    }
}

fn same_columns<DB: Driver>(index: &[String], key: &[Identifier]) -> bool {
    let in_index = |wanted: &Identifier| index.iter().any(|name| DB::is_column(name, wanted));
    index.len() == key.len() && key.iter().all(in_index)
}

/// Groups the rows of a catalogue query, (index, column), by index. A NULL column is an expression or
/// a part of a column, which is never a key of ours.
pub(in crate::fence) fn by_index(
    rows: impl IntoIterator<Item = (String, Option<String>)>,
) -> Vec<Vec<String>> {
    let mut indexes = std::collections::BTreeMap::<String, Vec<String>>::new();
    for (index, column) in rows {
        let columns = indexes.entry(index).or_default();
        columns.push(column.unwrap_or_default());
    }
    indexes.into_values().collect()
}
