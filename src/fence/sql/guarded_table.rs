//! A table whose rows carry their own mark.

use std::{fmt, marker::PhantomData, sync::Arc};

use crate::{
    fence::{Foreign, Rules},
    resource::ResourceName,
    sequencer::Sequencer,
};

use super::{
    Dialect, RowWrite, SqlError,
    names::{Identifier, TableName},
    shape::Class,
};

/// A table in which every row carries the token of its last write.
///
/// Opening it checks that the table is fit for this, since each of these mistakes would let a stale
/// write through, or block every write, without a word: a token column that compares as text
/// (`'9' > '10'`), rounds (a float cannot tell 2^53 from 2^53 + 1), is too narrow or may be NULL; a
/// key that is not unique, or under whose collation two different names are equal; a table that a
/// crash empties, or that knows no transactions.
///
/// `DB` is the database: `GuardedTable::<sqlx::Postgres>::open(...)`.
pub struct GuardedTable<DB> {
    pub(super) carries: Arc<Carries>,
    dialect: PhantomData<fn() -> DB>,
}

/// What a guarded table is made of.
#[derive(Debug)]
pub(super) struct Carries {
    pub(super) table: TableName,
    pub(super) key: Vec<Identifier>,
    /// How the key columns compare, in their order.
    pub(super) classes: Vec<Class>,
    pub(super) token: Identifier,
    pub(super) rules: Rules,
}

impl<DB: Dialect> GuardedTable<DB> {
    /// Opens `table`, whose rows are found by the columns `key` and carry their mark in the column
    /// `token`. Do this once, at start.
    ///
    /// In PostgreSQL and MySQL the table may be given as `schema.table`. Without a schema it is the
    /// one that this connection finds (search path, current database), and stays that one on every
    /// other connection.
    ///
    /// # Errors
    ///
    /// [`SqlError::Identifier`] for a name that cannot be used, [`SqlError::Unfit`] for a table that
    /// cannot be guarded (the message says what to change), [`SqlError::Database`].
    pub async fn open(
        connection: &mut DB::Connection,
        table: &str,
        key: &[&str],
        token: &str,
        rules: Rules,
    ) -> Result<Self, SqlError> {
        let mut table = TableName::parse::<DB>(table)?;
        let key: Result<Vec<_>, _> = key.iter().map(|name| Identifier::column(name)).collect();
        let (key, token) = (key?, Identifier::column(token)?);
        let shape = DB::shape(connection, &table, &key).await?;
        shape.check::<DB>(&table, &key, &token)?;
        let class = |column| Ok(shape.column::<DB>(&table, column)?.class);
        let classes: Result<Vec<_>, SqlError> = key.iter().map(class).collect();
        let classes = classes?;
        table.schema = shape.schema;
        let carries = Carries {
            table,
            key,
            classes,
            token,
            rules,
        };
        Ok(Self {
            carries: Arc::new(carries),
            dialect: PhantomData,
        })
    }

    /// Begins a write to one row under a grant.
    ///
    /// `protected_by` is the resource whose holder may write this row, worked out from the row and
    /// never taken from the request: it is what keeps a token for one account from opening another.
    #[must_use]
    pub fn write(&self, protected_by: &ResourceName, sequencer: &Sequencer) -> RowWrite<'_, DB> {
        let foreign = if *protected_by == sequencer.resource {
            self.carries.rules.foreign(sequencer)
        } else {
            Some(Foreign::Resource {
                presented: sequencer.resource.clone(),
                expected: protected_by.clone(),
            })
        };
        RowWrite::new(&self.carries, sequencer.token, foreign)
    }
}

// By hand: a derive would ask the same of `DB`, of which there never is a value.
impl<DB> Clone for GuardedTable<DB> {
    fn clone(&self) -> Self {
        Self {
            carries: Arc::clone(&self.carries),
            dialect: PhantomData,
        }
    }
}

impl<DB> fmt::Debug for GuardedTable<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.carries.fmt(f)
    }
}
