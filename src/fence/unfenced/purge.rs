//! Settled records that are not needed any more.

use std::time::{Duration, SystemTime};

use crate::fence::sql::{Dialect, Statement};

use super::error::CallError;
use super::list::PAGE_MAX;
use super::row;
use super::table::Calls;

/// The most records that one purge deletes.
pub const PURGE_MAX: usize = PAGE_MAX;

impl<DB: Dialect> Calls<DB> {
    /// Deletes settled records that are older than `older_than`, oldest first and at most `limit` of
    /// them; gives how many. Call it until that is less than `limit`. Open calls are never deleted.
    ///
    /// The age counts from the first send, or from the record for what was never sent. A record goes
    /// only when a **newer token was admitted** for its resource, too: until then whoever does the
    /// grant's work again would find no record and send the call once more, and a service that has
    /// forgotten the key would do it once more. So the last grant's records of each resource stay.
    ///
    /// When a call was settled is not recorded: choose an age beyond the time for which one may stay
    /// open and the program may take to act on the answer. Marks that are lost or lowered beside the
    /// table (a restore of one of the two) undo what the condition is for.
    ///
    /// # Errors
    ///
    /// [`CallError::Age`] for an age within [the service's retention](super::Terms::remembers_keys_for);
    /// [`CallError::Page`] unless `limit` is 1 to [`PURGE_MAX`]; [`CallError::Sql`].
    pub async fn purge(
        &self,
        connection: &mut DB::Connection,
        older_than: Duration,
        now: SystemTime,
        limit: usize,
    ) -> Result<u64, CallError> {
        if limit == 0 || limit > PURGE_MAX {
            let (given, limit) = (limit, PURGE_MAX);
            return Err(CallError::Page { given, limit });
        }
        let least = self.terms.retention.unwrap_or_default();
        if older_than < least {
            let given = older_than;
            return Err(CallError::Age { given, least });
        }
        let Some(before) = now.checked_sub(older_than) else {
            return Ok(0);
        };
        let rows = DB::ask(connection, self.past(before, limit)).await?;
        // In one order, so that two who purge at once wait for one another and do not deadlock.
        let mut keys: Vec<_> = rows.into_iter().flatten().flatten().collect();
        if keys.is_empty() {
            return Ok(0);
        }
        keys.sort_unstable();
        // What is settled stays so, and its grant can record nothing more: the rows are still those.
        let mut sql = Statement::<DB>::new("DELETE FROM ");
        sql.push(&self.table.quoted::<DB>()).push(" WHERE ");
        sql.name("call_key").push(" IN (");
        sql.list(&keys, |sql, key| {
            sql.text(key);
        });
        sql.push(") AND ");
        push_settled(&mut sql);
        Ok(DB::execute(connection, sql).await?)
    }

    /// The keys of what may go.
    fn past(&self, before: SystemTime, limit: usize) -> Statement<DB> {
        let quoted = crate::fence::sql::quoted::<DB>;
        let mut sql = Statement::<DB>::new("SELECT ");
        sql.push(&DB::text_as_text(&quoted("call_key")));
        sql.push(" FROM ").push(&self.table.quoted::<DB>());
        sql.push(" AS recorded WHERE ");
        push_settled(&mut sql);
        let (sent, recorded) = (quoted("sent_ms"), quoted("recorded_ms"));
        sql.push(&format!(" AND COALESCE({sent}, {recorded}) < "));
        sql.integer(row::millis(before));
        sql.push(" AND EXISTS (SELECT 1 FROM ");
        sql.push(&self.guard.table().quoted::<DB>());
        sql.push(" AS mark WHERE ");
        let (resource, issuer, token) = (quoted("resource"), quoted("issuer"), quoted("token"));
        sql.push(&format!(
            "mark.{resource} = recorded.{resource} AND mark.{issuer} = recorded.{issuer} \
             AND mark.{token} > recorded.{token}) ORDER BY {recorded} LIMIT {limit}"
        ));
        sql
    }
}

/// `state IN ('done', 'refused')`.
fn push_settled<DB: Dialect>(sql: &mut Statement<DB>) {
    sql.name("state").push(" IN (").text("done").push(", ");
    sql.text("refused").push(")");
}
