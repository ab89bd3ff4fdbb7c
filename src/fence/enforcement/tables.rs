//! The tables that fencing needs beside the protected ones: marks, and the issuer as a table.

use crate::fence::EqualTokens;

use super::{Dialect, Enforcement, EnforcementError, Script, Unnamed, name::Name};

/// A table of marks, for data whose own tables cannot change, with triggers that keep it honest: a mark
/// never falls, stays its issuer's, and stays.
#[derive(Debug, Clone)]
pub struct GuardTableScript(Enforcement);

impl GuardTableScript {
    /// For a table of this name, with the columns `resource`, `issuer` and `token`.
    ///
    /// # Errors
    ///
    /// [`EnforcementError::Name`] for a name that this database does not take.
    pub fn new(dialect: Dialect, table: &str) -> Result<Self, EnforcementError> {
        let mut plan = columns(dialect, table)?;
        plan.frozen = Some(Name::column(dialect, "issuer")?);
        Ok(Self(plan))
    }

    /// The statements that make the table, unless it is there, and its triggers. One that is there is
    /// checked for its columns first.
    #[must_use]
    pub fn apply(&self) -> Script {
        let table = self.0.table.quoted();
        let text = names(self.0.dialect);
        // MySQL makes the row before it has a mark, and counts the admissions.
        let (lowest, more) = match self.0.dialect.is_mysql() {
            true => (">= 0", ",\n  \"admissions\" BIGINT NOT NULL"),
            false => ("> 0", ""),
        };
        let rows = format!(
            "\"resource\" {} NOT NULL PRIMARY KEY,\n  \"issuer\" {} NOT NULL,\n  \
             \"token\" {} NOT NULL CHECK (\"token\" {lowest}){more}",
            text.resource, text.short, text.number
        );
        made(
            &self.0,
            "Marks of resources whose own tables cannot change. Names compare byte for byte. A table of this name that is\n\
             there already stays as it is, with its marks, if it has the columns.",
            &create(self.0.dialect, &table, &rows),
        )
    }

    /// The statements that take the triggers away. The table stays, with every mark.
    #[must_use]
    pub fn undo(&self) -> Script {
        undone(&self.0)
    }

    /// The statements that take both away, and with them every mark: also those of a table that was
    /// there before. A stale holder passes a table that is made again.
    #[must_use]
    pub fn undo_and_drop(&self) -> Script {
        dropped(&self.0, "The table goes, and with it every mark.")
    }
}

/// The issuer as a table, for those who need no cluster, with triggers that keep it honest: a token never
/// falls, and a row stays, since it carries the last token of its resource.
#[derive(Debug, Clone)]
pub struct IssuerTableScript(Enforcement);

impl IssuerTableScript {
    /// For a table of this name; `lock_grants` is the usual one.
    ///
    /// # Errors
    ///
    /// [`EnforcementError::Name`] for a name that this database does not take.
    pub fn new(dialect: Dialect, table: &str) -> Result<Self, EnforcementError> {
        let mut plan = columns(dialect, table)?;
        // A renewal and a release name no token to set: the token stays the grant's.
        plan.unnamed = Unnamed::Allow;
        Ok(Self(plan))
    }

    /// The statements that make the table, unless it is there, and its triggers. One that is there is
    /// checked for its columns first.
    #[must_use]
    pub fn apply(&self) -> Script {
        let dialect = self.0.dialect;
        made(
            &self.0,
            "One row a resource: its last token, who was granted it, and until when by this database's clock\n\
             (microseconds since 1970). A row is\n\
             never deleted, since its resource's tokens would start again. A table of this name that is there already\n\
             stays as it is, if it has the columns.",
            &create(dialect, &self.0.table.quoted(), &grant_columns(dialect)),
        )
    }

    /// The statement that makes the table, unless it is there, without its triggers.
    #[must_use]
    pub fn table_if_missing(&self) -> String {
        let dialect = self.0.dialect;
        create(dialect, &self.0.table.quoted(), &grant_columns(dialect))
    }

    /// The statements that take the triggers away. The table stays, with the last token of every
    /// resource.
    #[must_use]
    pub fn undo(&self) -> Script {
        undone(&self.0)
    }

    /// The statements that take both away. Tokens would start again: never do this while a guard
    /// remembers higher ones.
    #[must_use]
    pub fn undo_and_drop(&self) -> Script {
        dropped(
            &self.0,
            "The table goes, and with it the last token of every resource: guards refuse what a new one would issue.",
        )
    }
}

fn grant_columns(dialect: Dialect) -> String {
    let types = names(dialect);
    format!(
        "\"resource\" {} NOT NULL PRIMARY KEY,\n  \"holder\" {} NOT NULL,\n  \
         \"token\" {number} NOT NULL CHECK (\"token\" > 0),\n  \"expires_at_us\" {number} NOT NULL",
        types.resource,
        types.short,
        number = types.number
    )
}

fn columns(dialect: Dialect, table: &str) -> Result<Enforcement, EnforcementError> {
    Enforcement::of_table(dialect, table)?
        .token_column("token")?
        .key(&["resource"])
        .map(|plan| plan.equal_tokens(EqualTokens::MayWriteAgain))
}

/// How the columns are declared, so that two names are the same only if all their bytes are.
struct Types {
    resource: &'static str,
    short: &'static str,
    number: &'static str,
}

fn names(dialect: Dialect) -> Types {
    match dialect {
        Dialect::Postgres => Types {
            resource: "text COLLATE \"C\"",
            short: "text COLLATE \"C\"",
            number: "bigint",
        },
        // As bytes: the collations there call names equal that differ in case, accents or blanks at
        // their end. 160 and 80 characters of at most 4 bytes.
        Dialect::MariaDb | Dialect::MySql => Types {
            resource: "VARBINARY(640)",
            short: "VARBINARY(320)",
            number: "BIGINT",
        },
        Dialect::Sqlite => Types {
            resource: "TEXT",
            short: "TEXT",
            number: "INTEGER",
        },
    }
}

fn create(dialect: Dialect, table: &str, columns: &str) -> String {
    let (columns, after) = match dialect {
        Dialect::Postgres => (columns.to_owned(), ""),
        Dialect::MariaDb | Dialect::MySql => (columns.replace('"', "`"), " ENGINE = InnoDB"),
        Dialect::Sqlite => (columns.to_owned(), " STRICT, WITHOUT ROWID"),
    };
    format!("CREATE TABLE IF NOT EXISTS {table} (\n  {columns}\n){after}")
}

/// The table first, then what [`Enforcement::apply`] gives.
fn made(plan: &Enforcement, why: &str, create: &str) -> Script {
    let triggers = plan.apply().expect("key and token are fixed and differ");
    let mut script = Script::new(plan.dialect, triggers.head());
    script.step(why, create);
    script.append(&triggers);
    script
}

fn undone(plan: &Enforcement) -> Script {
    plan.undo().expect("key and token are fixed and differ")
}

fn dropped(plan: &Enforcement, why: &str) -> Script {
    let mut script = undone(plan);
    script.step(why, format!("DROP TABLE {}", plan.table.quoted()));
    script
}
