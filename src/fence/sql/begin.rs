//! Beginning a transaction so that giving up leaves no open one behind.

use std::io;

use sqlx::{Error, Pool, Transaction};

use super::Dialect;

/// Begins a transaction, in a task of its own.
///
/// A caller may drop its future while `BEGIN` is on its way. sqlx 0.9.0 does not know of the transaction
/// yet and gives the connection back to the pool with it open (transact-rs/sqlx#4393): the next write on it
/// looks done, and is lost when the connection ends. The task waits for the answer, and then drops a
/// transaction that is known, which is rolled back. Where the runtime ends, so do its connections.
pub(in crate::fence) async fn begin<DB: Dialect>(
    pool: &Pool<DB>,
) -> Result<Transaction<'static, DB>, Error> {
    let pool = pool.clone();
    let begun = tokio::spawn(async move { pool.begin().await });
    match begun.await {
        Ok(begun) => begun,
        Err(error) => Err(Error::Io(io::Error::other(error))),
    }
}
