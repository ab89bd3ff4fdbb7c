//! A table that cannot be enforced is named, and nothing is left behind.

use fencepost::fence::enforcement::{
    Deletes, Dialect, Enforcement, GuardTableScript, IssuerTableScript,
};

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

/// What a table with the token column, but otherwise like this, is refused for.
async fn unfit_in(dialect: Dialect, make: &[&str], part: &str) {
    let Some(place) = Place::fresh(dialect, "unfit2").await else {
        return;
    };
    let mut session = place.session().await;
    session.all(make).await;
    let plan = Enforcement::of_table(dialect, "t").unwrap();
    let error = session.apply(&plan.apply().unwrap()).await.unwrap_err();
    let message = error.rsplit("error returned from database").next().unwrap();
    assert!(message.contains(part), "{make:?}: {error}");
}

#[tokio::test]
async fn a_key_that_does_not_hold_stops_postgres() {
    let token = "fencing_token BIGINT NOT NULL DEFAULT 0";
    for (columns, part) in [
        ("id BIGINT NOT NULL", "no primary key"),
        ("id BIGINT UNIQUE", "no primary key"),
        ("id BIGINT PRIMARY KEY DEFERRABLE", "not deferrable"),
        ("id BIGINT, n BIGINT, PRIMARY KEY (id, n)", "no primary key"),
    ] {
        let make = format!("CREATE TABLE t ({columns}, {token})");
        unfit_in(Dialect::Postgres, &[&make], part).await;
    }
    let make = format!("CREATE UNLOGGED TABLE t (id BIGINT PRIMARY KEY, {token})");
    unfit_in(Dialect::Postgres, &[&make], "unlogged").await;
}

#[tokio::test]
async fn what_somebody_else_made_beforehand_stops_postgres() {
    let make = "CREATE TABLE t (id BIGINT PRIMARY KEY, fencing_token BIGINT NOT NULL DEFAULT 0)";
    // Roles are the server's, so each story drops what it owns of its own.
    let role = format!("fencepost_other_{}", std::process::id());
    let make_role = format!("CREATE ROLE {role}");
    for (taken, alter) in [
        (
            "CREATE FUNCTION fencepost_t_update() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
            "ALTER FUNCTION fencepost_t_update() OWNER TO",
        ),
        (
            "CREATE TABLE fencepost_t_marks (id BIGINT, fencing_token BIGINT)",
            "ALTER TABLE fencepost_t_marks OWNER TO",
        ),
    ] {
        let alter = format!("{alter} {role}");
        let Some(place) = Place::fresh(Dialect::Postgres, "taken").await else {
            return;
        };
        let mut session = place.session().await;
        session.all(&[&make_role, make, taken, &alter]).await;
        let plan = Enforcement::of_table(Dialect::Postgres, "t")
            .unwrap()
            .deletes(Deletes::KeepMark);
        let error = session.apply(&plan.apply().unwrap()).await.unwrap_err();
        session
            .all(&[
                &format!("DROP OWNED BY {role}"),
                &format!("DROP ROLE {role}"),
            ])
            .await;
        assert!(error.contains("somebody else owns"), "{error}");
        session.apply(&plan.apply().unwrap()).await.unwrap();
    }
}

/// Operators and functions that fit better than the database's own run as whoever applies the script.
#[tokio::test]
async fn what_others_planted_in_public_is_not_run_in_postgres() {
    let planted = [
        "CREATE TABLE t (id BIGINT PRIMARY KEY, fencing_token BIGINT NOT NULL DEFAULT 0)",
        "CREATE FUNCTION public.eq(oid, regclass) RETURNS boolean LANGUAGE plpgsql AS \
         'BEGIN RAISE EXCEPTION ''a planted operator ran''; END'",
        "CREATE OPERATOR public.= (LEFTARG = oid, RIGHTARG = regclass, FUNCTION = public.eq)",
        "CREATE FUNCTION public.quote_ident(name) RETURNS text LANGUAGE plpgsql AS \
         'BEGIN RAISE EXCEPTION ''a planted function ran''; END'",
    ];
    let Some(place) = Place::fresh(Dialect::Postgres, "planted").await else {
        return;
    };
    let mut session = place.session().await;
    session.all(&planted).await;
    // The plants are such that a look-up by the usual path takes them.
    for usual in [
        "SELECT FROM pg_class WHERE oid = 't'::regclass",
        "SELECT quote_ident('t'::name)",
    ] {
        let error = session.run(usual).await.unwrap_err().to_string();
        assert!(error.contains("planted"), "{usual}: {error}");
    }
    let plan = Enforcement::of_table(Dialect::Postgres, "t")
        .unwrap()
        .deletes(Deletes::KeepMark);
    let marks = GuardTableScript::new(Dialect::Postgres, "marks").unwrap();
    let grants = IssuerTableScript::new(Dialect::Postgres, "grants").unwrap();
    for script in [
        plan.apply().unwrap(),
        marks.apply(),
        grants.apply(),
        grants.undo_and_drop(),
        marks.undo_and_drop(),
        plan.undo_and_drop().unwrap(),
    ] {
        session.apply(&script).await.unwrap();
    }
}

#[tokio::test]
async fn sqlites_hidden_ways_to_remove_a_row_stop_it() {
    let token = "fencing_token INTEGER NOT NULL DEFAULT 0";
    let beside =
        format!("CREATE TABLE t (n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, {token})");
    unfit_in(
        Dialect::Sqlite,
        &[&beside],
        "not named by --key or --unique",
    )
    .await;
    let collated = format!("CREATE TABLE t (id TEXT NOT NULL, {token})");
    let index = "CREATE UNIQUE INDEX i ON t (id COLLATE NOCASE)";
    unfit_in(Dialect::Sqlite, &[&collated, index], "collation of its own").await;
}
