//! Rows that carry their own mark: the statements, and what "no rows" turns out to have been.

use fencepost::fence::sql::{GuardedTable, RowWrite, SqlError, WriteOutcome};
use sqlx::{Connection as _, Executor as _};

use crate::scene::{ACCOUNT, Database, resource, rules, sequencer, token};

fn stale(presented: u64, required: u64) -> WriteOutcome {
    WriteOutcome::Stale {
        presented: token(presented),
        required: token(required),
    }
}

fn write(accounts: &GuardedTable<sqlx::Sqlite>, value: u64) -> RowWrite<'_, sqlx::Sqlite> {
    accounts.write(&resource(ACCOUNT), &sequencer(value))
}

#[tokio::test]
async fn an_update_of_a_missing_row_is_not_taken_for_stale() {
    let database = Database::new().await;
    let (accounts, mut connection) = (database.accounts(rules()).await, database.connect().await);
    let missing = write(&accounts, 5).key(2).set("balance", 1);
    let outcome = missing.update(&mut connection).await.unwrap();
    assert_eq!(outcome, WriteOutcome::NoSuchRow);
    assert_eq!(database.account(2).await, None);
}

#[tokio::test]
async fn an_upsert_makes_the_row_with_its_mark_and_then_guards_it() {
    let database = Database::new().await;
    let (accounts, mut connection) = (database.accounts(rules()).await, database.connect().await);
    let mut upsert = async |value, balance: i64| {
        let write = write(&accounts, value).key(2).set("balance", balance);
        write.upsert(&mut connection).await.unwrap()
    };
    assert_eq!(upsert(5, 50).await, WriteOutcome::Written);
    assert_eq!(database.account(2).await, Some((50, 5)));
    assert_eq!(upsert(4, 40).await, stale(4, 5));
    assert_eq!(upsert(5, 51).await, WriteOutcome::Written);
    assert_eq!(upsert(6, 60).await, WriteOutcome::Written);
    assert_eq!(database.account(2).await, Some((60, 6)));
    assert_eq!(
        database.account(1).await,
        Some((0, 0)),
        "no other row was touched"
    );
}

#[tokio::test]
async fn in_the_callers_transaction_nothing_is_kept_until_it_commits() {
    let database = Database::new().await;
    let (accounts, mut connection) = (database.accounts(rules()).await, database.connect().await);
    let mut tx = connection.begin().await.unwrap();
    let outcome = write(&accounts, 9)
        .key(1)
        .set("balance", 9)
        .update(&mut tx)
        .await;
    assert_eq!(outcome.unwrap(), WriteOutcome::Written);
    let outcome = write(&accounts, 8)
        .key(1)
        .set("balance", 8)
        .update(&mut tx)
        .await;
    assert_eq!(
        outcome.unwrap(),
        stale(8, 9),
        "the transaction sees its own mark"
    );
    tx.rollback().await.unwrap();
    assert_eq!(
        database.account(1).await,
        Some((0, 0)),
        "mark and data went together"
    );

    let mut tx = connection.begin().await.unwrap();
    let outcome = write(&accounts, 3)
        .key(1)
        .set("balance", 3)
        .update(&mut tx)
        .await;
    assert_eq!(outcome.unwrap(), WriteOutcome::Written);
    tx.commit().await.unwrap();
    assert_eq!(database.account(1).await, Some((3, 3)));
}

#[tokio::test]
async fn a_statement_of_ones_own_is_explained() {
    let database = Database::new().await;
    let (accounts, mut connection) = (database.accounts(rules()).await, database.connect().await);
    let mut add = async |id: i64, value: u64| {
        let mut tx = connection.begin().await.unwrap();
        let done = sqlx::query(
            "UPDATE accounts SET balance = balance + 10, fencing_token = ?1 \
             WHERE id = ?2 AND fencing_token <= ?1",
        )
        .bind(token(value).as_i64())
        .bind(id)
        .execute(&mut *tx)
        .await
        .unwrap();
        let asked = write(&accounts, value).key(id);
        let outcome = asked.explain(done.rows_affected(), &mut tx).await.unwrap();
        tx.commit().await.unwrap();
        outcome
    };
    assert_eq!(add(1, 5).await, WriteOutcome::Written);
    assert_eq!(add(1, 4).await, stale(4, 5));
    assert_eq!(add(2, 5).await, WriteOutcome::NoSuchRow);
    assert_eq!(add(1, 5).await, WriteOutcome::Written);
    assert_eq!(database.account(1).await, Some((20, 5)));
}

