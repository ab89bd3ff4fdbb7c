//! Names with quotes, blanks, reserved words and worse: quoted, or refused; never a part of a statement.

use fencepost::fence::enforcement::{Deletes, Dialect, Enforcement};
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng, seq::IndexedRandom as _};

use super::{Place, Session, on_each_database};

/// What names are made of here: all that has a meaning somewhere in a statement or a script.
const PIECES: [&str; 34] = [
    "a",
    "Z",
    "_",
    "1",
    " ",
    "'",
    "\"",
    "`",
    ";",
    "--",
    "/*",
    "*/",
    "\\",
    "$",
    "$fencepost$",
    "$$",
    "#",
    "//",
    "DELIMITER",
    "select",
    "table",
    ".",
    ",",
    "%",
    "?",
    ":x",
    "@",
    "é",
    "日本",
    "🦀",
    "\n",
    "\u{202e}",
    "]",
    "NEW",
];

/// Odd names that people have, and those that an attacker would try.
const KNOWN: [&str; 12] = [
    "order",
    "select",
    "user table",
    "Ünïcode",
    "a\"b",
    "a`b",
    "a'b",
    "x\"; DROP TABLE victims; --",
    "x`; DROP TABLE victims; -- ",
    "'); DROP TABLE victims; --",
    "$fencepost$; DROP TABLE victims; $fencepost$",
    "a.b",
];

fn invented(random: &mut StdRng) -> String {
    let count = random.random_range(1..9);
    let mut name: String = (0..count)
        .map(|_| *PIECES.choose(random).unwrap())
        .collect();
    if random.random_bool(0.1) {
        name = name.repeat(20);
    }
    name
}

