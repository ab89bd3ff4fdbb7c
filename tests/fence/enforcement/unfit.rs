//! A table that cannot be enforced is named, and nothing is left behind.

use fencepost::fence::enforcement::{Dialect, Enforcement};

use super::Place;

async fn complaint(
    dialect: Dialect,
    table: &str,
    change: fn(Enforcement) -> Enforcement,
) -> Option<String> {
    let place = Place::fresh(dialect, "unfit").await?;
    let mut session = place.session().await;
    session.all(&[table]).await;
    let plan = change(Enforcement::of_table(dialect, "t").unwrap());
    let error = session.apply(&plan.apply().unwrap()).await.unwrap_err();
    // Whatever was there before the check is taken back by the reverse, which never fails.
    session
        .apply(&Enforcement::of_table(dialect, "t").unwrap().undo().unwrap())
        .await
        .unwrap();
    session
        .all(&["INSERT INTO t (id) VALUES (1)", "DELETE FROM t"])
        .await;
    Some(error)
}

#[tokio::test]
async fn columns_that_are_not_there_or_of_another_kind_are_named() {
    let cases = [
        ("CREATE TABLE t (id INTEGER PRIMARY KEY)", "fencing_token"),
        (
            "CREATE TABLE t (id INTEGER PRIMARY KEY, fencing_token VARCHAR(20) NOT NULL DEFAULT '')",
            "NOT NULL",
        ),
        (
            "CREATE TABLE t (id INTEGER PRIMARY KEY, fencing_token DECIMAL(20) NOT NULL DEFAULT 0)",
            "NOT NULL",
        ),
        (
            "CREATE TABLE t (id INTEGER PRIMARY KEY, fencing_token BIGINT)",
            "NOT NULL",
        ),
    ];
    for dialect in [Dialect::Postgres, Dialect::MariaDb, Dialect::Sqlite] {
        for (table, part) in cases {
            let Some(error) = complaint(dialect, table, |plan| plan).await else {
                continue;
            };
            let missing = dialect == Dialect::MariaDb && part == "fencing_token";
            let part = if missing {
                "token column must be there"
            } else {
                part
            };
            assert!(error.contains(part), "{dialect:?} {table}: {error}");
        }
        let table =
            "CREATE TABLE t (id INTEGER PRIMARY KEY, fencing_token BIGINT NOT NULL DEFAULT 0)";
        let Some(error) =
            complaint(dialect, table, |plan| plan.key(&["id", "tenant"]).unwrap()).await
        else {
            continue;
        };
        let part = if dialect == Dialect::MariaDb {
            "--key"
        } else {
            "tenant"
        };
        assert!(error.contains(part), "{dialect:?}: {error}");
    }
}

#[tokio::test]
async fn an_engine_without_transactions_would_keep_half_of_a_statement() {
    for engine in ["MyISAM", "Aria", "MEMORY", "CSV"] {
        let key = if engine == "CSV" { "" } else { " PRIMARY KEY" };
        let table = format!(
            "CREATE TABLE t (id BIGINT NOT NULL{key}, fencing_token BIGINT NOT NULL DEFAULT 0) ENGINE = {engine}"
        );
        let Some(error) = complaint(Dialect::MariaDb, &table, |plan| plan).await else {
            return;
        };
        assert!(
            error.contains("half of a refused statement"),
            "{engine}: {error}"
        );
    }
}

#[tokio::test]
async fn a_table_that_is_not_there_is_an_error() {
    for dialect in [Dialect::Postgres, Dialect::MariaDb, Dialect::Sqlite] {
        let Some(place) = Place::fresh(dialect, "nowhere").await else {
            continue;
        };
        let plan = Enforcement::of_table(dialect, "nowhere").unwrap();
        let error = place
            .session()
            .await
            .apply(&plan.apply().unwrap())
            .await
            .unwrap_err();
        assert!(error.contains("nowhere"), "{dialect:?}: {error}");
    }
}
