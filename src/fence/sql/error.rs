//! What can break between a guard and its database.

use crate::{fence::enforcement::Refused, limits::TOKEN_VALUE_MAX};

/// A failure of an SQL guard. Refusals are not among them; they are verdicts and outcomes.
///
/// After any of these, nothing of the call was written, save for a [`SqlError::Database`] from a
/// commit whose answer was lost. Repeating a call with the same sequencer is safe in each case: it
/// is admitted again, or has become stale meanwhile. Inside the caller's transaction, roll back.
#[derive(Debug, thiserror::Error)]
pub enum SqlError {
    /// A table or column name that cannot be used.
    #[error("\"{name}\" cannot be the name of a {what}: {reason}")]
    Identifier {
        /// `table` or `column`.
        what: &'static str,
        /// The name as given, cut to 80 characters.
        name: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The table is not fit to carry tokens; the message says what to change.
    #[error("table \"{table}\" cannot be guarded: {reason}")]
    Unfit {
        /// The table.
        table: String,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// A write that does not fit its table: a key column without a value, a column set twice, or
    /// nothing to set.
    #[error("this write to table \"{table}\" is incomplete: {reason}")]
    Write {
        /// The table.
        table: String,
        /// What is missing or too much.
        reason: String,
    },
    /// A stored mark is not a token, so that nothing can be compared with it.
    #[error(
        "table \"{table}\" holds \"{found}\" where a fencing token, at most {TOKEN_VALUE_MAX}, should be"
    )]
    Mark {
        /// The table.
        table: String,
        /// What was found there.
        found: String,
    },
    /// What is stored as a row's version is no whole number, so that it cannot be counted up.
    #[error(
        "table \"{table}\" holds \"{found}\" in column \"{column}\", where a version should be"
    )]
    Version {
        /// The table.
        table: String,
        /// The column that was named as the version.
        column: String,
        /// What was found there.
        found: String,
    },
    /// At this transaction's isolation level the guard could not protect what comes next. Roll back;
    /// the message says what to do otherwise.
    #[error("refused at isolation level {level}: {reason}")]
    Isolation {
        /// The level, by its name in SQL.
        level: &'static str,
        /// What would go wrong, and what to do.
        reason: &'static str,
    },
    /// The database refused or failed.
    #[error("the database failed: {0}")]
    Database(#[from] sqlx::Error),
}

impl SqlError {
    /// True where the same may succeed in a moment, from the start of the transaction: the database
    /// was busy, no connection was free in time, or another transaction was in the way (a
    /// serialization failure, a deadlock, a lock that was not had in time, a snapshot that was too
    /// old). Roll back, and run the whole transaction again, its reads included.
    ///
    /// It says so of a failed commit, too: `SqlError::from(error).may_retry()`. PostgreSQL's
    /// SERIALIZABLE decides only there.
    #[must_use]
    pub fn may_retry(&self) -> bool {
        match self {
            Self::Isolation { .. } | Self::Database(sqlx::Error::PoolTimedOut) => true,
            Self::Database(sqlx::Error::Database(error)) => {
                let code = error.code();
                code.is_some_and(|code| in_the_way(&code, || error.to_string()))
            }
            _ => false,
        }
    }

    /// What a trigger of [`enforcement`](crate::fence::enforcement) refused, if that is what failed.
    /// Nothing of the statement was done; in PostgreSQL, the transaction around it is over, too.
    #[must_use]
    pub fn refused(&self) -> Option<Refused> {
        match self {
            Self::Database(error) => refused_by_trigger(error),
            _ => None,
        }
    }

    /// Whether an INSERT met a row with a unique key of the new one's.
    pub(super) fn met_a_row(&self) -> bool {
        match self {
            Self::Database(sqlx::Error::Database(error)) => error.is_unique_violation(),
            _ => false,
        }
    }
}

/// What a trigger of [`enforcement`](crate::fence::enforcement) refused, if that is what this error of
/// sqlx's is: for statements of your own, which know nothing of guards.
#[must_use]
pub fn refused_by_trigger(error: &sqlx::Error) -> Option<Refused> {
    let error = error.as_database_error()?;
    let refused = Refused::from_message(error.message())?;
    // Where there are codes, the text alone is not enough: a value could have been quoted in it.
    let code = error.code().unwrap_or_default();
    (code.len() < 5 || code == refused.sqlstate()).then_some(refused)
}

/// Whether a database's error code says that another transaction was in the way.
fn in_the_way(code: &str, shown: impl FnOnce() -> String) -> bool {
    match code {
        // SQLSTATE: serialization failure (MySQL's deadlocks, 1213, among them), PostgreSQL's
        // deadlock, and a lock that was not had in time.
        "40001" | "40P01" | "55P03" => true,
        // MySQL's "general error" needs a look at its own number, with which its text begins: 1205 is
        // a lock wait that took too long, 1020 a row that changed since the snapshot.
        "HY000" => {
            let shown = shown();
            shown.starts_with("1205 ") || shown.starts_with("1020 ")
        }
        // SQLite's numbers: SQLITE_BUSY (5) and SQLITE_LOCKED (6), and their extended codes, which
        // carry the primary one in the low byte. They have at most four digits; a SQLSTATE has five.
        _ if code.len() < 5 => {
            let number = code.parse::<u32>().ok();
            number.is_some_and(|number| matches!(number & 0xff, 5 | 6))
        }
        _ => false,
    }
}
