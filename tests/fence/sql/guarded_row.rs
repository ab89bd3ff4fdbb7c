//! Rows that carry their own mark: the statements, and what "no rows" turns out to have been.

use fencepost::fence::sql::{GuardedTable, RowWrite, SqlError, WriteOutcome};
use sqlx::{Connection as _, Encode, MySql, Type};

use crate::databases;
use crate::scene::{ACCOUNT, resource, rules, sequencer, token};
use crate::sql::{
    database::{Database, Server},
    on_each_database,
};

on_each_database!(
    an_update_of_a_missing_row_is_not_taken_for_stale,
    an_upsert_makes_the_row_with_its_mark_and_then_guards_it,
    in_the_callers_transaction_nothing_is_kept_until_it_commits,
    a_statement_of_ones_own_is_explained,
    a_key_of_several_columns_names_one_row,
    values_are_bound_and_never_read_as_sql,
    a_mistake_in_a_write_is_named_and_nothing_is_written,
    a_key_is_never_null,
    a_busy_database_is_an_error_that_may_be_retried,
);

fn stale(presented: u64, required: u64) -> WriteOutcome {
    WriteOutcome::Stale {
        presented: token(presented),
        required: token(required),
    }
}

fn write<DB: Server>(accounts: &GuardedTable<DB>, value: u64) -> RowWrite<'_, DB> {
    accounts.write(&resource(ACCOUNT), &sequencer(value))
}

async fn an_update_of_a_missing_row_is_not_taken_for_stale<DB: Server>(database: Database<DB>) {
    let (accounts, mut connection) = (database.accounts(rules()).await, database.connect().await);
    let missing = write(&accounts, 5)
        .key(DB::number(2))
        .set("balance", DB::number(1));
    let outcome = missing.update(&mut connection).await.unwrap();
    assert_eq!(outcome, WriteOutcome::NoSuchRow);
    assert_eq!(database.account(2).await, None);
}

