//! Every wrong statement is refused, and nothing of it is done.

use fencepost::fence::{
    EqualTokens,
    enforcement::{Dialect, Refused},
};

use super::{ALL, Place, on_each_database};

fn stale(presented: u64, required: u64) -> Refused {
    Refused::Stale {
        presented,
        required,
    }
}

/// What every database refuses.
fn everywhere() -> Vec<(&'static str, Refused)> {
    vec![
        (
            "UPDATE accounts SET balance = 0, fencing_token = 5 WHERE id = 1",
            stale(5, 7),
        ),
        (
            "UPDATE accounts SET balance = 0, fencing_token = 6",
            stale(6, 7),
        ),
        (
            "UPDATE accounts SET balance = 0, fencing_token = 0 WHERE id = 2",
            stale(0, 3),
        ),
        (
            "UPDATE accounts SET balance = 0, fencing_token = fencing_token - 1 WHERE id = 1",
            stale(6, 7),
        ),
        (
            "UPDATE accounts SET balance = 0, fencing_token = -1 WHERE id = 1",
            Refused::NoToken,
        ),
        (
            "UPDATE accounts SET balance = 0, fencing_token = -9223372036854775807 WHERE id = 1",
            Refused::NoToken,
        ),
        (
            "UPDATE accounts SET id = 9, fencing_token = 8 WHERE id = 1",
            Refused::KeyChange,
        ),
        (
            "UPDATE accounts SET id = id + 10, fencing_token = 8",
            Refused::KeyChange,
        ),
        ("DELETE FROM accounts WHERE id = 1", Refused::Delete),
        ("DELETE FROM accounts", Refused::Delete),
        ("INSERT INTO accounts VALUES (9, 0, -1)", Refused::NoToken),
        (
            "INSERT INTO accounts VALUES (8, 0, 1), (9, 0, -1)",
            Refused::NoToken,
        ),
    ]
}

/// What has its own words in each.
fn here(dialect: Dialect) -> Vec<(&'static str, Refused)> {
    match dialect {
        Dialect::Postgres => in_postgres(),
        Dialect::MariaDb | Dialect::MySql => in_mysql(),
        Dialect::Sqlite => in_sqlite(),
    }
}

fn in_postgres() -> Vec<(&'static str, Refused)> {
    vec![
        (
            "UPDATE accounts SET balance = 0, fencing_token = NULL WHERE id = 1",
            Refused::NoToken,
        ),
        (
            "UPDATE accounts SET balance = 0, fencing_token = (-9223372036854775807 - 1)",
            Refused::NoToken,
        ),
        ("UPDATE accounts SET balance = 0", Refused::NoToken),
        (
            "UPDATE accounts SET balance = 0 WHERE id = 3",
            Refused::NoToken,
        ),
        ("INSERT INTO accounts VALUES (9, 0, NULL)", Refused::NoToken),
        ("TRUNCATE accounts", Refused::Delete),
        (
            "INSERT INTO accounts VALUES (1, 0, 5) ON CONFLICT (id) DO UPDATE SET balance = excluded.balance, fencing_token = excluded.fencing_token",
            stale(5, 7),
        ),
        (
            "INSERT INTO accounts VALUES (1, 0, 9) ON CONFLICT (id) DO UPDATE SET balance = excluded.balance",
            Refused::NoToken,
        ),
        (
            "MERGE INTO accounts a USING (VALUES (1)) AS v (id) ON a.id = v.id WHEN MATCHED THEN UPDATE SET balance = 0, fencing_token = 6",
            stale(6, 7),
        ),
        (
            "MERGE INTO accounts a USING (VALUES (1)) AS v (id) ON a.id = v.id WHEN MATCHED THEN DELETE",
            Refused::Delete,
        ),
        (
            "WITH gone AS (DELETE FROM accounts RETURNING id) SELECT * FROM gone",
            Refused::Delete,
        ),
    ]
}

fn in_mysql() -> Vec<(&'static str, Refused)> {
    vec![
        (
            "INSERT INTO accounts VALUES (1, 0, 5) ON DUPLICATE KEY UPDATE balance = VALUES(balance), fencing_token = VALUES(fencing_token)",
            stale(5, 7),
        ),
        ("REPLACE INTO accounts VALUES (1, 0, 5)", Refused::Delete),
        ("REPLACE INTO accounts VALUES (1, 0, 99)", Refused::Delete),
        (
            "UPDATE IGNORE accounts SET balance = 0, fencing_token = 5",
            stale(5, 7),
        ),
        ("DELETE IGNORE FROM accounts", Refused::Delete),
        (
            "INSERT IGNORE INTO accounts VALUES (9, 0, -1)",
            Refused::NoToken,
        ),
        (
            "UPDATE accounts a JOIN (SELECT 1 AS id) b ON a.id = b.id SET a.balance = 0, a.fencing_token = 5",
            stale(5, 7),
        ),
        (
            "DELETE a FROM accounts a JOIN (SELECT 1 AS id) b ON a.id = b.id",
            Refused::Delete,
        ),
    ]
}