/// `"a.b"`: how an odd part is written on the command line.
fn written(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// How the test itself quotes, apart from the code under test.
fn quoted(dialect: Dialect, name: &str) -> String {
    match dialect {
        Dialect::MariaDb | Dialect::MySql => format!("`{}`", name.replace('`', "``")),
        Dialect::Postgres | Dialect::Sqlite => written(name),
    }
}

/// Makes a table of these names, and plays a whole story on it; false if the names were refused.
async fn played(
    dialect: Dialect,
    session: &mut Session,
    names: [&str; 3],
    deletes: Deletes,
) -> bool {
    let [table, key, token] = names;
    let plan = Enforcement::of_table(dialect, &written(table))
        .and_then(|plan| plan.key(&[key]))
        .and_then(|plan| plan.token_column(token))
        .map(|plan| plan.deletes(deletes));
    let scripts = plan.and_then(|plan| Ok((plan.apply()?, plan.undo_and_drop()?)));
    let Ok((apply, undo)) = scripts else {
        return false;
    };
    let [t, k, m] = names.map(|name| quoted(dialect, name));
    let made = session.run(&format!("CREATE TABLE {t} ({k} BIGINT NOT NULL PRIMARY KEY, balance BIGINT, {m} BIGINT NOT NULL DEFAULT 0)")).await;
    if let Err(error) = made {
        // The server takes less than we do (two columns that differ in case alone, say): its word is clear.
        println!("{names:?}: {error}");
        return false;
    }
    session
        .apply(&apply)
        .await
        .unwrap_or_else(|error| panic!("{names:?}: {error}"));
    session
        .all(&[&format!("INSERT INTO {t} VALUES (1, 10, 7)")])
        .await;
    session
        .refused(&format!("UPDATE {t} SET balance = 0, {m} = 6"))
        .await;
    session
        .refused(&format!("UPDATE {t} SET {k} = 2, {m} = 8"))
        .await;
    session
        .all(&[&format!("UPDATE {t} SET balance = 11, {m} = 8")])
        .await;
    match deletes {
        Deletes::Refuse => {
            session.refused(&format!("DELETE FROM {t}")).await;
        }
        Deletes::KeepMark => {
            session.all(&[&format!("DELETE FROM {t}")]).await;
            session
                .refused(&format!("INSERT INTO {t} VALUES (1, 10, 7)"))
                .await;
        }
    }
    session
        .apply(&undo)
        .await
        .unwrap_or_else(|error| panic!("{names:?}: {error}"));
    session.all(&[&format!("DROP TABLE {t}")]).await;
    true
}

on_each_database! {
    async fn odd_names_are_quoted_or_refused(dialect) {
        let Some(place) = Place::fresh(dialect, "odd").await else { return };
        let mut session = place.session().await;
        session.all(&["CREATE TABLE victims (id BIGINT)"]).await;
        for name in KNOWN {
            let deletes = Deletes::KeepMark;
            let taken = played(dialect, &mut session, [name, "id", "fencing_token"], deletes).await;
            let blank_end = name.ends_with(' ') && dialect == Dialect::MariaDb;
            assert_ne!(taken, blank_end, "{name}");
            if !blank_end {
                assert!(played(dialect, &mut session, ["t", name, "fencing_token"], deletes).await, "{name}");
                assert!(played(dialect, &mut session, ["t", "id", name], deletes).await, "{name}");
            }
        }
        let seed = 7;
        let mut random = StdRng::seed_from_u64(seed);
        let mut taken = 0;
        for round in 0..150 {
            let names = [invented(&mut random), invented(&mut random), invented(&mut random)];
            let deletes = if round % 2 == 0 { Deletes::Refuse } else { Deletes::KeepMark };
            let names = [&*names[0], &*names[1], &*names[2]];
            taken += usize::from(played(dialect, &mut session, names, deletes).await);
        }
        assert!(taken > 15, "only {taken} of the invented names (seed {seed}) were taken");
        // Nothing else was touched, and nothing was left behind.
        session.all(&["INSERT INTO victims VALUES (1)"]).await;
        let rest = match dialect {
            Dialect::Postgres => "SELECT relname::text FROM pg_class WHERE relnamespace = 'public'::regnamespace",
            Dialect::MariaDb | Dialect::MySql => "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE()",
            Dialect::Sqlite => "SELECT name FROM sqlite_master",
        };
        assert_eq!(session.rows(rest).await, ["victims"]);
    }

    async fn the_longest_name_has_triggers_of_its_own(dialect) {
        let Some(place) = Place::fresh(dialect, "long").await else { return };
        let mut session = place.session().await;
        let limit = match dialect { Dialect::Postgres => 63, Dialect::Sqlite => 255, _ => 64 };
        let (a, b) = ("x".repeat(limit - 1) + "a", "x".repeat(limit - 1) + "b");
        let table = |name: &str| format!("CREATE TABLE {name} (id BIGINT NOT NULL PRIMARY KEY, fencing_token BIGINT NOT NULL DEFAULT 0)");
        session.all(&[&table(&a), &table(&b)]).await;
        for name in [&a, &b] {
            let plan = Enforcement::of_table(dialect, name).unwrap().deletes(Deletes::KeepMark);
            session.apply(&plan.apply().unwrap()).await.unwrap();
            session.all(&[&format!("INSERT INTO {name} VALUES (1, 7)")]).await;
        }
        for name in [&a, &b] {
            session.refused(&format!("UPDATE {name} SET fencing_token = 6")).await;
        }
    }
}

#[tokio::test]
async fn a_schema_may_be_named() {
    for (dialect, make) in [
        (Dialect::Postgres, "CREATE SCHEMA \"odd \"\"schema\""),
        (
            Dialect::MariaDb,
            "CREATE OR REPLACE DATABASE `odd \"schema`",
        ),
        (Dialect::Sqlite, "ATTACH ':memory:' AS \"odd \"\"schema\""),
    ] {
        let Some(place) = Place::fresh(dialect, "schema").await else {
            continue;
        };
        let mut session = place.session().await;
        let whole = match dialect {
            Dialect::MariaDb => "`odd \"schema`.accounts",
            _ => "\"odd \"\"schema\".accounts",
        };
        let table = format!(
            "CREATE TABLE {whole} (id BIGINT NOT NULL PRIMARY KEY, fencing_token BIGINT NOT NULL DEFAULT 0)"
        );
        session.all(&[make, &table]).await;
        for deletes in [Deletes::Refuse, Deletes::KeepMark] {
            let plan = Enforcement::of_table(dialect, "\"odd \"\"schema\".accounts")
                .unwrap()
                .deletes(deletes);
            session.apply(&plan.apply().unwrap()).await.unwrap();
            session
                .all(&[&format!("INSERT INTO {whole} VALUES (1, 7)")])
                .await;
            session
                .refused(&format!("UPDATE {whole} SET fencing_token = 6"))
                .await;
            session.apply(&plan.undo_and_drop().unwrap()).await.unwrap();
            session.all(&[&format!("DELETE FROM {whole}")]).await;
        }
    }
}
