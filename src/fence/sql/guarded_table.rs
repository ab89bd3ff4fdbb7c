//! A table whose rows carry their own mark.

use sqlx::{Row, SqliteConnection};

use crate::{
    fence::{Foreign, Rules},
    resource::ResourceName,
    sequencer::Sequencer,
};

use super::{RowWrite, SqlError, identifier::Identifier};

/// A table in which every row carries the token of its last write.
///
/// Opening it checks that the table is fit for this, since each of these mistakes would let a stale
/// write through, or block every write, without a word: a token column that SQLite compares as text
/// (`'9' > '10'`) or stores as a float (which cannot tell 2^53 from 2^53 + 1), one that may be NULL,
/// and a key that is not unique.
#[derive(Debug, Clone)]
pub struct GuardedTable {
    pub(super) table: Identifier,
    pub(super) key: Vec<Identifier>,
    pub(super) token: Identifier,
    pub(super) rules: Rules,
}

impl GuardedTable {
    /// Opens `table`, whose rows are found by the columns `key` and carry their mark in the column
    /// `token`. Do this once, at start.
    ///
    /// # Errors
    ///
    /// [`SqlError::Identifier`] for a name that cannot be used, [`SqlError::Unfit`] for a table that
    /// cannot be guarded (the message says what to change), [`SqlError::Database`].
    pub async fn open(
        connection: &mut SqliteConnection,
        table: &str,
        key: &[&str],
        token: &str,
        rules: Rules,
    ) -> Result<Self, SqlError> {
        let guarded = Self {
            table: Identifier::table(table)?,
            key: key
                .iter()
                .map(|column| Identifier::column(column))
                .collect::<Result<_, _>>()?,
            token: Identifier::column(token)?,
            rules,
        };
        let columns = columns(connection, &guarded.table).await?;
        guarded.check_columns(&columns)?;
        guarded.check_unique(connection, &columns).await?;
        Ok(guarded)
    }

    /// Begins a write to one row under a grant.
    ///
    /// `protected_by` is the resource whose holder may write this row, worked out from the row and
    /// never taken from the request: it is what keeps a token for one account from opening another.
    #[must_use]
    pub fn write(&self, protected_by: &ResourceName, sequencer: &Sequencer) -> RowWrite<'_> {
        let foreign = if *protected_by == sequencer.resource {
            self.rules.foreign(sequencer)
        } else {
            Some(Foreign::Resource {
                presented: sequencer.resource.clone(),
                expected: protected_by.clone(),
            })
        };
        RowWrite::new(self, sequencer.token, foreign)
    }

    fn check_columns(&self, columns: &[Column]) -> Result<(), SqlError> {
        if columns.is_empty() {
            return self.unfit("there is no such table".to_owned());
        }
        if self.key.is_empty() {
            return self.unfit("no key column was named".to_owned());
        }
        for wanted in self.key.iter().chain([&self.token]) {
            if !columns.iter().any(|column| column.is(wanted)) {
                return self.unfit(format!("it has no column {wanted}"));
            }
        }
        if self.key.contains(&self.token) {
            return self.unfit(format!("{} cannot be key and token at once", self.token));
        }
        for column in columns.iter().filter(|column| column.is(&self.token)) {
            // SQLite's rule for INTEGER affinity (datatype3.html, section 3.1). Any other compares
            // tokens as text, or rounds them.
            if !column.declared.to_ascii_uppercase().contains("INT") {
                return self.unfit(format!(
                    "column {} is declared \"{}\"; declare it INTEGER NOT NULL DEFAULT 0, since \
                     tokens must compare as whole numbers",
                    self.token, column.declared
                ));
            }
            if !column.not_null {
                return self.unfit(format!(
                    "column {} may be NULL, and a row with a NULL mark refuses every write; \
                     declare it INTEGER NOT NULL DEFAULT 0",
                    self.token
                ));
            }
        }
        Ok(())
    }

    /// The key must name one row, by the primary key or by a unique index over exactly its columns.
    async fn check_unique(
        &self,
        connection: &mut SqliteConnection,
        columns: &[Column],
    ) -> Result<(), SqlError> {
        let primary: Vec<_> = columns.iter().filter(|column| column.primary).collect();
        if self.is_key(primary.iter().map(|column| column.name.as_str())) {
            return Ok(());
        }
        let indexed = sqlx::query(
            "SELECT list.name AS index_name, info.name AS column_name \
             FROM pragma_index_list(?1) AS list JOIN pragma_index_info(list.name) AS info \
             WHERE list.\"unique\" = 1 AND list.partial = 0 ORDER BY list.seq, info.seqno",
        )
        .bind(self.table.name())
        .fetch_all(connection)
        .await?;
        let mut indexes = std::collections::BTreeMap::<String, Vec<String>>::new();
        for row in indexed {
            // An indexed expression has no column name; such an index is never our key.
            let column: Option<String> = row.try_get("column_name")?;
            indexes
                .entry(row.try_get("index_name")?)
                .or_default()
                .push(column.unwrap_or_default());
        }
        if indexes
            .values()
            .any(|columns| self.is_key(columns.iter().map(String::as_str)))
        {
            return Ok(());
        }
        self.unfit(
            "its key columns are neither its primary key nor those of a unique index, so that a \
             write could meet several rows with several marks"
                .to_owned(),
        )
    }

    fn is_key<'c>(&self, columns: impl Iterator<Item = &'c str>) -> bool {
        let names = |name: &str| name.to_ascii_lowercase();
        let mut given: Vec<_> = columns.map(names).collect();
        let mut wanted: Vec<_> = self.key.iter().map(|column| names(column.name())).collect();
        given.sort_unstable();
        wanted.sort_unstable();
        given == wanted
    }

    fn unfit<T>(&self, reason: String) -> Result<T, SqlError> {
        Err(SqlError::Unfit {
            table: self.table.name().to_owned(),
            reason,
        })
    }
}

/// One column, as the catalogue has it.
pub(super) struct Column {
    name: String,
    declared: String,
    not_null: bool,
    primary: bool,
}

impl Column {
    /// SQL compares names without regard to case.
    pub(super) fn is(&self, identifier: &Identifier) -> bool {
        self.name.eq_ignore_ascii_case(identifier.name())
    }
}

/// The columns of a table; none if there is no such table.
pub(super) async fn columns(
    connection: &mut SqliteConnection,
    table: &Identifier,
) -> Result<Vec<Column>, SqlError> {
    let rows =
        sqlx::query("SELECT name, type, \"notnull\" AS not_null, pk FROM pragma_table_info(?1)")
            .bind(table.name())
            .fetch_all(connection)
            .await?;
    rows.iter()
        .map(|row| {
            Ok(Column {
                name: row.try_get("name")?,
                declared: row.try_get("type")?,
                not_null: row.try_get("not_null")?,
                primary: row.try_get::<i64, _>("pk")? > 0,
            })
        })
        .collect()
}
