//! Marks that outlive their rows.

use fencepost::fence::{
    EqualTokens,
    enforcement::{Deletes, Dialect, Refused},
};

use super::{ALL, Place, on_each_database};

fn stale(presented: u64, required: u64) -> Refused {
    Refused::Stale {
        presented,
        required,
    }
}

on_each_database! {
    async fn a_row_that_is_made_again_is_held_against_the_mark_that_it_left(dialect) {
        let Some((_place, mut session)) = Place::guarded(dialect, "again", |plan| plan.deletes(Deletes::KeepMark)).await else { return };
        session.all(&["DELETE FROM accounts WHERE id = 1"]).await;
        let before = session.rows(ALL).await;
        for (sql, presented) in [
            ("INSERT INTO accounts VALUES (1, 0, 6)", 6),
            ("INSERT INTO accounts VALUES (1, 0, 0)", 0),
            ("INSERT INTO accounts (id, balance) VALUES (9, 0), (1, 0)", 0),
        ] {
            assert_eq!(session.refused(sql).await, stale(presented, 7), "{sql}");
            assert_eq!(session.rows(ALL).await, before, "{sql}");
        }
        session.all(&["INSERT INTO accounts VALUES (1, 11, 7)", "DELETE FROM accounts WHERE id = 1"]).await;
        assert_eq!(session.refused("INSERT INTO accounts VALUES (1, 0, 6)").await, stale(6, 7));
        session.all(&["INSERT INTO accounts VALUES (1, 12, 9)", "UPDATE accounts SET balance = 13, fencing_token = 10 WHERE id = 1", "DELETE FROM accounts"]).await;
        assert_eq!(session.refused("INSERT INTO accounts VALUES (1, 0, 9)").await, stale(9, 10));
        // Nobody had fenced row 3.
        session.all(&["INSERT INTO accounts (id, balance) VALUES (3, 1)", "INSERT INTO accounts VALUES (2, 1, 3)"]).await;
    }

    async fn with_each_token_once_the_mark_of_a_row_that_went_is_used_up(dialect) {
        let plan = |plan: fencepost::fence::enforcement::Enforcement| plan.deletes(Deletes::KeepMark).equal_tokens(EqualTokens::Once);
        let Some((_place, mut session)) = Place::guarded(dialect, "used", plan).await else { return };
        session.all(&["DELETE FROM accounts"]).await;
        assert_eq!(session.refused("INSERT INTO accounts VALUES (1, 0, 7)").await, stale(7, 8));
        session.all(&["INSERT INTO accounts VALUES (1, 0, 8)", "INSERT INTO accounts (id, balance) VALUES (3, 1)", "DELETE FROM accounts WHERE id = 3", "INSERT INTO accounts (id, balance) VALUES (3, 1)"]).await;
    }

    async fn replacing_a_row_is_judged_by_its_mark(dialect) {
        if dialect == Dialect::Postgres {
            return; // There is no REPLACE.
        }
        let Some((_place, mut session)) = Place::guarded(dialect, "replace", |plan| plan.deletes(Deletes::KeepMark)).await else { return };
        let before = session.rows(ALL).await;
        for sql in ["REPLACE INTO accounts VALUES (1, 0, 6)", "REPLACE INTO accounts VALUES (9, 9, 9), (1, 0, 6)"] {
            assert_eq!(session.refused(sql).await, stale(6, 7), "{sql}");
            assert_eq!(session.rows(ALL).await, before, "{sql}");
        }
        session.all(&["REPLACE INTO accounts VALUES (1, 11, 8)"]).await;
        assert_eq!(session.refused("REPLACE INTO accounts VALUES (1, 0, 7)").await, stale(7, 8));
        assert_eq!(session.rows(ALL).await[0], "1,11,8");
    }

    async fn the_marks_are_kept_in_a_delete_that_is_rolled_back(dialect) {
        let Some((_place, mut session)) = Place::guarded(dialect, "rolled", |plan| plan.deletes(Deletes::KeepMark)).await else { return };
        let before = session.rows(ALL).await;
        session.all(&["BEGIN", "DELETE FROM accounts", "ROLLBACK"]).await;
        assert_eq!(session.rows(ALL).await, before);
        assert_eq!(session.refused("UPDATE accounts SET balance = 0, fencing_token = 6").await, stale(6, 7));
    }
}

