//! Undoing loses no mark unless told to, and then leaves the schema as it was; applying twice is
//! harmless, or a clear error.

use fencepost::fence::{
    EqualTokens,
    enforcement::{Deletes, Dialect, Enforcement},
};

use super::{ALL, Place, Session, on_each_database};

const BARE: &str =
    "CREATE TABLE accounts (id BIGINT NOT NULL PRIMARY KEY, balance BIGINT NOT NULL)";

/// All that the catalogue knows: tables, columns, triggers, functions.
async fn schema(dialect: Dialect, session: &mut Session) -> Vec<String> {
    let questions: &[&str] = match dialect {
        Dialect::Postgres => &[
            "SELECT (table_name || ' ' || column_name || ' ' || data_type || ' ' || is_nullable)::text FROM information_schema.columns WHERE table_schema = 'public' ORDER BY 1",
            "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace ORDER BY 1",
            "SELECT pg_get_triggerdef(oid)::text FROM pg_trigger WHERE NOT tgisinternal ORDER BY 1",
            "SELECT proname::text FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY 1",
        ],
        Dialect::MariaDb | Dialect::MySql => &[
            "SELECT CONCAT(table_name, ' ', column_name, ' ', column_type, ' ', is_nullable) FROM information_schema.columns WHERE table_schema = DATABASE() ORDER BY 1",
            "SELECT CONCAT(trigger_name, ' ', action_statement) FROM information_schema.triggers WHERE trigger_schema = DATABASE() ORDER BY 1",
            "SELECT routine_name FROM information_schema.routines WHERE routine_schema = DATABASE() ORDER BY 1",
        ],
        Dialect::Sqlite => {
            &["SELECT name || ' ' || coalesce(sql, '') FROM sqlite_master ORDER BY 1"]
        }
    };
    let mut all = Vec::new();
    for question in questions {
        all.extend(session.rows(question).await);
    }
    all
}

fn plans(dialect: Dialect) -> Vec<Enforcement> {
    let plan = || {
        Enforcement::of_table(dialect, "accounts")
            .unwrap()
            .add_column()
    };
    vec![
        plan(),
        plan().deletes(Deletes::KeepMark),
        plan()
            .equal_tokens(EqualTokens::Once)
            .deletes(Deletes::KeepMark),
    ]
}

on_each_database! {
    async fn undoing_leaves_the_schema_as_it_was(dialect) {
        let Some(place) = Place::fresh(dialect, "undo").await else { return };
        let mut session = place.session().await;
        session.all(&[BARE, "INSERT INTO accounts VALUES (1, 10)"]).await;
        let before = schema(dialect, &mut session).await;
        for plan in plans(dialect) {
            session.apply(&plan.apply().unwrap()).await.unwrap();
            assert_ne!(schema(dialect, &mut session).await, before);
            session.refused("UPDATE accounts SET balance = 0, fencing_token = -1").await;
            session.apply(&plan.undo_and_drop().unwrap()).await.unwrap();
            assert_eq!(schema(dialect, &mut session).await, before);
        }
        assert_eq!(session.rows("SELECT id, balance FROM accounts").await, ["1,10"]);
    }

    async fn undoing_loses_no_mark_and_the_triggers_can_come_back(dialect) {
        let Some((_place, mut session)) = Place::guarded(dialect, "keeps", |plan| plan.deletes(Deletes::KeepMark)).await else { return };
        session.all(&["DELETE FROM accounts WHERE id = 1"]).await;
        let before = session.rows(ALL).await;
        // As somebody does it whose script failed since the column was there.
        let plan = Enforcement::of_table(dialect, "accounts").unwrap().deletes(Deletes::KeepMark);
        let adding = plan.clone().add_column();
        session.apply(&adding.apply().unwrap()).await.unwrap_err();
        session.apply(&adding.undo().unwrap()).await.unwrap();
        assert_eq!(session.rows(ALL).await, before);
        session.all(&["UPDATE accounts SET fencing_token = 3 WHERE id = 2"]).await;
        session.apply(&plan.apply().unwrap()).await.unwrap();
        session.refused("UPDATE accounts SET fencing_token = 2 WHERE id = 2").await;
        session.refused("INSERT INTO accounts VALUES (1, 10, 6)").await;
        session.all(&["INSERT INTO accounts VALUES (1, 10, 7)"]).await;
    }

    async fn applying_twice_is_harmless_or_a_clear_error(dialect) {
        let Some((_place, mut session)) = Place::guarded(dialect, "twice", |plan| plan).await else { return };
        let before = schema(dialect, &mut session).await;
        let plan = Enforcement::of_table(dialect, "accounts").unwrap();
        let again = session.apply(&plan.apply().unwrap()).await;
        match dialect {
            Dialect::MariaDb | Dialect::MySql => {
                let error = again.unwrap_err();
                assert!(error.contains("already exists"), "{error}");
            }
            Dialect::Postgres | Dialect::Sqlite => again.unwrap(),
        }
        assert_eq!(schema(dialect, &mut session).await, before);
        let rows = session.rows(ALL).await;
        session.refused("UPDATE accounts SET balance = 0, fencing_token = 6").await;
        assert_eq!(session.rows(ALL).await, rows);
        // And undone twice.
        for _ in 0..2 {
            session.apply(&plan.undo().unwrap()).await.unwrap();
        }
        session.all(&["UPDATE accounts SET balance = 0, fencing_token = 1"]).await;
    }
}
