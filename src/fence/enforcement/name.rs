//! Names of tables and columns, as the four databases take them, and how they stand in a statement.
//!
//! A name is taken exactly as it was given, case included, and always quoted: so a reserved word, a
//! blank or a quote in a name is no trouble, and nothing in a name can become part of the statement.

use super::EnforcementError;

/// The database that the statements are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// PostgreSQL, from 13 on.
    Postgres,
    /// MariaDB, from 10.6 on.
    MariaDb,
    /// MySQL, from 8.0 on. Its statements are MariaDB's, and are tested there.
    MySql,
    /// SQLite, from 3.38 on.
    Sqlite,
}

impl Dialect {
    /// The database's own name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL",
            Self::MariaDb => "MariaDB",
            Self::MySql => "MySQL",
            Self::Sqlite => "SQLite",
        }
    }

    /// MySQL and what descends from it.
    pub(super) fn is_mysql(self) -> bool {
        matches!(self, Self::MariaDb | Self::MySql)
    }

    /// The longest name: PostgreSQL cuts off longer ones, so that two could become one; MySQL and
    /// MariaDB refuse them. SQLite knows no limit, so ours keeps a statement readable.
    fn limit(self) -> (usize, &'static str) {
        match self {
            Self::Postgres => (63, "it is longer than 63 bytes"),
            Self::MariaDb | Self::MySql => (64, "it is longer than 64 characters"),
            Self::Sqlite => (255, "it is longer than 255 bytes"),
        }
    }

    fn length(self, name: &str) -> usize {
        match self {
            Self::MariaDb | Self::MySql => name.chars().count(),
            Self::Postgres | Self::Sqlite => name.len(),
        }
    }
}

/// A checked name of one database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Name {
    dialect: Dialect,
    text: String,
}

impl Name {
    pub(super) fn column(dialect: Dialect, text: &str) -> Result<Self, EnforcementError> {
        Self::checked(dialect, "column", text)
    }

    fn checked(dialect: Dialect, what: &'static str, text: &str) -> Result<Self, EnforcementError> {
        match flaw(dialect, text) {
            None => Ok(Self {
                dialect,
                text: text.to_owned(),
            }),
            Some(reason) => Err(EnforcementError::Name {
                what,
                name: text.escape_debug().take(80).collect(),
                dialect: dialect.name(),
                reason,
            }),
        }
    }

    /// The name in the database's quotes, as it stands in a statement.
    pub(super) fn quoted(&self) -> String {
        match self.dialect {
            Dialect::Postgres | Dialect::Sqlite => {
                format!("\"{}\"", self.text.replace('"', "\"\""))
            }
            Dialect::MariaDb | Dialect::MySql => format!("`{}`", self.text.replace('`', "``")),
        }
    }

    /// The name as a text, for questions to the catalogue.
    pub(super) fn literal(&self) -> String {
        literal(self.dialect, &self.text)
    }

    /// `fencepost_TABLE_PART`, shortened to the limit where need be; a hash of the whole then keeps
    /// two tables with a common beginning apart.
    fn generated(&self, part: &str) -> Self {
        let whole = format!("fencepost_{}_{part}", self.text);
        let (limit, _) = self.dialect.limit();
        if self.dialect.length(&whole) <= limit {
            return Self {
                dialect: self.dialect,
                text: whole,
            };
        }
        let tail = format!("_{:08x}_{part}", hash(&self.text));
        let mut text = format!("fencepost_{}", self.text);
        while self.dialect.length(&text) + self.dialect.length(&tail) > limit {
            text.pop();
        }
        Self {
            dialect: self.dialect,
            text: text + &tail,
        }
    }
}

