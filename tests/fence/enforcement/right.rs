//! What a holder may do passes as before.

use fencepost::fence::enforcement::{Dialect, Unnamed};

use super::{ALL, Place, on_each_database};

fn upsert(dialect: Dialect, id: u64, balance: u64, token: u64) -> String {
    let insert = format!("INSERT INTO accounts VALUES ({id}, {balance}, {token})");
    match dialect {
        Dialect::MariaDb | Dialect::MySql => format!(
            "{insert} ON DUPLICATE KEY UPDATE balance = VALUES(balance), fencing_token = VALUES(fencing_token)"
        ),
        Dialect::Postgres | Dialect::Sqlite => format!(
            "{insert} ON CONFLICT (id) DO UPDATE SET balance = excluded.balance, fencing_token = excluded.fencing_token"
        ),
    }
}

on_each_database! {
    async fn a_holders_writes_pass(dialect) {
        let Some((_place, mut session)) = Place::guarded(dialect, "right", |plan| plan).await else { return };
        let all = [
            // Equal, higher, over all rows, and a first token where there was none.
            "UPDATE accounts SET balance = 11, fencing_token = 7 WHERE id = 1",
            "UPDATE accounts SET balance = 12, fencing_token = 8 WHERE id = 1",
            "UPDATE accounts SET balance = balance + 1, fencing_token = 9",
            "UPDATE accounts SET balance = 31, fencing_token = 10 WHERE id = 3 AND fencing_token <= 10",
            // New rows: with a token, and without one, for nobody has fenced them.
            "INSERT INTO accounts VALUES (4, 40, 12)",
            "INSERT INTO accounts (id, balance) VALUES (5, 50)",
            // Maintenance says that it leaves the tokens as they are.
            "UPDATE accounts SET balance = balance + 100, fencing_token = fencing_token WHERE id >= 4",
        ];
        session.all(&all).await;
        for (id, balance, token) in [(1, 13, 11), (6, 60, 11)] {
            session.run(&upsert(dialect, id, balance, token)).await.unwrap();
        }
        let expected = ["1,13,11", "2,21,9", "3,31,10", "4,140,12", "5,150,0", "6,60,11"];
        assert_eq!(session.rows(ALL).await, expected);
    }

    async fn a_guarded_statement_that_is_stale_still_says_no_rows(dialect) {
        let Some((_place, mut session)) = Place::guarded(dialect, "guarded", |plan| plan).await else { return };
        let before = session.rows(ALL).await;
        let guarded = "UPDATE accounts SET balance = 0, fencing_token = 5 WHERE id = 1 AND fencing_token <= 5";
        assert_eq!(session.run(guarded).await.unwrap(), 0);
        assert_eq!(session.rows(ALL).await, before);
    }

    async fn a_statement_without_a_token_passes_where_it_is_allowed(dialect) {
        let Some((_place, mut session)) = Place::guarded(dialect, "unnamed", |plan| plan.unnamed_token(Unnamed::Allow).unwrap()).await else { return };
        session.all(&["UPDATE accounts SET balance = 99 WHERE id = 1"]).await;
        session.refused("UPDATE accounts SET balance = 0, fencing_token = 6 WHERE id = 1").await;
        assert_eq!(session.rows(ALL).await[0], "1,99,7");
    }

    async fn a_refusal_in_a_savepoint_leaves_the_rest_of_the_transaction(dialect) {
        let Some((_place, mut session)) = Place::guarded(dialect, "savepoint", |plan| plan).await else { return };
        session.all(&["BEGIN", "UPDATE accounts SET balance = 21, fencing_token = 4 WHERE id = 2", "SAVEPOINT s"]).await;
        session.refused("UPDATE accounts SET balance = 0, fencing_token = 4").await;
        session.all(&["ROLLBACK TO SAVEPOINT s", "UPDATE accounts SET balance = 31, fencing_token = 4 WHERE id = 3", "COMMIT"]).await;
        assert_eq!(session.rows(ALL).await, ["1,10,7", "2,21,4", "3,31,4"]);
    }
}
