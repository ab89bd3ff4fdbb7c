//! What can break between a guard and its database.

use crate::limits::TOKEN_VALUE_MAX;

/// A failure of an SQL guard. Refusals are not among them; they are verdicts and outcomes.
///
/// After any of these, nothing of the call was written, save for a [`SqlError::Database`] from a
/// commit whose answer was lost. Repeating a call with the same sequencer is safe in each case: it
/// is admitted again, or has become stale meanwhile.
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
    /// The database refused or failed.
    #[error("the database failed: {0}")]
    Database(#[from] sqlx::Error),
}

impl SqlError {
    /// True where the same call may succeed in a moment: the database was busy, or no connection
    /// was free in time.
    #[must_use]
    pub fn may_retry(&self) -> bool {
        match self {
            Self::Database(sqlx::Error::PoolTimedOut) => true,
            // SQLITE_BUSY (5) and SQLITE_LOCKED (6), and their extended codes, which carry the
            // primary one in the low byte.
            Self::Database(sqlx::Error::Database(error)) => error
                .code()
                .and_then(|code| code.parse::<u32>().ok())
                .is_some_and(|code| matches!(code & 0xff, 5 | 6)),
            _ => false,
        }
    }
}
