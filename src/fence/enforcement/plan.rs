//! What is to be enforced on one table.

use crate::fence::EqualTokens;

use super::{
    Dialect, EnforcementError, Script, mysql,
    name::{Name, Table, split},
    postgres, sqlite,
};

/// The column that carries the token, unless another is named.
const TOKEN_COLUMN: &str = "fencing_token";
/// The column that says which row it is, unless others are named.
const KEY_COLUMN: &str = "id";

/// What becomes of an UPDATE that does not name the token column at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unnamed {
    /// It is refused, since it carries no token. The default in PostgreSQL and SQLite. A trigger in
    /// MySQL or MariaDB cannot see which columns a statement names; there, [`EqualTokens::Once`]
    /// refuses such a statement together with every equal token.
    Refuse,
    /// It passes, as if it carried the row's own token.
    Allow,
}

/// What becomes of a DELETE. It carries no token, and a row that was deleted and made again has
/// forgotten its mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Deletes {
    /// It is refused, and so is TRUNCATE where it can be. Mark rows as deleted instead.
    #[default]
    Refuse,
    /// It passes, whoever sends it, and the row's mark is kept in a table beside. A row made again
    /// under that key needs a token that is not lower.
    KeepMark,
}

/// Triggers for one table whose rows carry their token.
///
/// The columns are taken to be `id` (the key) and `fencing_token`; applying the statements fails,
/// before anything is changed, where the table has no such columns or they are of the wrong kind.
#[derive(Debug, Clone)]
pub struct Enforcement {
    pub(super) dialect: Dialect,
    pub(super) table: Table,
    pub(super) token: Name,
    pub(super) key: Vec<Name>,
    /// Other columns that are unique together: SQLite's REPLACE removes rows that clash in them.
    pub(super) unique: Vec<Vec<Name>>,
    /// Columns that an UPDATE must leave alone: the issuer beside a mark.
    pub(super) frozen: Option<Name>,
    pub(super) equal: EqualTokens,
    pub(super) unnamed: Unnamed,
    pub(super) deletes: Deletes,
    pub(super) adds_column: bool,
}

impl Enforcement {
    /// Triggers for this table: `table` or `schema.table` (in PostgreSQL, `public` unless named), taken
    /// exactly as written, case included; a part with a dot or a double quote in it stands in double
    /// quotes.
    ///
    /// # Errors
    ///
    /// [`EnforcementError::Name`] for a name that this database does not take.
    pub fn of_table(dialect: Dialect, table: &str) -> Result<Self, EnforcementError> {
        Ok(Self {
            dialect,
            table: Table::parse(dialect, table)?,
            token: Name::column(dialect, TOKEN_COLUMN)?,
            key: vec![Name::column(dialect, KEY_COLUMN)?],
            unique: Vec::new(),
            frozen: None,
            equal: EqualTokens::MayWriteAgain,
            unnamed: match dialect.is_mysql() {
                true => Unnamed::Allow,
                false => Unnamed::Refuse,
            },
            deletes: Deletes::Refuse,
            adds_column: false,
        })
    }

    /// The column that carries the token.
    ///
    /// # Errors
    ///
    /// [`EnforcementError::Name`] for a name that this database does not take.
    pub fn token_column(mut self, column: &str) -> Result<Self, EnforcementError> {
        self.token = Name::column(self.dialect, column)?;
        Ok(self)
    }

    /// The columns that say which row it is: the primary key, or another unique one.
    ///
    /// # Errors
    ///
    /// [`EnforcementError`] for names that this database does not take, or for none.
    pub fn key<S: AsRef<str>>(mut self, columns: &[S]) -> Result<Self, EnforcementError> {
        self.key = names(self.dialect, columns)?;
        Ok(self)
    }

    /// Further columns that are unique together. SQLite needs to know them, since its REPLACE removes
    /// rows that clash in any; the other databases tell their triggers of each removed row.
    ///
    /// # Errors
    ///
    /// [`EnforcementError`] for names that this database does not take, or for none.
    pub fn unique<S: AsRef<str>>(mut self, columns: &[S]) -> Result<Self, EnforcementError> {
        self.unique.push(names(self.dialect, columns)?);
        Ok(self)
    }

    /// What a token equal to the row's mark may do.
    #[must_use]
    pub fn equal_tokens(mut self, equal: EqualTokens) -> Self {
        self.equal = equal;
        self
    }

    /// What becomes of an UPDATE that does not name the token column.
    ///
    /// # Errors
    ///
    /// [`EnforcementError::Contradiction`] for a refusal that MySQL and MariaDB cannot give.
    pub fn unnamed_token(mut self, unnamed: Unnamed) -> Result<Self, EnforcementError> {
        if unnamed == Unnamed::Refuse && self.dialect.is_mysql() {
            return Err(EnforcementError::Contradiction(
                "a trigger in MySQL or MariaDB cannot see that a statement does not name the token column; \
                 refuse equal tokens there, which refuses such a statement too",
            ));
        }
        self.unnamed = unnamed;
        Ok(self)
    }

    /// What becomes of a DELETE.
    #[must_use]
    pub fn deletes(mut self, deletes: Deletes) -> Self {
        self.deletes = deletes;
        self
    }

    /// Begins by adding the token column, 0 in every row that is there. [`Enforcement::undo`] leaves
    /// it, and [`Enforcement::undo_and_drop`] drops it.
    #[must_use]
    pub fn add_column(mut self) -> Self {
        self.adds_column = true;
        self
    }