fn in_sqlite() -> Vec<(&'static str, Refused)> {
    vec![
        (
            "UPDATE accounts SET balance = 0, fencing_token = NULL WHERE id = 1",
            Refused::NoToken,
        ),
        (
            "UPDATE accounts SET balance = 0, fencing_token = 7.5 WHERE id = 1",
            Refused::NoToken,
        ),
        (
            "UPDATE accounts SET balance = 0, fencing_token = '8x' WHERE id = 1",
            Refused::NoToken,
        ),
        ("UPDATE accounts SET balance = 0", Refused::NoToken),
        (
            "UPDATE accounts SET balance = 0 WHERE id = 3",
            Refused::NoToken,
        ),
        ("INSERT INTO accounts VALUES (9, 0, NULL)", Refused::NoToken),
        ("REPLACE INTO accounts VALUES (1, 0, 5)", stale(5, 7)),
        (
            "INSERT OR REPLACE INTO accounts VALUES (9, 0, 1), (1, 0, 6)",
            stale(6, 7),
        ),
        (
            "UPDATE OR IGNORE accounts SET balance = 0, fencing_token = 5",
            stale(5, 7),
        ),
        (
            "UPDATE OR FAIL accounts SET balance = 0, fencing_token = 5 WHERE id IN (2, 1, 3)",
            stale(5, 7),
        ),
        (
            "UPDATE OR REPLACE accounts SET id = 1, fencing_token = 8 WHERE id = 2",
            Refused::KeyChange,
        ),
        (
            "INSERT OR IGNORE INTO accounts VALUES (9, 0, -1)",
            Refused::NoToken,
        ),
        (
            "INSERT INTO accounts VALUES (1, 0, 5) ON CONFLICT (id) DO UPDATE SET balance = excluded.balance, fencing_token = excluded.fencing_token",
            stale(5, 7),
        ),
        (
            "INSERT INTO accounts VALUES (1, 0, 9) ON CONFLICT (id) DO UPDATE SET balance = excluded.balance",
            Refused::NoToken,
        ),
    ]
}

on_each_database! {
    async fn every_wrong_statement_is_refused_and_writes_nothing(dialect) {
        let Some((_place, mut session)) = Place::guarded(dialect, "wrong", |plan| plan).await else { return };
        let before = session.rows(ALL).await;
        for (sql, expected) in everywhere().into_iter().chain(here(dialect)) {
            assert_eq!(session.refused(sql).await, expected, "{sql}");
            assert_eq!(session.rows(ALL).await, before, "{sql}");
        }
    }

    async fn a_refused_statement_leaves_nothing_in_the_transaction_around_it(dialect) {
        let Some((_place, mut session)) = Place::guarded(dialect, "around", |plan| plan).await else { return };
        let before = session.rows(ALL).await;
        for (sql, expected) in everywhere().into_iter().chain(here(dialect)) {
            session.run("BEGIN").await.unwrap();
            assert_eq!(session.refused(sql).await, expected, "{sql}");
            // PostgreSQL makes a rollback of it; the others keep what came before, which is nothing.
            session.run("COMMIT").await.unwrap();
            assert_eq!(session.rows(ALL).await, before, "{sql}");
        }
    }

    async fn with_each_token_once_an_equal_one_is_stale(dialect) {
        let Some((_place, mut session)) = Place::guarded(dialect, "once", |plan| plan.equal_tokens(EqualTokens::Once)).await else { return };
        let before = session.rows(ALL).await;
        let equal = "UPDATE accounts SET balance = 0, fencing_token = 7 WHERE id = 1";
        assert_eq!(session.refused(equal).await, stale(7, 8));
        // No database mistakes a statement without a token for one with a higher one.
        let unnamed = session.refused("UPDATE accounts SET balance = 0 WHERE id = 1").await;
        assert!(matches!(unnamed, Refused::NoToken | Refused::Stale { presented: 7, required: 8 }), "{unnamed}");
        assert_eq!(session.rows(ALL).await, before);
        let right = "UPDATE accounts SET balance = 0, fencing_token = 8 WHERE id = 1";
        assert_eq!(session.run(right).await.unwrap(), 1);
    }

    async fn the_highest_token_stays_the_highest(dialect) {
        let Some((_place, mut session)) = Place::guarded(dialect, "highest", |plan| plan.equal_tokens(EqualTokens::Once)).await else { return };
        let highest = u64::try_from(i64::MAX).unwrap();
        let write = format!("UPDATE accounts SET balance = 1, fencing_token = {highest} WHERE id = 1");
        assert_eq!(session.run(&write).await.unwrap(), 1);
        assert_eq!(session.refused(&write).await, stale(highest, highest));
        let lower = format!("UPDATE accounts SET balance = 1, fencing_token = {} WHERE id = 1", highest - 1);
        assert_eq!(session.refused(&lower).await, stale(highest - 1, highest));
    }
}

#[tokio::test]
async fn a_note_that_an_ignored_update_left_behind_lets_nobody_pass() {
    let Some((_place, mut session)) = Place::guarded(Dialect::Sqlite, "notes", |plan| plan).await
    else {
        return;
    };
    session
        .all(&["UPDATE OR IGNORE accounts SET balance = NULL, fencing_token = fencing_token"])
        .await;
    session
        .run("UPDATE OR FAIL accounts SET balance = NULL, fencing_token = 9 WHERE id = 1")
        .await
        .unwrap_err();
    let unnamed = "UPDATE accounts SET balance = 0 WHERE id = 1";
    for _ in 0..2 {
        assert_eq!(session.refused(unnamed).await, Refused::NoToken);
        session
            .all(&["UPDATE accounts SET balance = 11, fencing_token = 9 WHERE id = 1"])
            .await;
    }
}