async fn an_upsert_makes_the_row_with_its_mark_and_then_guards_it<DB: Server>(
    database: Database<DB>,
) {
    let (accounts, mut connection) = (database.accounts(rules()).await, database.connect().await);
    let mut upsert = async |value, balance: i64| {
        let write = write(&accounts, value)
            .key(DB::number(2))
            .set("balance", DB::number(balance));
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

async fn in_the_callers_transaction_nothing_is_kept_until_it_commits<DB: Server>(
    database: Database<DB>,
) {
    let (accounts, mut connection) = (database.accounts(rules()).await, database.connect().await);
    let mut tx = connection.begin().await.unwrap();
    let outcome = write(&accounts, 9)
        .key(DB::number(1))
        .set("balance", DB::number(9))
        .update(&mut tx)
        .await;
    assert_eq!(outcome.unwrap(), WriteOutcome::Written);
    let outcome = write(&accounts, 8)
        .key(DB::number(1))
        .set("balance", DB::number(8))
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
        .key(DB::number(1))
        .set("balance", DB::number(3))
        .update(&mut tx)
        .await;
    assert_eq!(outcome.unwrap(), WriteOutcome::Written);
    tx.commit().await.unwrap();
    assert_eq!(database.account(1).await, Some((3, 3)));
}

async fn a_statement_of_ones_own_is_explained<DB: Server>(database: Database<DB>) {
    let (accounts, mut connection) = (database.accounts(rules()).await, database.connect().await);
    let mut add = async |id: i64, value: u64| {
        let mut tx = connection.begin().await.unwrap();
        let add = format!(
            "UPDATE accounts SET balance = balance + 10, fencing_token = {value} \
             WHERE id = {id} AND fencing_token <= {value}"
        );
        let met = DB::count(&mut tx, &add).await.unwrap();
        let asked = write(&accounts, value).key(DB::number(id));
        let outcome = asked.explain(met, &mut tx).await.unwrap();
        tx.commit().await.unwrap();
        outcome
    };
    assert_eq!(add(1, 5).await, WriteOutcome::Written);
    assert_eq!(add(1, 4).await, stale(4, 5));
    assert_eq!(add(2, 5).await, WriteOutcome::NoSuchRow);
    assert_eq!(add(1, 5).await, WriteOutcome::Written);
    assert_eq!(database.account(1).await, Some((20, 5)));
}

async fn a_key_of_several_columns_names_one_row<DB: Server>(database: Database<DB>) {
    let mut connection = database.connect().await;
    let name = DB::NAMES;
    let create = format!(
        "CREATE TABLE stock (shop {name}, item {name}, amount BIGINT NOT NULL,
         mark BIGINT NOT NULL DEFAULT 0, UNIQUE (item, shop))"
    );
    database.run(&create).await;
    let stock =
        GuardedTable::<DB>::open(&mut connection, "stock", &["shop", "item"], "mark", rules());
    let stock = stock.await.unwrap();
    for (shop, amount) in [("north", 1), ("south", 2), ("north", 3)] {
        let write = write(&stock, 5)
            .key(DB::text(shop))
            .key(DB::text("nails"))
            .set("amount", DB::number(amount));
        let outcome = write.upsert(&mut connection).await.unwrap();
        assert_eq!(outcome, WriteOutcome::Written);
    }
    let amounts = "SELECT amount FROM stock ORDER BY shop";
    let amounts = DB::numbers(&mut connection, amounts).await.unwrap();
    assert_eq!(amounts, [[3], [2]]);
    let late = write(&stock, 4)
        .key(DB::text("north"))
        .key(DB::text("nails"))
        .set("amount", DB::number(0));
    let outcome = late.update(&mut connection).await.unwrap();
    assert_eq!(outcome, stale(4, 5));
}

async fn values_are_bound_and_never_read_as_sql<DB: Server>(database: Database<DB>) {
    let mut connection = database.connect().await;
    let name = DB::NAMES;
    let create = format!(
        "CREATE TABLE notes (id {name} PRIMARY KEY, body {name}, t BIGINT NOT NULL DEFAULT 0)"
    );
    database.run(&create).await;
    let notes = GuardedTable::<DB>::open(&mut connection, "notes", &["id"], "t", rules());
    let notes = notes.await.unwrap();
    let nasty = "x'); DROP TABLE notes; --\" ?1 \u{1f980}";
    let write = |value| {
        let write = write(&notes, value).key(DB::text(nasty));
        write.set("body", DB::text(nasty))
    };
    let outcome = write(5).upsert(&mut connection).await.unwrap();
    assert_eq!(outcome, WriteOutcome::Written);
    let outcome = write(6).update(&mut connection).await.unwrap();
    assert_eq!(outcome, WriteOutcome::Written);
    let stored = "SELECT t FROM notes WHERE id = body";
    let stored = DB::numbers(&mut connection, stored).await.unwrap();
    assert_eq!(stored, [[6]]);
}

async fn a_mistake_in_a_write_is_named_and_nothing_is_written<DB: Server>(database: Database<DB>) {
    let (accounts, mut connection) = (database.accounts(rules()).await, database.connect().await);
    let cases = [
        (
            write(&accounts, 5).set("balance", DB::number(1)),
            "key values before the columns",
        ),
        (write(&accounts, 5).key(DB::number(1)), "sets no column"),
        (
            write(&accounts, 5)
                .key(DB::number(1))
                .key(DB::number(2))
                .set("balance", DB::number(1)),
            "more key values",
        ),
        (
            write(&accounts, 5)
                .key(DB::number(1))
                .set("balance", DB::number(1))
                .set("BALANCE", DB::number(2)),
            "set already",
        ),
        (
            write(&accounts, 5)
                .key(DB::number(1))
                .set("fencing_token", DB::number(99)),
            "set already",
        ),
        (
            write(&accounts, 5)
                .key(DB::number(1))
                .set("id", DB::number(2)),
            "set already",
        ),
        (
            write(&accounts, 5)
                .key(DB::number(1))
                .set("bal\"ance", DB::number(2)),
            "only ASCII letters",
        ),
        (
            write(&accounts, 5)
                .key(DB::number(1))
                .set("", DB::number(2)),
            "it is empty",
        ),
    ];
    for (wrong, reason) in cases {
        let error = wrong.update(&mut connection).await.unwrap_err();
        assert!(
            error.to_string().contains(reason),
            "{error} lacks {reason:?}"
        );
        assert!(!error.may_retry());
    }
    let unknown = write(&accounts, 5)
        .key(DB::number(1))
        .set("balanc", DB::number(2));
    let error = unknown.update(&mut connection).await.unwrap_err();
    assert!(matches!(error, SqlError::Database(_)), "{error}");
    assert_eq!(database.account(1).await, Some((0, 0)));
}

/// A unique index takes any number of NULLs, each with a mark of its own: a second write would meet none.
async fn a_key_is_never_null<DB: Server>(database: Database<DB>)
where
    Option<i64>: for<'v> Encode<'v, DB> + Type<DB>,
{
    let mut connection = database.connect().await;
    let create = "CREATE TABLE slots (id BIGINT UNIQUE, body BIGINT, t BIGINT NOT NULL DEFAULT 0)";
    database.run(create).await;
    let slots = GuardedTable::<DB>::open(&mut connection, "slots", &["id"], "t", rules());
    let slots = slots.await.unwrap();
    let keyed = |key: Option<i64>| {
        let write = write(&slots, 5).key(key);
        write.set("body", DB::number(1))
    };
    let error = keyed(None).upsert(&mut connection).await.unwrap_err();
    assert!(
        error.to_string().contains("\"id\" is given NULL"),
        "{error}"
    );
    let stored = "SELECT t FROM slots";
    let none = DB::numbers(&mut connection, stored).await.unwrap();
    assert!(none.is_empty(), "{none:?}");
    let outcome = keyed(Some(1)).upsert(&mut connection).await.unwrap();
    assert_eq!(outcome, WriteOutcome::Written);
}

async fn a_busy_database_is_an_error_that_may_be_retried<DB: Server>(database: Database<DB>) {
    let (accounts, mut blocker) = (database.accounts(rules()).await, database.connect().await);
    let mut connection = database.connect().await;
    DB::run(&mut connection, DB::IMPATIENT).await.unwrap();
    let mut held = blocker.begin().await.unwrap();
    let hold = "UPDATE accounts SET balance = 1 WHERE id = 1";
    DB::run(&mut held, hold).await.unwrap();
    let error = write(&accounts, 5)
        .key(DB::number(1))
        .set("balance", DB::number(1))
        .update(&mut connection)
        .await;
    assert!(error.unwrap_err().may_retry());
    held.rollback().await.unwrap();
    let outcome = write(&accounts, 5)
        .key(DB::number(1))
        .set("balance", DB::number(1))
        .update(&mut connection)
        .await;
    assert_eq!(outcome.unwrap(), WriteOutcome::Written);
}

/// MariaDB's own client counts changed rows, and says 0 of a row that was written with the same values
/// under the same token. That is neither stale nor lost.
#[tokio::test]
async fn no_rows_of_a_client_that_counts_changed_ones_are_not_taken_for_stale() {
    let Some(database) = Database::<MySql>::new().await else {
        return;
    };
    let (accounts, mut connection) = (database.accounts(rules()).await, database.connect().await);
    let name = MySql::texts(&mut connection, "SELECT DATABASE()")
        .await
        .unwrap();
    let server = databases::mariadb().unwrap().server();
    let mut by_the_client = async |value: u64| {
        let update = format!(
            "UPDATE accounts SET balance = 1, fencing_token = {value}
             WHERE id = 1 AND fencing_token <= {value}; SELECT ROW_COUNT()"
        );
        let socket = server.directory().join("socket");
        let told = std::process::Command::new("mariadb")
            .args([
                "--no-defaults",
                "--user=root",
                "--skip-column-names",
                "--execute",
                &update,
            ])
            .arg(format!("--socket={}", socket.display()))
            .arg(&name[0][0])
            .output()
            .unwrap();
        let count: u64 = String::from_utf8(told.stdout)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        let asked = write(&accounts, value).key(1_i64);
        (count, asked.explain(count, &mut connection).await.unwrap())
    };
    assert_eq!(by_the_client(7).await, (1, WriteOutcome::Written));
    assert_eq!(by_the_client(7).await, (0, WriteOutcome::Written));
    assert_eq!(by_the_client(6).await, (0, stale(6, 7)));
}