#[tokio::test]
async fn sqlites_replace_removes_no_row_by_another_unique_key() {
    let dialect = Dialect::Sqlite;
    let place = Place::fresh(dialect, "unique").await.unwrap();
    let mut session = place.session().await;
    session
        .all(&[
            "CREATE TABLE people (id INTEGER PRIMARY KEY, email TEXT COLLATE NOCASE UNIQUE, fencing_token INTEGER NOT NULL DEFAULT 0)",
            "INSERT INTO people VALUES (1, 'a@x', 7), (2, 'b@x', 3)",
        ])
        .await;
    let plan = fencepost::fence::enforcement::Enforcement::of_table(dialect, "people").unwrap();
    // A unique key that the triggers would not look at stops the application.
    let error = session.apply(&plan.apply().unwrap()).await.unwrap_err();
    assert!(error.contains("not named by --key or --unique"), "{error}");
    let plan = plan.unique(&["email"]).unwrap();
    session.apply(&plan.apply().unwrap()).await.unwrap();
    let all = "SELECT id, email, fencing_token FROM people ORDER BY id";
    let before = session.rows(all).await;
    for sql in [
        "REPLACE INTO people VALUES (3, 'A@X', 99)",
        "UPDATE OR REPLACE people SET email = 'a@x', fencing_token = 99 WHERE id = 2",
        "REPLACE INTO people VALUES (2, 'a@x', 99)",
    ] {
        assert_eq!(session.refused(sql).await, Refused::Delete, "{sql}");
        assert_eq!(session.rows(all).await, before, "{sql}");
    }
    session
        .all(&[
            "REPLACE INTO people VALUES (2, 'b@x', 4)",
            "UPDATE people SET email = 'B@x', fencing_token = 5 WHERE id = 2",
            "INSERT INTO people VALUES (4, NULL, 0), (5, NULL, 0)",
        ])
        .await;
}

#[tokio::test]
async fn nobody_borrows_the_rights_of_the_function_that_keeps_marks() {
    let dialect = Dialect::Postgres;
    let Some((_place, mut session)) =
        Place::guarded(dialect, "borrowed", |plan| plan.deletes(Deletes::KeepMark)).await
    else {
        return;
    };
    let (owner, other) = (
        format!("fencepost_owner_{}", std::process::id()),
        format!("fencepost_mallory_{}", std::process::id()),
    );
    session
        .all(&[
            &format!("CREATE ROLE {owner}"),
            &format!("CREATE ROLE {other}"),
            &format!("ALTER TABLE accounts OWNER TO {owner}"),
        ])
        .await;
    let plan = fencepost::fence::enforcement::Enforcement::of_table(dialect, "accounts").unwrap();
    let plan = plan.deletes(Deletes::KeepMark);
    session.apply(&plan.apply().unwrap()).await.unwrap();
    // It runs as the table's owner, not as the superuser who applied it.
    let owners = session
        .rows("SELECT pg_get_userbyid(proowner)::text FROM pg_proc WHERE proname = 'fencepost_accounts_keep' UNION ALL SELECT pg_get_userbyid(relowner)::text FROM pg_class WHERE relname = 'fencepost_accounts_marks'")
        .await;
    assert_eq!(owners, [owner.as_str(), owner.as_str()]);
    session
        .all(&[
            &format!("GRANT INSERT, DELETE, SELECT ON accounts TO {other}"),
            &format!("SET ROLE {other}"),
            "CREATE TEMP TABLE mine (id BIGINT, fencing_token BIGINT)",
        ])
        .await;
    for part in ["keep", "update", "insert", "delete", "named"] {
        let error = session
            .run(&format!("CREATE TRIGGER x AFTER INSERT ON mine FOR EACH ROW EXECUTE FUNCTION public.fencepost_accounts_{part}()"))
            .await
            .unwrap_err();
        assert!(
            error.to_string().contains("permission denied for function"),
            "{part}: {error}"
        );
    }
    // Who may write the table still does, by the triggers.
    session.all(&["DELETE FROM accounts WHERE id = 1"]).await;
    assert_eq!(
        session
            .refused("INSERT INTO accounts VALUES (1, 0, 6)")
            .await,
        stale(6, 7)
    );
    session
        .all(&["INSERT INTO accounts VALUES (1, 0, 7)", "RESET ROLE"])
        .await;
    session
        .all(&[
            &format!("DROP OWNED BY {other}, {owner} CASCADE"),
            &format!("DROP ROLE {other}, {owner}"),
        ])
        .await;
}
