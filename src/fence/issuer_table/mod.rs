//! The issuer as a table, for those who have one database and need no cluster.
//!
//! One row a resource, in a table `lock_grants`: who was granted it, under which token, and until
//! when by the *database's* clock. The statement that grants is atomic, and it grants if the resource
//! is free, if its lease has run out, or to the same holder again. Out comes the same
//! [`Sequencer`] that a cluster would give, and the same guards take it.
//!
//! **Tokens** rise with every grant of a resource: the next one is the last one plus one, or the
//! database's clock in microseconds since 1970 if that is higher, as it nearly always is. So even a
//! database that went back in time, restored from a backup or failed over to a replica that had not
//! seen the last grants, issues higher tokens than it did before, provided that its clock is not
//! behind. They stay below 2^53 until the year 2255.
//!
//! What a cluster does and this does not, or not as well:
//!
//! - The database is one machine's clock and one machine's disk. Its clock set forward ends leases
//!   early (fencing still holds, exclusivity does not); set back, late. A commit that the disk forgets
//!   forgets its grant.
//! - **Failover to an asynchronous replica loses grants**: two holders may believe that they hold. Let a
//!   commit wait for a replica, and keep the clocks of both in step, or the new primary's tokens may
//!   even repeat.
//! - **A restored backup has forgotten grants**, with the same two consequences. Before it serves,
//!   compare its clock with the guards' high-water marks; [`IssuerTable::raise`] lifts a resource's
//!   tokens over one of them.
//! - No queue and no watch: who is refused asks again, in any order. Ask no more often than you can
//!   afford to write.
//! - A renewal is a write, too. Hundreds a second are fine, tens of thousands are not.
//!
//! The holder counts its lease from *before* it sent the call that was granted; the database counts
//! from later. Between the two it may be that nobody holds, and never that two do.
//!
//! ```no_run
//! use fencepost::{
//!     fence::issuer_table::{Acquired, IssuerTable},
//!     grant::Ttl,
//!     resource::{Holder, IssuerName, ResourceName},
//! };
//!
//! # async fn example(pool: sqlx::SqlitePool) -> Result<(), Box<dyn std::error::Error>> {
//! let issuer = IssuerTable::create(pool, "lock_grants", IssuerName::new("bank")?).await?;
//! let (report, me) = (ResourceName::new("nightly-report")?, Holder::new("worker-7")?);
//! match issuer.acquire(&report, &me, Ttl::from_ms(30_000)?).await? {
//!     Acquired::Granted(sequencer) => {
//!         // ... guarded writes with this sequencer, `issuer.renew` at a third of the TTL ...
//!         issuer.release(&sequencer).await?;
//!     }
//!     Acquired::Held { holder, remaining, .. } => println!("{holder} has it for {remaining:?} more"),
//! }
//! # Ok(())
//! # }
//! ```

mod outcome;
mod statements;

use std::{marker::PhantomData, sync::Arc, time::Duration};

use sqlx::Pool;

use crate::{
    grant::Ttl,
    resource::{Holder, IssuerName, ResourceName},
    sequencer::Sequencer,
    token::TokenValue,
};

use super::enforcement::IssuerTableScript;
use super::sql::{Dialect, Identifier, SqlError, TableName, Upsert, begin};

pub use outcome::{Acquired, Kept, TableGrant};

/// A table that issues tokens. Cloning shares it; any number of processes may use one table.
pub struct IssuerTable<DB: Dialect> {
    pool: Pool<DB>,
    table: Arc<TableName>,
    issuer: IssuerName,
    dialect: PhantomData<fn() -> DB>,
}

impl<DB: Dialect> IssuerTable<DB> {
    /// Makes the table if it is not there, without triggers, and opens it. Prefer the statements of
    /// `fencepost guard sql --issuer-table NAME`, whose triggers keep a token from falling. In PostgreSQL
    /// the table is in `public` unless its schema is named.
    ///
    /// # Errors
    ///
    /// As [`IssuerTable::open`].
    pub async fn create(pool: Pool<DB>, table: &str, issuer: IssuerName) -> Result<Self, SqlError> {
        TableName::parse::<DB>(table)?;
        let script = IssuerTableScript::new(DB::KIND, table);
        let script = script.expect("what is a name here, narrowly, is one there");
        let mut connection = pool.acquire().await?;
        DB::script(&mut connection, script.table_if_missing()).await?;
        drop(connection);
        Self::open(pool, table, issuer).await
    }