    /// The statements that put the triggers in place.
    ///
    /// # Errors
    ///
    /// [`EnforcementError::Contradiction`] where a column is named in two roles.
    pub fn apply(&self) -> Result<Script, EnforcementError> {
        self.checked()?;
        Ok(match self.dialect {
            Dialect::Postgres => postgres::apply(self),
            Dialect::MariaDb | Dialect::MySql => mysql::apply(self),
            Dialect::Sqlite => sqlite::apply(self),
        })
    }

    /// The statements that take back the triggers that [`Enforcement::apply`] with the same settings
    /// made. No mark is lost: the token column stays, and so do the marks kept of deleted rows.
    ///
    /// # Errors
    ///
    /// As [`Enforcement::apply`].
    pub fn undo(&self) -> Result<Script, EnforcementError> {
        self.checked()?;
        Ok(match self.dialect {
            Dialect::Postgres => postgres::undo(self),
            Dialect::MariaDb | Dialect::MySql => mysql::undo(self),
            Dialect::Sqlite => sqlite::undo(self),
        })
    }

    /// As [`Enforcement::undo`], and then drops the marks: the column, if [`Enforcement::add_column`]
    /// says that these statements made it, and the table with the marks of deleted rows. Tokens that
    /// were refused before would pass a column that is made again.
    ///
    /// # Errors
    ///
    /// As [`Enforcement::apply`].
    pub fn undo_and_drop(&self) -> Result<Script, EnforcementError> {
        let mut script = self.undo()?;
        if self.deletes == Deletes::KeepMark {
            script.step(
                "The marks of deleted rows go, too.",
                format!("DROP TABLE IF EXISTS {}", self.kept().quoted()),
            );
        }
        if self.adds_column {
            let (table, token) = (self.table.quoted(), self.token.quoted());
            script.step(
                "The column goes, and with it every mark.",
                format!("ALTER TABLE {table} DROP COLUMN {token}"),
            );
        }
        Ok(script)
    }

    /// Reads a list of columns as `--key` takes it: commas between them, and double quotes around one
    /// that has a comma or a double quote in it.
    ///
    /// # Errors
    ///
    /// [`EnforcementError::Contradiction`] for quotes that do not fit.
    pub fn columns(list: &str) -> Result<Vec<String>, EnforcementError> {
        split(list, ',').ok_or(EnforcementError::Contradiction(
            "a double quote is out of place in the list of columns",
        ))
    }

    fn checked(&self) -> Result<(), EnforcementError> {
        let repeated = |names: &[Name]| {
            let mut rest = names;
            while let Some((first, others)) = rest.split_first() {
                if others.contains(first) {
                    return true;
                }
                rest = others;
            }
            false
        };
        if self.key.contains(&self.token) || self.unique.iter().flatten().any(|c| *c == self.token)
        {
            return Err(EnforcementError::Contradiction(
                "the token column cannot be a part of a key: it changes with every grant",
            ));
        }
        if repeated(&self.key) || self.unique.iter().any(|columns| repeated(columns)) {
            return Err(EnforcementError::Contradiction(
                "a column is named twice in one key",
            ));
        }
        Ok(())
    }

    /// How the script that makes the triggers begins: what they cannot do, and the token's column, of
    /// the dialect's type for 64 bits.
    pub(super) fn opening(&self, limits: &str, integer: &str) -> Script {
        let (table, token) = (self.table.quoted(), self.token.quoted());
        let head =
            format!("fencepost: refuse stale writers of {table} in the database itself.\n{limits}");
        let mut script = Script::new(self.dialect, head);
        if self.adds_column {
            script.step(
                "The row carries its token. 0: nobody has fenced this row yet.",
                format!("ALTER TABLE {table} ADD COLUMN {token} {integer} NOT NULL DEFAULT 0"),
            );
        }
        script
    }

    /// The head of the script that takes the triggers back.
    pub(super) fn undo_head(&self) -> String {
        format!(
            "fencepost: take back the triggers on {}. From here on it refuses nobody. No mark is lost by that: whatever\n\
             drops a column or a table stands at the end, and only if it was asked for.",
            self.table.quoted()
        )
    }

    /// The table in which the marks of deleted rows are kept.
    pub(super) fn kept(&self) -> Table {
        self.table.sister("marks")
    }

    /// What stands between a presented token and a mark where the presented one is refused.
    pub(super) fn refuses(&self) -> &'static str {
        match self.equal {
            EqualTokens::MayWriteAgain => "<",
            EqualTokens::Once => "<=",
        }
    }

    /// The lowest token that passes a mark, as an expression. Nothing follows the highest one.
    pub(super) fn required(&self, mark: &str) -> String {
        match self.equal {
            EqualTokens::MayWriteAgain => mark.to_owned(),
            EqualTokens::Once => {
                format!("CASE WHEN {mark} < 9223372036854775807 THEN {mark} + 1 ELSE {mark} END")
            }
        }
    }

    /// `"a", "b"`: the key's columns.
    pub(super) fn key_list(&self) -> String {
        list(&self.key, ", ", Name::quoted)
    }
}

/// Names with something around each and something between them.
pub(super) fn list(names: &[Name], between: &str, form: impl Fn(&Name) -> String) -> String {
    names.iter().map(form).collect::<Vec<_>>().join(between)
}

fn names<S: AsRef<str>>(dialect: Dialect, texts: &[S]) -> Result<Vec<Name>, EnforcementError> {
    if texts.is_empty() {
        return Err(EnforcementError::Contradiction(
            "a key needs at least one column",
        ));
    }
    texts
        .iter()
        .map(|text| Name::column(dialect, text.as_ref()))
        .collect()
}
