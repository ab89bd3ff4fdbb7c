//! The tables of marks and of grants defend themselves.

use fencepost::fence::{
    self,
    enforcement::{Dialect, GuardTableScript, IssuerTableScript, Refused},
};

use super::{Place, on_each_database};

fn stale(presented: u64, required: u64) -> Refused {
    Refused::Stale {
        presented,
        required,
    }
}

on_each_database! {
    async fn a_mark_neither_falls_nor_goes_nor_changes_hands(dialect) {
        let Some(place) = Place::fresh(dialect, "marks").await else { return };
        let mut session = place.session().await;
        let table = GuardTableScript::new(dialect, "fencing_marks").unwrap();
        session.apply(&table.apply()).await.unwrap();
        let insert = |values: &str| match dialect {
            Dialect::MariaDb => format!("INSERT INTO fencing_marks (resource, issuer, token, admissions) VALUES ({values}, 0)"),
            _ => format!("INSERT INTO fencing_marks (resource, issuer, token) VALUES ({values})"),
        };
        session.all(&[&insert("'a', 'bank', 7")]).await;
        for (sql, expected) in [
            ("UPDATE fencing_marks SET token = 6", stale(6, 7)),
            ("UPDATE fencing_marks SET token = 8, issuer = 'other'", Refused::IssuerChange),
            ("UPDATE fencing_marks SET token = 8, resource = 'b'", Refused::KeyChange),
            ("DELETE FROM fencing_marks", Refused::Delete),
        ] {
            assert_eq!(session.refused(sql).await, expected, "{sql}");
        }
        if dialect == Dialect::Sqlite {
            let replace = "REPLACE INTO fencing_marks VALUES ('a', 'other', 9)";
            assert_eq!(session.refused(replace).await, Refused::IssuerChange);
        }
        session.all(&["UPDATE fencing_marks SET token = 8", &insert("'A', 'bank', 1")]).await;
        session.run(&insert("'b', 'bank', -1")).await.unwrap_err();
        session.apply(&table.undo_and_drop()).await.unwrap();
        session.all(&["CREATE TABLE fencing_marks (id BIGINT)"]).await;
        // A table of that name that holds something else is not touched.
        session.apply(&table.apply()).await.unwrap_err();
        session.apply(&table.undo()).await.unwrap();
        session.all(&["INSERT INTO fencing_marks VALUES (1)", "DELETE FROM fencing_marks"]).await;
    }

    async fn a_table_that_was_there_gets_the_triggers_and_keeps_its_marks(dialect) {
        let Some(place) = Place::fresh(dialect, "kept").await else { return };
        let mut session = place.session().await;
        let marks = match dialect {
            Dialect::Postgres => fence::sql::GuardTable::<sqlx::Postgres>::create_sql("fencing_marks"),
            Dialect::MariaDb | Dialect::MySql => fence::sql::GuardTable::<sqlx::MySql>::create_sql("fencing_marks"),
            Dialect::Sqlite => fence::sql::GuardTable::<sqlx::Sqlite>::create_sql("fencing_marks"),
        };
        let (columns, admissions) = match dialect {
            Dialect::MariaDb => ("resource, issuer, token, admissions", ", 0"),
            _ => ("resource, issuer, token", ""),
        };
        let grants = "INSERT INTO lock_grants (resource, holder, token, expires_at_us) VALUES ('a', 'x', 7, 0)";
        let issuer = IssuerTableScript::new(dialect, "lock_grants").unwrap();
        session.all(&[
            &marks.unwrap(),
            &format!("INSERT INTO fencing_marks ({columns}) VALUES ('a', 'bank', 7{admissions})"),
            &issuer.table_if_missing(),
            grants,
        ]).await;
        let table = GuardTableScript::new(dialect, "fencing_marks").unwrap();
        // Twice: what was taken back can be put on again.
        for _ in 0..2 {
            for script in [table.apply(), issuer.apply()] {
                session.apply(&script).await.unwrap();
            }
            assert_eq!(session.refused("UPDATE fencing_marks SET token = 6").await, stale(6, 7));
            assert_eq!(session.refused("UPDATE lock_grants SET token = 6").await, stale(6, 7));
            for script in [table.undo(), issuer.undo()] {
                session.apply(&script).await.unwrap();
            }
            assert_eq!(session.rows("SELECT token FROM fencing_marks").await, ["7"]);
            assert_eq!(session.rows("SELECT token FROM lock_grants").await, ["7"]);
            session.all(&["UPDATE fencing_marks SET token = 6", "UPDATE fencing_marks SET token = 7"]).await;
        }
    }

    async fn a_resources_last_token_neither_falls_nor_goes(dialect) {
        let Some(place) = Place::fresh(dialect, "grants").await else { return };
        let mut session = place.session().await;
        let table = IssuerTableScript::new(dialect, "lock_grants").unwrap();
        session.apply(&table.apply()).await.unwrap();
        session.all(&[
            "INSERT INTO lock_grants (resource, holder, token, expires_at_us) VALUES ('a', 'x', 7, 0)",
            "UPDATE lock_grants SET expires_at_us = 5",
            "UPDATE lock_grants SET holder = 'y', token = token + 1",
        ]).await;
        assert_eq!(session.refused("UPDATE lock_grants SET token = 7").await, stale(7, 8));
        assert_eq!(session.refused("DELETE FROM lock_grants").await, Refused::Delete);
        session.apply(&table.undo_and_drop()).await.unwrap();
        session.all(&["CREATE TABLE lock_grants (id BIGINT)"]).await;
    }
}