    /// Opens a table that was made by [`IssuerTable::create`] or by the printed statements. `issuer`
    /// goes into every sequencer: guards refuse those of another, so keep it for as long as the table.
    ///
    /// # Errors
    ///
    /// [`SqlError::Identifier`] for a name that cannot be used, [`SqlError::Unfit`] if there is no
    /// such table or it lacks a column, [`SqlError::Database`].
    pub async fn open(pool: Pool<DB>, table: &str, issuer: IssuerName) -> Result<Self, SqlError> {
        let mut table = TableName::parse::<DB>(table)?;
        let (resource, token) = (
            Identifier::column("resource")?,
            Identifier::column("token")?,
        );
        let mut connection = pool.acquire().await?;
        let key = [resource];
        let shape = DB::shape(&mut connection, &table, &key).await?;
        shape.check::<DB>(&table, &key, &token)?;
        for column in ["holder", "expires_at_us"] {
            shape.column::<DB>(&table, &Identifier::column(column)?)?;
        }
        table.schema = shape.schema;
        Ok(Self {
            pool,
            table: Arc::new(table),
            issuer,
            dialect: PhantomData,
        })
    }

    /// Asks for a resource. The same holder asking again, its lease still live, gets a new grant with a
    /// higher token at once; its old token is stale as soon as a guard has seen the new one.
    ///
    /// Count the lease from before this call: `ttl` from there, the holder is safe.
    ///
    /// # Errors
    ///
    /// [`SqlError::Database`]. Where its answer was lost the grant may have been made; asking again is
    /// safe, and gives a higher token. [`SqlError::Mark`] for a stored token that is none.
    pub async fn acquire(
        &self,
        resource: &ResourceName,
        holder: &Holder,
        ttl: Ttl,
    ) -> Result<Acquired, SqlError> {
        let granted = match DB::UPSERT {
            Upsert::OnConflict => self.grant_at_once(resource, holder, ttl).await?,
            Upsert::UpdateThenInsert => self.grant_locked(resource, holder, ttl).await?,
        };
        if let Some(token) = granted {
            return Ok(Acquired::Granted(self.sequencer(resource, token)));
        }
        // Who has it is for people and for the length of a pause; it may have changed since.
        match self.inspect(resource).await? {
            Some(grant) => Ok(Acquired::Held {
                holder: grant.holder,
                token: grant.token,
                remaining: grant.remaining,
            }),
            None => Err(self
                .table
                .unfit("a row of it vanished; rows are never to be deleted")),
        }
    }

    /// Keeps a grant for another TTL, counted from before this call. A lease that has run out is not
    /// brought back, even if nobody was granted the resource since: ask for a new grant.
    ///
    /// # Errors
    ///
    /// [`SqlError::Database`]; it may be repeated.
    pub async fn renew(&self, sequencer: &Sequencer, ttl: Ttl) -> Result<Kept, SqlError> {
        let statement = statements::prolong(&self.table, sequencer, Some(ttl));
        self.touch(sequencer, statement).await
    }

    /// Gives a resource back. It is free for everybody at once; the token stays in the row.
    ///
    /// # Errors
    ///
    /// [`SqlError::Database`]; it may be repeated, and says [`Kept::Ended`] if it had taken effect.
    pub async fn release(&self, sequencer: &Sequencer) -> Result<Kept, SqlError> {
        let statement = statements::prolong(&self.table, sequencer, None);
        self.touch(sequencer, statement).await
    }

    /// Lifts the tokens of a resource: the next one is higher than `above`. For a database that was
    /// restored, or that follows another issuer. It never lowers anything; a grant that is live and had
    /// a lower token can no longer be renewed.
    ///
    /// # Errors
    ///
    /// [`SqlError::Database`]; it may be repeated.
    pub async fn raise(&self, resource: &ResourceName, above: TokenValue) -> Result<(), SqlError> {
        let mut connection = self.pool.acquire().await?;
        for statement in statements::raise::<DB>(&self.table, resource, above) {
            DB::execute(&mut connection, statement).await?;
        }
        Ok(())
    }