/// What is wrong with a name, if something is.
fn flaw(dialect: Dialect, text: &str) -> Option<&'static str> {
    let (limit, too_long) = dialect.limit();
    if text.is_empty() {
        return Some("it is empty");
    }
    if dialect.length(text) > limit {
        return Some(too_long);
    }
    if text.chars().any(char::is_control) {
        return Some("it has a control character, which would break the comments and the review");
    }
    if text.chars().any(turns_the_line) {
        return Some(
            "it has a character that changes the direction of text: what is shown would not be what runs",
        );
    }
    if dialect.is_mysql() && text.chars().any(|c| c > '\u{ffff}') {
        return Some("it has a character beyond U+FFFF, which names may not have there");
    }
    if dialect.is_mysql() && text.contains('\\') {
        return Some(
            "it has a backslash, at which the command line tools split statements wrongly",
        );
    }
    if dialect.is_mysql() && text.ends_with(char::is_whitespace) {
        return Some("it ends with a blank, which names may not do there");
    }
    None
}

/// The characters by which text shows in another order than it runs (CVE-2021-42574).
fn turns_the_line(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{200e}' | '\u{200f}' | '\u{2028}' | '\u{2029}')
}

/// 32 bits of FNV-1a: to keep generated names apart, not to keep anything safe.
fn hash(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// A text as it stands in a statement, whatever the server's settings for backslashes are.
pub(super) fn literal(dialect: Dialect, text: &str) -> String {
    let doubled = text.replace('\'', "''");
    match dialect {
        Dialect::Postgres if text.contains('\\') => {
            format!("E'{}'", doubled.replace('\\', "\\\\"))
        }
        _ => format!("'{doubled}'"),
    }
}

/// A table, perhaps in a schema (PostgreSQL), a database (MySQL) or an attached file (SQLite).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Table {
    schema: Option<Name>,
    name: Name,
}

impl Table {
    /// Reads `table` or `schema.table`; in PostgreSQL, a table without a schema is in `public`. A part with a dot or a double quote in it stands in double
    /// quotes, and a double quote there is written twice.
    pub(super) fn parse(dialect: Dialect, text: &str) -> Result<Self, EnforcementError> {
        let wrong = |reason| EnforcementError::Name {
            what: "table",
            name: text.escape_debug().take(80).collect(),
            dialect: dialect.name(),
            reason,
        };
        let parts = split(text, '.').ok_or_else(|| wrong(QUOTES))?;
        match &parts[..] {
            [table] => Ok(Self {
                schema: default_schema(dialect),
                name: Name::checked(dialect, "table", table)?,
            }),
            [schema, table] => Ok(Self {
                schema: Some(Name::checked(dialect, "schema", schema)?),
                name: Name::checked(dialect, "table", table)?,
            }),
            _ => Err(wrong(
                "more than one dot: write schema.table, and quote a part that has a dot in it: \"a.b\"",
            )),
        }
    }

    pub(super) fn quoted(&self) -> String {
        self.in_schema(&self.name)
    }

    /// The table without its schema: what SQLite wants inside a trigger.
    pub(super) fn bare(&self) -> String {
        self.name.quoted()
    }

    pub(super) fn name(&self) -> &Name {
        &self.name
    }

    pub(super) fn schema(&self) -> Option<&Name> {
        self.schema.as_ref()
    }

    /// A function or trigger that belongs to this table, in the same schema.
    pub(super) fn own(&self, part: &str) -> String {
        self.in_schema(&self.name.generated(part))
    }

    /// A table that belongs to this one, in the same schema.
    pub(super) fn sister(&self, part: &str) -> Self {
        Self {
            schema: self.schema.clone(),
            name: self.name.generated(part),
        }
    }

    fn in_schema(&self, name: &Name) -> String {
        match &self.schema {
            Some(schema) => format!("{}.{}", schema.quoted(), name.quoted()),
            None => name.quoted(),
        }
    }
}

/// What a table without a schema is in. PostgreSQL would look along the path of whoever runs the
/// statement, and a trigger along the path of whoever fires it: a temporary table of the same name would
/// come first. So it is named.
fn default_schema(dialect: Dialect) -> Option<Name> {
    (dialect == Dialect::Postgres).then(|| Name {
        dialect,
        text: "public".to_owned(),
    })
}

const QUOTES: &str = "a double quote is out of place: a part that has one stands in double quotes itself, and writes it twice";

