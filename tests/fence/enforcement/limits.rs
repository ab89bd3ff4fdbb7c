//! What the triggers cannot do is what the documents say, no more and no less.

use fencepost::fence::enforcement::{Dialect, Enforcement, Refused};

use super::{ALL, Place};

#[tokio::test]
async fn what_fires_no_trigger_is_what_the_page_says() {
    if let Some((_place, mut session)) =
        Place::guarded(Dialect::Postgres, "limits", |plan| plan).await
    {
        session
            .all(&[
                "SET session_replication_role = replica",
                "UPDATE accounts SET balance = 0, fencing_token = 1 WHERE id = 1",
                "SET session_replication_role = origin",
                "ALTER TABLE accounts DISABLE TRIGGER USER",
                "UPDATE accounts SET balance = 0, fencing_token = 1 WHERE id = 2",
                "ALTER TABLE accounts ENABLE TRIGGER USER",
                "CREATE TABLE heir () INHERITS (accounts)",
                "INSERT INTO heir VALUES (9, 0, 9)",
                "UPDATE accounts SET balance = 0, fencing_token = 1 WHERE id = 9",
            ])
            .await;
    }
    if let Some((_place, mut session)) =
        Place::guarded(Dialect::MariaDb, "limits", |plan| plan).await
    {
        session
            .all(&[
                "CREATE TABLE owners (id BIGINT NOT NULL PRIMARY KEY)",
                "INSERT INTO owners VALUES (1), (2), (3)",
                "ALTER TABLE accounts ADD FOREIGN KEY (id) REFERENCES owners (id) ON DELETE CASCADE",
                "DELETE FROM owners WHERE id = 1",
            ])
            .await;
        assert_eq!(session.rows(ALL).await.len(), 2);
        session.all(&["TRUNCATE TABLE accounts"]).await;
        assert!(session.rows(ALL).await.is_empty());
    }
}

#[tokio::test]
async fn what_others_cascade_is_refused_in_postgres_and_sqlite() {
    for dialect in [Dialect::Postgres, Dialect::Sqlite] {
        let Some(place) = Place::fresh(dialect, "cascade").await else {
            continue;
        };
        let mut session = place.session().await;
        session
            .all(&[
                "CREATE TABLE people (id BIGINT NOT NULL PRIMARY KEY)",
                "CREATE TABLE accounts (id BIGINT NOT NULL PRIMARY KEY, person BIGINT REFERENCES people (id) ON DELETE SET NULL ON UPDATE CASCADE, fencing_token BIGINT NOT NULL DEFAULT 0)",
                "INSERT INTO people VALUES (1)",
                "INSERT INTO accounts VALUES (1, 1, 7)",
            ])
            .await;
        let plan = Enforcement::of_table(dialect, "accounts").unwrap();
        session.apply(&plan.apply().unwrap()).await.unwrap();
        assert_eq!(
            session.refused("DELETE FROM people").await,
            Refused::NoToken
        );
        assert_eq!(
            session.refused("UPDATE people SET id = 2").await,
            Refused::NoToken
        );
    }
}

#[tokio::test]
async fn rows_of_partitions_are_judged_and_do_not_move() {
    let Some(place) = Place::fresh(Dialect::Postgres, "partitions").await else {
        return;
    };
    let mut session = place.session().await;
    session
        .all(&[
            "CREATE TABLE accounts (id BIGINT NOT NULL, region BIGINT NOT NULL, fencing_token BIGINT NOT NULL DEFAULT 0, PRIMARY KEY (id, region)) PARTITION BY LIST (region)",
            "CREATE TABLE north PARTITION OF accounts FOR VALUES IN (1)",
            "CREATE TABLE south PARTITION OF accounts FOR VALUES IN (2)",
        ])
        .await;
    let plan = Enforcement::of_table(Dialect::Postgres, "accounts").unwrap();
    // It is no key: two partitions may have a row each.
    let error = session.apply(&plan.apply().unwrap()).await.unwrap_err();
    assert!(error.contains("no primary key"), "{error}");
    let plan = plan.key(&["id", "region"]).unwrap();
    session.apply(&plan.apply().unwrap()).await.unwrap();
    session
        .all(&["INSERT INTO accounts VALUES (1, 1, 7)"])
        .await;
    for sql in [
        "UPDATE accounts SET fencing_token = 6",
        "UPDATE north SET fencing_token = 6",
    ] {
        let stale = Refused::Stale {
            presented: 6,
            required: 7,
        };
        assert_eq!(session.refused(sql).await, stale, "{sql}");
    }
    let moved = session
        .refused("UPDATE accounts SET region = 2, fencing_token = 8")
        .await;
    assert_eq!(moved, Refused::KeyChange);
    session.all(&["UPDATE north SET fencing_token = 8"]).await;
    // The limit that the page names.
    assert_eq!(session.refused("TRUNCATE accounts").await, Refused::Delete);
    session.all(&["TRUNCATE north"]).await;
}

/// The triggers judge last, so that they see what the table's own ones have made of the row.
#[tokio::test]
async fn a_tables_own_trigger_cannot_lower_a_token_behind_ours() {
    let Some((_place, mut session)) = Place::guarded(Dialect::Postgres, "own", |plan| plan).await
    else {
        return;
    };
    session
        .all(&[
            "CREATE FUNCTION lowers() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.fencing_token := 1; RETURN NEW; END $$",
            "CREATE TRIGGER touch BEFORE UPDATE ON accounts FOR EACH ROW EXECUTE FUNCTION lowers()",
        ])
        .await;
    let stale = Refused::Stale {
        presented: 1,
        required: 7,
    };
    let write = "UPDATE accounts SET balance = 0, fencing_token = 9 WHERE id = 1";
    assert_eq!(session.refused(write).await, stale);
}

/// A trigger of the table's own that updates it again says that it leaves the token as it is.
#[tokio::test]
async fn a_tables_own_trigger_in_sqlite_may_update_it_again() {
    let (_place, mut session) = Place::guarded(Dialect::Sqlite, "again", |plan| plan)
        .await
        .unwrap();
    session
        .all(&[
            "CREATE TRIGGER touch AFTER UPDATE ON accounts WHEN NEW.balance < 1000 BEGIN \
             UPDATE accounts SET balance = balance + 1000, fencing_token = fencing_token WHERE id = NEW.id; END",
            "UPDATE accounts SET balance = 1, fencing_token = 9",
        ])
        .await;
    let touched = ["1,1001,9", "2,1001,9", "3,1001,9"];
    assert_eq!(session.rows(ALL).await, touched);
    let unnamed = session.refused("UPDATE accounts SET balance = 2000").await;
    assert_eq!(unnamed, Refused::NoToken);
    assert_eq!(session.rows(ALL).await, touched);
    assert_eq!(
        session
            .rows("SELECT count(*) FROM fencepost_accounts_note")
            .await,
        ["0"]
    );
}
