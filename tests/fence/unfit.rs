//! Tables that would let a stale write through, or block every write, without a word: refused when
//! they are opened, with the reason and the remedy.

use fencepost::fence::sql::{GuardedTable, SqlError, WriteOutcome};
use sqlx::{Executor as _, SqliteConnection};

use crate::scene::{ACCOUNT, Database, resource, rules, sequencer};

async fn open(
    connection: &mut SqliteConnection,
    table: &str,
) -> Result<GuardedTable<sqlx::Sqlite>, SqlError> {
    GuardedTable::open(connection, table, &["id"], "t", rules()).await
}

#[tokio::test]
async fn a_table_that_cannot_be_guarded_is_refused_with_the_reason() {
    let database = Database::new().await;
    let mut connection = database.connect().await;
    let cases = [
        (
            "text",
            "(id INTEGER PRIMARY KEY, t TEXT NOT NULL)",
            "whole numbers",
        ),
        (
            "real",
            "(id INTEGER PRIMARY KEY, t REAL NOT NULL)",
            "whole numbers",
        ),
        (
            "bare",
            "(id INTEGER PRIMARY KEY, t NOT NULL)",
            "whole numbers",
        ),
        (
            "numeric",
            "(id INTEGER PRIMARY KEY, t NUMERIC NOT NULL)",
            "whole numbers",
        ),
        (
            "nullable",
            "(id INTEGER PRIMARY KEY, t INTEGER)",
            "may be NULL",
        ),
        (
            "keyless",
            "(id INTEGER, t INTEGER NOT NULL)",
            "several rows",
        ),
        (
            "wider",
            "(id INTEGER, x, t INTEGER NOT NULL, PRIMARY KEY (id, x))",
            "several rows",
        ),
        ("columnless", "(id INTEGER PRIMARY KEY)", "no column \"t\""),
        (
            "other_key",
            "(x INTEGER PRIMARY KEY, t INTEGER NOT NULL)",
            "no column \"id\"",
        ),
    ];
    for (table, columns, reason) in cases {
        let create = format!("CREATE TABLE {table} {columns}");
        connection
            .execute(sqlx::AssertSqlSafe(create))
            .await
            .unwrap();
        let error = open(&mut connection, table).await.unwrap_err();
        assert!(matches!(error, SqlError::Unfit { .. }), "{table}: {error}");
        assert!(
            error.to_string().contains(reason),
            "{error} lacks {reason:?}"
        );
    }
    let partial = "CREATE TABLE part (id INTEGER, t INTEGER NOT NULL);
                   CREATE UNIQUE INDEX part_id ON part (id) WHERE id > 10";
    sqlx::raw_sql(partial)
        .execute(&mut connection)
        .await
        .unwrap();
    assert!(open(&mut connection, "part").await.is_err());
    let error = open(&mut connection, "nowhere").await.unwrap_err();
    assert!(error.to_string().contains("no such table"), "{error}");
}

#[tokio::test]
async fn a_name_that_needs_quoting_is_refused_before_any_statement() {
    let database = Database::new().await;
    let mut connection = database.connect().await;
    let long = "a".repeat(64);
    for name in [
        "", "1a", "a b", "a\"b", "a'b", "a;b", "a.b", "tä", "a\0", &long,
    ] {
        let error = open(&mut connection, name).await.unwrap_err();
        assert!(
            matches!(error, SqlError::Identifier { .. }),
            "{name:?}: {error}"
        );
    }
}

#[tokio::test]
async fn a_mark_that_is_no_token_stops_the_write_and_is_shown() {
    let database = Database::new().await;
    let (accounts, mut connection) = (database.accounts(rules()).await, database.connect().await);
    // INTEGER affinity keeps what it cannot convert.
    for (value, shown) in [("'soon'", "soon"), ("1e30", "1.0e+30"), ("x'00'", "X'00'")] {
        let spoil = format!("UPDATE accounts SET fencing_token = {value}");
        connection
            .execute(sqlx::AssertSqlSafe(spoil))
            .await
            .unwrap();
        let write = accounts.write(&resource(ACCOUNT), &sequencer(5));
        let outcome = write.key(1).set("balance", 1).update(&mut connection).await;
        let error = outcome.unwrap_err();
        assert!(matches!(error, SqlError::Mark { .. }), "{error}");
        assert!(error.to_string().contains(shown), "{error} lacks {shown:?}");
    }
}

#[tokio::test]
async fn a_trigger_that_swallows_the_write_is_not_reported_as_stale() {
    let database = Database::new().await;
    let (accounts, mut connection) = (database.accounts(rules()).await, database.connect().await);
    let trigger = "CREATE TRIGGER swallow BEFORE UPDATE ON accounts WHEN new.balance < 0
                   BEGIN SELECT RAISE(IGNORE); END";
    connection.execute(trigger).await.unwrap();
    let write = |balance| {
        let write = accounts.write(&resource(ACCOUNT), &sequencer(5));
        write.key(1).set("balance", balance)
    };
    let error = write(-1).update(&mut connection).await.unwrap_err();
    assert!(error.to_string().contains("trigger"), "{error}");
    let outcome = write(1).update(&mut connection).await.unwrap();
    assert_eq!(outcome, WriteOutcome::Written);
}