/// Splits at a separator outside double quotes; `None` for quotes that do not fit.
pub(super) fn split(text: &str, separator: char) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        let part;
        (part, rest) = match rest.strip_prefix('"') {
            Some(inner) => quoted_part(inner)?,
            None => {
                let end = rest.find(separator).unwrap_or(rest.len());
                let (bare, rest) = rest.split_at(end);
                (!bare.contains('"')).then(|| (bare.to_owned(), rest))?
            }
        };
        parts.push(part);
        match rest.strip_prefix(separator) {
            Some(next) => rest = next,
            None => return rest.is_empty().then_some(parts),
        }
    }
}

/// The part up to its closing quote, and what follows.
fn quoted_part(inner: &str) -> Option<(String, &str)> {
    let mut part = String::new();
    let mut rest = inner;
    loop {
        let end = rest.find('"')?;
        part.push_str(&rest[..end]);
        rest = &rest[end + 1..];
        match rest.strip_prefix('"') {
            Some(next) => {
                part.push('"');
                rest = next;
            }
            None => return Some((part, rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_split_at_dots_outside_quotes() {
        let cases: [(&str, &[&str]); 5] = [
            ("a", &["a"]),
            ("a.b", &["a", "b"]),
            ("\"a.b\".c d", &["a.b", "c d"]),
            ("\"say \"\"hi\"\"\"", &["say \"hi\""]),
            ("a.\"b\"", &["a", "b"]),
        ];
        for (text, parts) in cases {
            assert_eq!(split(text, '.').unwrap(), parts, "{text}");
        }
        for text in ["a\"b", "\"a", "\"a\"b", "a.\"b\"c"] {
            assert_eq!(split(text, '.'), None, "{text}");
        }
    }

    #[test]
    fn quotes_in_a_name_are_doubled() {
        let table = |dialect, text| Table::parse(dialect, text).unwrap().quoted();
        assert_eq!(table(Dialect::Postgres, "\"a\"\"b\".c"), "\"a\"\"b\".\"c\"");
        assert_eq!(
            table(Dialect::MySql, "x`; DROP TABLE y"),
            "`x``; DROP TABLE y`"
        );
    }

    #[test]
    fn names_that_cannot_be_are_refused_with_the_reason() {
        use Dialect::{MariaDb, Postgres, Sqlite};
        let long = "ä".repeat(32);
        for (dialect, name, reason) in [
            (Postgres, "", "empty"),
            (Postgres, long.as_str(), "63 bytes"),
            (MariaDb, &"ä".repeat(65), "64 characters"),
            (Sqlite, "a\n-- b", "control character"),
            (Sqlite, "a\0", "control character"),
            (Postgres, "a\u{202e}b", "direction"),
            (MariaDb, "🦀", "U+FFFF"),
            (MariaDb, "a ", "blank"),
            (MariaDb, "a\\b", "backslash"),
            (Postgres, "a.b.c", "more than one dot"),
            (Postgres, "a\"b", "double quote"),
        ] {
            let error = Table::parse(dialect, name).unwrap_err().to_string();
            assert!(error.contains(reason), "{name:?}: {error}");
        }
        assert!(Table::parse(MariaDb, &long).is_ok());
    }

    #[test]
    fn generated_names_keep_the_limit_and_stay_apart() {
        for dialect in [Dialect::Postgres, Dialect::MariaDb, Dialect::Sqlite] {
            let (limit, _) = dialect.limit();
            let long = |last: char| {
                let name = format!("{}{last}", "ä".repeat(limit / dialect.length("ä") - 1));
                Table::parse(dialect, &name)
                    .unwrap()
                    .name
                    .generated("update")
            };
            let (a, b) = (long('a'), long('b'));
            assert_ne!(a, b);
            assert!(dialect.length(&a.text) <= limit, "{}", a.text);
            assert_eq!(flaw(dialect, &a.text), None);
        }
    }

    #[test]
    fn a_text_is_the_same_whatever_backslashes_mean() {
        assert_eq!(literal(Dialect::Postgres, "a'\\"), "E'a''\\\\'");
        assert_eq!(literal(Dialect::Sqlite, "a'\\"), "'a''\\'");
    }
}
