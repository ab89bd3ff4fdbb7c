//! Token and version in one statement, and which of the two refused.

use fencepost::fence::sql::{RowWrite, SqlError, WriteOutcome};

use super::{
    database::{Database, Server},
    on_each_database,
};
use crate::scene::{ACCOUNT, resource, rules, sequencer, token};

on_each_database!(
    a_write_tells_a_stale_token_from_a_version_conflict,
    a_statement_of_ones_own_with_a_version_is_explained,
    a_mistake_about_a_version_is_named_and_nothing_is_written,
);

const VERSION: &str = "SELECT balance, version, fencing_token FROM accounts WHERE id = 1";

async fn a_write_tells_a_stale_token_from_a_version_conflict<DB: Server>(database: Database<DB>) {
    let (accounts, mut connection) = (database.accounts(rules()).await, database.connect().await);
    let mut write = async |id, value, version| {
        let write = accounts.write(&resource(ACCOUNT), &sequencer(value));
        let balance = DB::number(i64::try_from(value).unwrap());
        let write = write.key(DB::number(id)).set("balance", balance);
        let write = write.expecting("version", version);
        write.update(&mut connection).await.unwrap()
    };
    let conflict = |expected, found| WriteOutcome::VersionConflict { expected, found };
    let stale = WriteOutcome::Stale {
        presented: token(6),
        required: token(7),
    };
    assert_eq!(write(1, 7, 0).await, WriteOutcome::Written);
    assert_eq!(
        write(1, 7, 0).await,
        conflict(0, 1),
        "one lease, two writers"
    );
    assert_eq!(
        write(1, 8, 2).await,
        conflict(2, 1),
        "a version of the future"
    );
    assert_eq!(write(1, 6, 1).await, stale, "the right version is no token");
    assert_eq!(write(1, 6, 0).await, stale, "the token is told first");
    assert_eq!(write(1, 7, 1).await, WriteOutcome::Written);
    assert_eq!(write(2, 7, 1).await, WriteOutcome::NoSuchRow);
    let row = DB::numbers(&mut connection, VERSION).await.unwrap();
    assert_eq!(row, [[7, 2, 7]]);
}

async fn a_statement_of_ones_own_with_a_version_is_explained<DB: Server>(database: Database<DB>) {
    let (accounts, mut connection) = (database.accounts(rules()).await, database.connect().await);
    let mut add = async |value: u64, version: i64| {
        let mut tx = DB::begin(&mut connection, DB::USUAL).await.unwrap();
        let add = format!(
            "UPDATE accounts SET balance = balance + 10, version = version + 1,
                 fencing_token = {value}
             WHERE id = 1 AND fencing_token <= {value} AND version = {version}"
        );
        let met = DB::count(&mut tx, &add).await.unwrap();
        let asked = accounts.write(&resource(ACCOUNT), &sequencer(value));
        let asked = asked.key(DB::number(1)).expecting("version", version);
        let outcome = asked.explain(met, &mut tx).await.unwrap();
        tx.commit().await.unwrap();
        outcome
    };
    assert_eq!(add(5, 0).await, WriteOutcome::Written);
    let conflict = WriteOutcome::VersionConflict {
        expected: 0,
        found: 1,
    };
    assert_eq!(add(5, 0).await, conflict);
    assert!(matches!(add(4, 0).await, WriteOutcome::Stale { .. }));
    assert_eq!(add(5, 1).await, WriteOutcome::Written);
    let row = DB::numbers(&mut connection, VERSION).await.unwrap();
    assert_eq!(row, [[20, 2, 5]]);
}

async fn a_mistake_about_a_version_is_named_and_nothing_is_written<DB: Server>(
    database: Database<DB>,
) {
    database
        .run("UPDATE accounts SET version = 7 WHERE id = 1")
        .await;
    let (accounts, mut connection) = (database.accounts(rules()).await, database.connect().await);
    let write = || -> RowWrite<'_, DB> {
        let write = accounts.write(&resource(ACCOUNT), &sequencer(5));
        write.key(DB::number(1)).set("balance", DB::number(5))
    };
    let wrong = [
        (
            write().expecting("version", 7).expecting("balance", 7),
            "set already",
        ),
        (
            write().expecting("version", 7).expecting("version", 7),
            "set already",
        ),
        (
            write().expecting("version", 7).expecting("x", 7),
            "two versions",
        ),
        (
            write()
                .expecting("version", 7)
                .set("version", DB::number(1)),
            "set already",
        ),
        (write().expecting("fencing_token", 7), "set already"),
        (write().expecting("id", 1), "set already"),
        (write().expecting("ver;sion", 1), "only ASCII letters"),
        (
            write().expecting("version", i64::MAX),
            "no version can follow",
        ),
    ];
    for (wrong, reason) in wrong {
        let error = wrong.update(&mut connection).await.unwrap_err();
        assert!(
            error.to_string().contains(reason),
            "{error} lacks {reason:?}"
        );
    }
    let upsert = write()
        .expecting("version", 7)
        .upsert(&mut connection)
        .await;
    let error = upsert.unwrap_err();
    assert!(error.to_string().contains("is for `update`"), "{error}");
    let row = DB::numbers(&mut connection, VERSION).await.unwrap();
    assert_eq!(row, [[0, 7, 0]]);

    let unknown = write().expecting("verson", 7).update(&mut connection).await;
    assert!(matches!(unknown, Err(SqlError::Database(_))), "{unknown:?}");
}
