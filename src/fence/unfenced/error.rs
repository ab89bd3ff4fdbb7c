//! What can break about a recorded call.

use crate::fence::sql::SqlError;

use super::key::IdempotencyKey;

/// A failure. Refusals of the guard are not among them.
///
/// After any of these no more was sent than the record says: a call whose state is
/// [`Pending`](super::CallState::Pending) never went out.
#[derive(Debug, thiserror::Error)]
pub enum CallError {
    /// The database failed, or its table is not fit.
    #[error(transparent)]
    Sql(#[from] SqlError),
    /// A call of the same grant and operation asks for something else. Under one key the service would
    /// do only one of the two, whichever came first.
    #[error(
        "a call with the key \"{key}\" is recorded already, and asks for something else: give each call of a grant an operation of its own"
    )]
    KeyTaken {
        /// The key that both would have.
        key: IdempotencyKey,
    },
    /// A grant whose only call is recorded makes another, or one that has made named calls makes an
    /// only one.
    #[error(
        "the grant of \"{key}\" has a call recorded already, and one of the two says that it is the only one: name both by `Operation::named`"
    )]
    NotTheOnly {
        /// The key of the call that was to be recorded.
        key: IdempotencyKey,
    },
    /// What is asked is too long, or cannot be stored as text everywhere.
    #[error("request is {reason}: it may have at most {limit} bytes and no NUL character")]
    Request {
        /// What is wrong with it.
        reason: &'static str,
        /// The most bytes.
        limit: usize,
    },
    /// There is no such call.
    #[error("no call with the key \"{key}\" is recorded")]
    NoSuchCall {
        /// The key.
        key: IdempotencyKey,
    },
    /// The grant that is to vouch for a call is for another resource than the call.
    #[error(
        "the call \"{key}\" is not of the resource \"{resource}\": settle it under a grant of its own"
    )]
    OtherResource {
        /// The call's key.
        key: IdempotencyKey,
        /// The resource of the grant.
        resource: crate::resource::ResourceName,
    },
    /// A page of a listing, or a purge, that is too long, or empty.
    #[error("limit is {given}: a page may have 1 to {limit} calls")]
    Page {
        /// What was asked for.
        given: usize,
        /// The most.
        limit: usize,
    },
    /// Records are to be deleted that may still be needed.
    #[error(
        "age is {given:?}: a settled record is kept for at least {least:?}, for which the service remembers its key"
    )]
    Age {
        /// What was asked for.
        given: std::time::Duration,
        /// The least: the retention that the terms state.
        least: std::time::Duration,
    },
    /// What is stored is no call.
    #[error("the record of the call \"{key}\" has a {field} that cannot be read")]
    Record {
        /// Its key.
        key: String,
        /// The column.
        field: &'static str,
    },
}

impl From<sqlx::Error> for CallError {
    fn from(error: sqlx::Error) -> Self {
        Self::Sql(error.into())
    }
}
