//! What is open: for whoever settles it, and for whoever watches that somebody does.

use std::time::{Duration, SystemTime};

use crate::fence::sql::{Dialect, Statement, quoted};

use super::call::Call;
use super::error::CallError;
use super::row;
use super::table::{Calls, push_open};

/// The most calls on one page of a listing.
pub const PAGE_MAX: usize = 1_000;

/// How much is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Backlog {
    /// Calls that were recorded and never sent.
    pub pending: u64,
    /// Calls that may have had their effect.
    pub unknown: u64,
    /// The age of the oldest of both, if there is one. What is older than a few time-outs is looked
    /// after by nobody.
    pub oldest: Option<Duration>,
}

impl<DB: Dialect> Calls<DB> {
    /// The open calls, oldest first: at most `limit` of those that come after `after`, the last one of
    /// the page before.
    ///
    /// # Errors
    ///
    /// [`CallError::Page`] unless `limit` is 1 to [`PAGE_MAX`]; [`CallError::Sql`],
    /// [`CallError::Record`].
    pub async fn open_calls(
        &self,
        connection: &mut DB::Connection,
        after: Option<&Call>,
        limit: usize,
    ) -> Result<Vec<Call>, CallError> {
        if limit == 0 || limit > PAGE_MAX {
            let (given, limit) = (limit, PAGE_MAX);
            return Err(CallError::Page { given, limit });
        }
        let mut sql = row::select::<DB>(&self.table);
        push_open(&mut sql);
        if let Some(last) = after {
            let moment = row::millis(last.recorded_at);
            sql.push(" AND (").name("recorded_ms").push(" > ");
            sql.integer(moment).push(" OR ").name("recorded_ms");
            sql.push(" = ").integer(moment).push(" AND ");
            sql.name("call_key").push(" > ").text(last.key.as_str());
            sql.push(")");
        }
        sql.push(" ORDER BY ").name("recorded_ms").push(", ");
        sql.name("call_key").push(&format!(" LIMIT {limit}"));
        let rows = DB::ask(connection, sql).await?;
        rows.into_iter().map(row::read).collect()
    }

    /// How much is open, for metrics and alerts.
    ///
    /// # Errors
    ///
    /// [`CallError::Sql`], [`CallError::Record`].
    pub async fn backlog(
        &self,
        connection: &mut DB::Connection,
        now: SystemTime,
    ) -> Result<Backlog, CallError> {
        let mut sql = Statement::<DB>::new("SELECT ");
        sql.push(&DB::text_as_text(&quoted::<DB>("state")))
            .push(", ");
        sql.push(&DB::number_as_text("COUNT(*)")).push(", ");
        let oldest = format!("MIN({})", quoted::<DB>("recorded_ms"));
        sql.push(&DB::number_as_text(&oldest));
        sql.push(" FROM ")
            .push(&self.table.quoted::<DB>())
            .push(" WHERE ");
        push_open(&mut sql);
        sql.push(" GROUP BY ").name("state");
        let mut backlog = Backlog::default();
        for cells in DB::ask(connection, sql).await? {
            let wrong = |field| CallError::Record {
                key: "(all)".to_owned(),
                field,
            };
            let [Some(state), Some(count), Some(oldest)] = &cells[..] else {
                return Err(wrong("state"));
            };
            let count = count.parse().map_err(|_| wrong("state"))?;
            match state.as_str() {
                "pending" => backlog.pending = count,
                _ => backlog.unknown = count,
            }
            let oldest = row::moment(oldest).ok_or_else(|| wrong("recorded_ms"))?;
            let age = now.duration_since(oldest).unwrap_or_default();
            backlog.oldest = backlog.oldest.max(Some(age));
        }
        Ok(backlog)
    }
}
