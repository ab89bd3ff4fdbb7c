//! Names of tables and columns that may stand in a statement.

use super::SqlError;

/// Longest name taken, in bytes: PostgreSQL cuts off longer ones, so that two could become one.
const NAME_BYTES_MAX: usize = 63;

/// A checked name. It displays in double quotes, as it stands in SQL.
///
/// Letters of ASCII, digits and underscores only. That is narrower than SQL, on purpose: names come
/// from configuration, and what needs quoting tricks is more often a mistake than a wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Identifier(String);

impl Identifier {
    pub(super) fn table(name: &str) -> Result<Self, SqlError> {
        Self::parse("table", name)
    }

    pub(super) fn column(name: &str) -> Result<Self, SqlError> {
        Self::parse("column", name)
    }

    /// The bare name, for catalogue queries and messages.
    pub(super) fn name(&self) -> &str {
        &self.0
    }

    fn parse(what: &'static str, name: &str) -> Result<Self, SqlError> {
        let refuse = |reason| {
            Err(SqlError::Identifier {
                what,
                name: name.chars().take(80).collect(),
                reason,
            })
        };
        if name.is_empty() {
            return refuse("it is empty");
        }
        if name.len() > NAME_BYTES_MAX {
            return refuse("it is longer than 63 bytes");
        }
        if name.starts_with(|first: char| first.is_ascii_digit()) {
            return refuse("it starts with a digit");
        }
        if !name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        {
            return refuse("only ASCII letters, digits and underscores are taken");
        }
        Ok(Self(name.to_owned()))
    }
}

impl std::fmt::Display for Identifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}
