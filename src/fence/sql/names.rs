//! Names of tables and columns that may stand in a statement.

use super::{SqlError, dialect::Driver};

/// Longest name taken, in bytes: PostgreSQL cuts off longer ones, so that two could become one.
const NAME_BYTES_MAX: usize = 63;

/// A checked name of a column, or one part of a table's.
///
/// Letters of ASCII, digits and underscores only. That is narrower than SQL, on purpose: names come
/// from configuration, and what needs quoting tricks is more often a mistake than a wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::fence) struct Identifier(String);

impl Identifier {
    pub(in crate::fence) fn column(name: &str) -> Result<Self, SqlError> {
        Self::parse("column", name, name)
    }

    /// The bare name, for catalogue queries and messages.
    pub(in crate::fence) fn name(&self) -> &str {
        &self.0
    }

    /// Checks one part of the name that was given.
    fn parse(what: &'static str, part: &str, given: &str) -> Result<Self, SqlError> {
        let refuse = |reason| Err(unusable(what, given, reason));
        if part.is_empty() {
            return refuse("it is empty");
        }
        if part.len() > NAME_BYTES_MAX {
            return refuse("it is longer than 63 bytes");
        }
        if part.starts_with(|first: char| first.is_ascii_digit()) {
            return refuse("it starts with a digit");
        }
        if !part
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        {
            return refuse("only ASCII letters, digits and underscores are taken");
        }
        Ok(Self(part.to_owned()))
    }
}

impl std::fmt::Display for Identifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

/// A checked name of a table, with the schema (PostgreSQL) or database (MySQL) that it is in.
#[derive(Debug, Clone)]
pub(in crate::fence) struct TableName {
    /// As given, and once the table was opened, as the catalogue has it: a statement that names its
    /// schema means the same table on every connection, whatever the search path there.
    pub(in crate::fence) schema: Option<String>,
    pub(in crate::fence) table: Identifier,
}

impl TableName {
    pub(in crate::fence) fn parse<DB: Driver>(name: &str) -> Result<Self, SqlError> {
        let (schema, table) = match name.split_once('.') {
            Some((schema, table)) if DB::SCHEMAS => (Some(schema), table),
            _ => (None, name),
        };
        let schema = match schema {
            Some(schema) => Some(Identifier::parse("table", schema, name)?.0),
            None => None,
        };
        let table = Identifier::parse("table", table, name)?;
        Ok(Self { schema, table })
    }

    /// Quoted, as it stands after `UPDATE` or `INTO`.
    pub(in crate::fence) fn quoted<DB: Driver>(&self) -> String {
        let table = quoted::<DB>(self.table.name());
        match &self.schema {
            Some(schema) => format!("{}.{table}", quoted::<DB>(schema)),
            None => table,
        }
    }

    /// For messages.
    pub(in crate::fence) fn shown(&self) -> String {
        match &self.schema {
            Some(schema) => format!("{schema}.{}", self.table.name()),
            None => self.table.name().to_owned(),
        }
    }

    /// The error that this table cannot be guarded.
    pub(in crate::fence) fn unfit(&self, reason: impl Into<String>) -> SqlError {
        SqlError::Unfit {
            table: self.shown(),
            reason: reason.into(),
        }
    }
}

/// A name between the dialect's quotes. A schema's name comes from the catalogue, and may hold any
/// character.
pub(in crate::fence) fn quoted<DB: Driver>(name: &str) -> String {
    let quote = DB::QUOTE;
    let doubled = name.replace(quote, &format!("{quote}{quote}"));
    format!("{quote}{doubled}{quote}")
}

fn unusable(what: &'static str, name: &str, reason: &'static str) -> SqlError {
    SqlError::Identifier {
        what,
        name: name.chars().take(80).collect(),
        reason,
    }
}
