//! The table of marks: the mark commits with the caller's writes, or not at all.

use fencepost::fence::{
    Verdict,
    sql::{GuardTable, SqlError},
};
use sqlx::{Connection as _, Executor as _};

use crate::scene::{ACCOUNT, Database, resource, rules, sequencer, token};

async fn mark(database: &Database, guard: &GuardTable<sqlx::Sqlite>) -> Option<u64> {
    let mut connection = database.connect().await;
    let mark = guard
        .mark(&mut connection, &resource(ACCOUNT))
        .await
        .unwrap();
    mark.map(|mark| mark.token.get())
}

#[tokio::test]
async fn the_mark_commits_with_the_callers_writes_or_not_at_all() {
    let database = Database::new().await;
    let (guard, mut connection) = (database.marks(rules()).await, database.connect().await);

    let mut tx = connection.begin().await.unwrap();
    assert_eq!(
        guard.fenced(&mut tx, &sequencer(7)).await.unwrap(),
        Verdict::Admitted
    );
    tx.execute("UPDATE accounts SET balance = 7 WHERE id = 1")
        .await
        .unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(mark(&database, &guard).await, None);
    assert_eq!(database.account(1).await, Some((0, 0)));

    let mut tx = connection.begin().await.unwrap();
    assert_eq!(
        guard.fenced(&mut tx, &sequencer(5)).await.unwrap(),
        Verdict::Admitted
    );
    tx.execute("UPDATE accounts SET balance = 5 WHERE id = 1")
        .await
        .unwrap();
    tx.commit().await.unwrap();
    assert_eq!(mark(&database, &guard).await, Some(5));
    assert_eq!(database.account(1).await, Some((5, 0)));
}

#[tokio::test]
async fn a_crash_between_check_and_write_leaves_neither() {
    let database = Database::new().await;
    let (guard, mut connection) = (database.marks(rules()).await, database.connect().await);
    let mut tx = connection.begin().await.unwrap();
    assert_eq!(
        guard.fenced(&mut tx, &sequencer(7)).await.unwrap(),
        Verdict::Admitted
    );
    drop(tx);
    drop(connection);
    assert_eq!(mark(&database, &guard).await, None);

    let mut other = database.connect().await;
    let mut tx = other.begin().await.unwrap();
    assert_eq!(
        guard.fenced(&mut tx, &sequencer(6)).await.unwrap(),
        Verdict::Admitted
    );
    tx.commit().await.unwrap();
    assert_eq!(mark(&database, &guard).await, Some(6));
}

#[tokio::test]
async fn a_stale_token_ends_the_transaction_by_a_question_mark() {
    let database = Database::new().await;
    let (guard, mut connection) = (database.marks(rules()).await, database.connect().await);
    let mut run = async |value: u64| -> Result<(), Box<dyn std::error::Error>> {
        let mut tx = connection.begin().await?;
        guard.fenced(&mut tx, &sequencer(value)).await?.admitted()?;
        sqlx::query("UPDATE accounts SET balance = ? WHERE id = 1")
            .bind(token(value).as_i64())
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(())
    };
    run(7).await.unwrap();
    let refused = run(6).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "stale fencing token: presented 6, required at least 7"
    );
    assert_eq!(database.account(1).await, Some((7, 0)));
    run(7).await.unwrap();
}

#[tokio::test]
async fn marks_outlive_the_process_that_wrote_them() {
    let database = Database::new().await;
    let (guard, mut connection) = (database.marks(rules()).await, database.connect().await);
    let mut tx = connection.begin().await.unwrap();
    assert_eq!(
        guard.fenced(&mut tx, &sequencer(7)).await.unwrap(),
        Verdict::Admitted
    );
    tx.commit().await.unwrap();
    connection.close().await.unwrap();

    let (guard, mut connection) = (database.marks(rules()).await, database.connect().await);
    let mut tx = connection.begin().await.unwrap();
    let verdict = guard.fenced(&mut tx, &sequencer(6)).await.unwrap();
    assert!(matches!(verdict, Verdict::Stale { .. }), "{verdict:?}");
}

#[tokio::test]
async fn a_table_of_marks_that_is_not_one_is_refused_when_it_is_opened() {
    let database = Database::new().await;
    let mut connection = database.connect().await;
    let missing = GuardTable::<sqlx::Sqlite>::open(&mut connection, "fencing_marks", rules()).await;
    assert!(
        matches!(missing, Err(SqlError::Unfit { .. })),
        "{missing:?}"
    );
    let other = GuardTable::<sqlx::Sqlite>::create(&mut connection, "accounts", rules()).await;
    assert!(matches!(other, Err(SqlError::Unfit { .. })), "{other:?}");
    let name = GuardTable::<sqlx::Sqlite>::create(
        &mut connection,
        "marks\"; DROP TABLE accounts; --",
        rules(),
    );
    let error = name.await.unwrap_err();
    assert!(matches!(error, SqlError::Identifier { .. }), "{error}");
    assert_eq!(database.account(1).await, Some((0, 0)));
}

#[tokio::test]
async fn no_tool_can_put_text_or_nothing_where_a_mark_belongs() {
    let database = Database::new().await;
    let _guard = database.marks(rules()).await;
    let mut connection = database.connect().await;
    for value in ["'ten'", "1.5", "NULL", "0", "-1", "9223372036854775808"] {
        let insert = format!("INSERT INTO fencing_marks VALUES ('r', 'bank', {value})");
        let refused = sqlx::query(sqlx::AssertSqlSafe(insert))
            .execute(&mut connection)
            .await;
        assert!(refused.is_err(), "{value} was taken for a mark");
    }
}