    /// The last grant of a resource, live or not. Nothing may be decided by it.
    ///
    /// # Errors
    ///
    /// [`SqlError::Database`], and [`SqlError::Mark`] for a stored token that is none.
    pub async fn inspect(&self, resource: &ResourceName) -> Result<Option<TableGrant>, SqlError> {
        let mut connection = self.pool.acquire().await?;
        let question = statements::inspect::<DB>(&self.table, resource);
        let rows = DB::ask(&mut connection, question).await?;
        let Some(mut cells) = rows.into_iter().next().map(Vec::into_iter) else {
            return Ok(None);
        };
        let mut next = || cells.next().flatten().unwrap_or_default();
        let (holder, token, remaining) = (next(), next(), next());
        let holder = Holder::new(&*holder).map_err(|_| self.bad(&holder))?;
        let remaining: i64 = remaining.parse().map_err(|_| self.bad(&remaining))?;
        Ok(Some(TableGrant {
            holder,
            token: self.token(&token)?,
            remaining: Duration::from_micros(u64::try_from(remaining).unwrap_or(0)),
        }))
    }

    /// One statement that grants or does not, and says which.
    async fn grant_at_once(
        &self,
        resource: &ResourceName,
        holder: &Holder,
        ttl: Ttl,
    ) -> Result<Option<TokenValue>, SqlError> {
        let mut connection = self.pool.acquire().await?;
        let statement = statements::grant::<DB>(&self.table, resource, holder, ttl);
        let rows = DB::ask(&mut connection, statement).await?;
        self.first_token(rows)
    }

    /// Three statements that hold the row's lock from the first one on: MySQL's upsert has no
    /// condition, and its UPDATE does not say what it wrote.
    async fn grant_locked(
        &self,
        resource: &ResourceName,
        holder: &Holder,
        ttl: Ttl,
    ) -> Result<Option<TokenValue>, SqlError> {
        let mut transaction = begin(&self.pool).await?;
        let hold = statements::hold_row::<DB>(&self.table, resource, holder);
        DB::execute(&mut transaction, hold).await?;
        let grant = statements::grant_held_row::<DB>(&self.table, resource, holder, ttl);
        let granted = DB::execute(&mut transaction, grant).await? > 0;
        let question = statements::token_of_held_row::<DB>(&self.table, resource);
        let token = self.first_token(DB::ask(&mut transaction, question).await?)?;
        transaction.commit().await?;
        Ok(token.filter(|_| granted))
    }

    async fn touch(
        &self,
        sequencer: &Sequencer,
        statement: super::sql::Statement<DB>,
    ) -> Result<Kept, SqlError> {
        // Another issuer's token may be the same number.
        if sequencer.issuer != self.issuer {
            return Ok(Kept::Ended);
        }
        let mut connection = self.pool.acquire().await?;
        Ok(match DB::execute(&mut connection, statement).await? {
            0 => Kept::Ended,
            _ => Kept::Kept,
        })
    }

    fn first_token(&self, rows: Vec<super::sql::Cells>) -> Result<Option<TokenValue>, SqlError> {
        let Some(cells) = rows.into_iter().next() else {
            return Ok(None);
        };
        let text = cells.into_iter().next().flatten().unwrap_or_default();
        self.token(&text).map(Some)
    }

    fn token(&self, text: &str) -> Result<TokenValue, SqlError> {
        text.parse().map_err(|_| self.bad(text))
    }

    fn bad(&self, found: &str) -> SqlError {
        SqlError::Mark {
            table: self.table.shown(),
            found: found.chars().take(80).collect(),
        }
    }

    fn sequencer(&self, resource: &ResourceName, token: TokenValue) -> Sequencer {
        Sequencer {
            issuer: self.issuer.clone(),
            resource: resource.clone(),
            token,
        }
    }
}

impl<DB: Dialect> Clone for IssuerTable<DB> {
    fn clone(&self) -> Self {
        Self {
            pool: self.pool.clone(),
            table: Arc::clone(&self.table),
            issuer: self.issuer.clone(),
            dialect: PhantomData,
        }
    }
}

impl<DB: Dialect> std::fmt::Debug for IssuerTable<DB> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IssuerTable")
            .field("table", &self.table.shown())
            .field("issuer", &self.issuer)
            .finish_non_exhaustive()
    }
}