#[tokio::test]
async fn a_key_of_several_columns_names_one_row() {
    let database = Database::new().await;
    let mut connection = database.connect().await;
    let create = "CREATE TABLE stock (shop TEXT, item TEXT, amount INTEGER NOT NULL, note TEXT,
                  mark BIGINT NOT NULL DEFAULT 0, UNIQUE (item, shop))";
    connection.execute(create).await.unwrap();
    let stock = GuardedTable::<sqlx::Sqlite>::open(
        &mut connection,
        "stock",
        &["shop", "item"],
        "mark",
        rules(),
    );
    let stock = stock.await.unwrap();
    for (shop, amount) in [("north", 1), ("south", 2), ("north", 3)] {
        let write = write(&stock, 5)
            .key(shop)
            .key("nails")
            .set("amount", amount);
        let write = write.set("note", None::<String>);
        let outcome = write.upsert(&mut connection).await.unwrap();
        assert_eq!(outcome, WriteOutcome::Written);
    }
    let rows: Vec<(String, i64)> = sqlx::query_as("SELECT shop, amount FROM stock ORDER BY shop")
        .fetch_all(&mut connection)
        .await
        .unwrap();
    assert_eq!(rows, [("north".to_owned(), 3), ("south".to_owned(), 2)]);
    let late = write(&stock, 4).key("north").key("nails").set("amount", 0);
    let outcome = late.update(&mut connection).await.unwrap();
    assert_eq!(outcome, stale(4, 5));
}

#[tokio::test]
async fn values_are_bound_and_never_read_as_sql() {
    let database = Database::new().await;
    let mut connection = database.connect().await;
    let create = "CREATE TABLE notes (id TEXT PRIMARY KEY, body TEXT, t INT NOT NULL DEFAULT 0)";
    connection.execute(create).await.unwrap();
    let notes = GuardedTable::<sqlx::Sqlite>::open(&mut connection, "notes", &["id"], "t", rules());
    let notes = notes.await.unwrap();
    let nasty = "x'); DROP TABLE notes; --\" ?1 \u{1f980}";
    let outcome = write(&notes, 5)
        .key(nasty)
        .set("body", nasty)
        .upsert(&mut connection)
        .await;
    assert_eq!(outcome.unwrap(), WriteOutcome::Written);
    let stored: (String, String) = sqlx::query_as("SELECT id, body FROM notes")
        .fetch_one(&mut connection)
        .await
        .unwrap();
    assert_eq!(stored, (nasty.to_owned(), nasty.to_owned()));
}

#[tokio::test]
async fn a_mistake_in_a_write_is_named_and_nothing_is_written() {
    let database = Database::new().await;
    let (accounts, mut connection) = (database.accounts(rules()).await, database.connect().await);
    let cases = [
        (
            write(&accounts, 5).set("balance", 1),
            "key values before the columns",
        ),
        (write(&accounts, 5).key(1), "sets no column"),
        (
            write(&accounts, 5).key(1).key(2).set("balance", 1),
            "more key values",
        ),
        (
            write(&accounts, 5)
                .key(1)
                .set("balance", 1)
                .set("BALANCE", 2),
            "set already",
        ),
        (
            write(&accounts, 5).key(1).set("fencing_token", 99),
            "set already",
        ),
        (write(&accounts, 5).key(1).set("id", 2), "set already"),
        (
            write(&accounts, 5).key(1).set("bal\"ance", 2),
            "only ASCII letters",
        ),
        (write(&accounts, 5).key(1).set("", 2), "it is empty"),
    ];
    for (wrong, reason) in cases {
        let error = wrong.update(&mut connection).await.unwrap_err();
        assert!(
            error.to_string().contains(reason),
            "{error} lacks {reason:?}"
        );
        assert!(!error.may_retry());
    }
    let unknown = write(&accounts, 5).key(1).set("balanc", 2);
    let error = unknown.update(&mut connection).await.unwrap_err();
    assert!(matches!(error, SqlError::Database(_)), "{error}");
    assert_eq!(database.account(1).await, Some((0, 0)));
}

#[tokio::test]
async fn a_busy_database_is_an_error_that_may_be_retried() {
    let database = Database::new().await;
    let (accounts, mut blocker) = (database.accounts(rules()).await, database.connect().await);
    let mut connection = database.connect().await;
    connection.execute("PRAGMA busy_timeout = 0").await.unwrap();
    let held = blocker.begin_with("BEGIN IMMEDIATE").await.unwrap();
    let error = write(&accounts, 5)
        .key(1)
        .set("balance", 1)
        .update(&mut connection)
        .await;
    assert!(error.unwrap_err().may_retry());
    held.rollback().await.unwrap();
    let outcome = write(&accounts, 5)
        .key(1)
        .set("balance", 1)
        .update(&mut connection)
        .await;
    assert_eq!(outcome.unwrap(), WriteOutcome::Written);
}
