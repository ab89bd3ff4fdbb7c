//! `docs/fencing-sql.md`: every statement on the page is read from there and carried out.

use std::{collections::BTreeSet, sync::Mutex};

use fencepost::fence::sql::{GuardTable, GuardedTable};
use sqlx::{MySql, Postgres, Sqlite};

use super::{
    database::{Database, Server},
    on_each_database,
};
use crate::scene::rules;

const PAGE: &str = include_str!("../../../docs/fencing-sql.md");

on_each_database!(
    the_pages_statements_on_rows_fence,
    the_pages_statements_on_marks_fence,
);

/// What the page calls a database.
trait OnPage: Server {
    const CALLED: &str;
    /// What a statement on one row counts that leaves it as it is: sqlx asks MySQL for found rows.
    const UNCHANGED: u64 = 0;
}

impl OnPage for Sqlite {
    const CALLED: &str = "sqlite";
}

impl OnPage for Postgres {
    const CALLED: &str = "postgresql";
}

impl OnPage for MySql {
    const CALLED: &str = "mysql";
    const UNCHANGED: u64 = 1;
}

/// Types of another version of sqlx are other types: what the page says must be what this is built with.
#[test]
fn the_page_names_the_version_of_sqlx() {
    let manifest = include_str!("../../../Cargo.toml");
    let version = manifest.split("\nsqlx = { version = \"").nth(1).unwrap();
    let version = version.split('"').next().unwrap();
    for said in [
        format!("version {version};"),
        format!("sqlx = {{ version = \"{version}\""),
    ] {
        assert!(PAGE.contains(&said), "{said}");
    }
}

/// The blocks of the page: name, databases (all if there is none), statement.
fn blocks() -> impl Iterator<Item = (&'static str, Vec<&'static str>, &'static str)> {
    PAGE.split("\n```sql ").skip(1).map(|rest| {
        let (head, rest) = rest.split_once('\n').unwrap();
        let (name, databases) = head.split_once(' ').unwrap_or((head, ""));
        let databases = databases.split_whitespace().collect();
        (name, databases, rest.split_once("\n```").unwrap().0)
    })
}

/// The page's statements for one database, and which of them were carried out.
struct Page<DB> {
    used: Mutex<BTreeSet<&'static str>>,
    database: std::marker::PhantomData<fn() -> DB>,
}

impl<DB: OnPage> Page<DB> {
    fn new() -> Self {
        Self {
            used: Mutex::default(),
            database: std::marker::PhantomData,
        }
    }

    fn all() -> impl Iterator<Item = (&'static str, &'static str)> {
        blocks()
            .filter(|(_, databases, _)| databases.is_empty() || databases.contains(&DB::CALLED))
            .map(|(name, _, sql)| (name, sql))
    }

    /// A statement, with the values in the place of its parameters.
    fn get(&self, name: &str, values: &[(&str, &str)]) -> String {
        let found: Vec<_> = Self::all().filter(|(other, _)| *other == name).collect();
        let [(name, sql)] = found[..] else {
            panic!("{} has {} blocks {name:?}", DB::CALLED, found.len());
        };
        self.used.lock().unwrap().insert(name);
        let mut sql = sql.to_owned();
        for (parameter, value) in values {
            // `:id` must not be found in `:identity`.
            sql = sql
                .split(&format!(":{parameter}"))
                .collect::<Vec<_>>()
                .join(value);
        }
        let left = sql
            .split(':')
            .skip(1)
            .any(|rest| rest.starts_with(char::is_alphabetic));
        assert!(!left, "{name}: a parameter without a value: {sql}");
        sql
    }

    /// That no statement of these was left out.
    fn all_used(&self, of_marks: bool) {
        let used = self.used.lock().unwrap();
        for (name, _) in Self::all() {
            let about_marks = name.contains("mark") || name.starts_with("raise");
            let ours = about_marks == of_marks;
            assert!(
                !ours || used.contains(name),
                "{name} of {} was never run",
                DB::CALLED
            );
        }
    }
}

async fn the_pages_statements_on_rows_fence<DB: OnPage>(database: Database<DB>) {
    let page = Page::<DB>::new();
    let mut connection = database.connect().await;
    let without = "ALTER TABLE accounts DROP COLUMN fencing_token";
    let untold = match DB::CALLED {
        "postgresql" => "DROP TRIGGER remember ON accounts",
        _ => "DROP TRIGGER remember",
    };
    for sql in [untold, without, &page.get("column", &[])] {
        DB::run(&mut connection, sql).await.unwrap();
    }
    let open = GuardedTable::<DB>::open(
        &mut connection,
        "accounts",
        &["id"],
        "fencing_token",
        rules(),
    );
    open.await.unwrap();

    let mut write = async |name, id, token| {
        let values = [
            ("id", id),
            ("token", token),
            ("balance", token),
            ("version", "0"),
        ];
        let done = DB::count(&mut connection, &page.get(name, &values)).await;
        let why = page.get("why", &[("id", id)]);
        let why = DB::texts(&mut connection, &why).await.unwrap();
        (done.unwrap(), why.concat())
    };
    let mark = |token: &str| vec![token.to_owned()];
    assert_eq!(write("update", "1", "7").await, (1, mark("7")));
    assert_eq!(write("update", "1", "6").await, (0, mark("7")));
    assert_eq!(write("update", "1", "7").await, (1, mark("7")));
    assert_eq!(write("update", "2", "7").await, (0, vec![]));
    assert_eq!(write("upsert", "2", "7").await, (1, mark("7")));
    assert_eq!(write("upsert", "2", "6").await, (DB::UNCHANGED, mark("7")));
    let changed = 1 + DB::UNCHANGED;
    assert_eq!(write("upsert", "2", "8").await, (changed, mark("8")));
    assert_eq!(database.account(1).await, Some((7, 7)));
    assert_eq!(database.account(2).await, Some((8, 8)));

    let mut write = async |token, version| {
        let values = [
            ("id", "1"),
            ("token", token),
            ("balance", token),
            ("version", version),
        ];
        let done = DB::count(&mut connection, &page.get("version", &values)).await;
        let why = page.get("why-version", &[("id", "1")]);
        let why = DB::numbers(&mut connection, &why).await.unwrap();
        (done.unwrap(), why.concat())
    };
    assert_eq!(write("7", "0").await, (1, vec![7, 1]));
    assert_eq!(write("7", "0").await, (0, vec![7, 1]), "a version conflict");
    assert_eq!(write("6", "1").await, (0, vec![7, 1]), "stale");
    page.all_used(false);
}

async fn the_pages_statements_on_marks_fence<DB: OnPage>(database: Database<DB>) {
    let page = Page::<DB>::new();
    let marks = page.get("marks", &[]);
    assert_eq!(
        GuardTable::<DB>::create_sql("fencing_marks")
            .unwrap()
            .trim(),
        marks.trim()
    );
    let mut connection = database.connect().await;
    DB::run(&mut connection, &marks).await.unwrap();
    let open = GuardTable::<DB>::open(&mut connection, "fencing_marks", rules());
    open.await.unwrap();

    let mut raise = async |issuer: &str, token: &str| {
        let issuer = format!("'{issuer}'");
        let values = [
            ("resource", "'account/1'"),
            ("issuer", &issuer),
            ("token", token),
        ];
        let mut tx = DB::begin(&mut connection, DB::USUAL).await.unwrap();
        let raised = match DB::CALLED {
            "mysql" => {
                DB::run(&mut tx, &page.get("raise-1", &values))
                    .await
                    .unwrap();
                let seen = DB::texts(&mut tx, &page.get("raise-2", &values)).await;
                let seen = seen.unwrap().concat().concat();
                let mut values = values.to_vec();
                values.push(("admissions", &seen));
                DB::count(&mut tx, &page.get("raise-3", &values)).await
            }
            _ => DB::count(&mut tx, &page.get("raise", &values)).await,
        };
        let why = DB::texts(&mut tx, &page.get("why-mark", &values))
            .await
            .unwrap();
        tx.commit().await.unwrap();
        (raised.unwrap(), why.concat().join(" "))
    };
    assert_eq!(raise("bank", "7").await, (1, "bank 7".to_owned()));
    assert_eq!(raise("bank", "6").await, (0, "bank 7".to_owned()));
    assert_eq!(raise("bank", "7").await, (1, "bank 7".to_owned()));
    assert_eq!(raise("casino", "9").await, (0, "bank 7".to_owned()));
    assert_eq!(raise("bank", "8").await, (1, "bank 8".to_owned()));
    page.all_used(true);
}

#[test]
fn every_statement_on_the_page_is_marked_as_one() {
    let fences = PAGE.matches("\n```").count();
    assert_eq!(
        fences,
        2 * blocks().count(),
        "a block without a name is not carried out"
    );
    let known = [Sqlite::CALLED, Postgres::CALLED, MySql::CALLED];
    for (name, databases, _) in blocks() {
        let unknown = databases.iter().find(|database| !known.contains(database));
        assert_eq!(unknown, None, "{name}");
    }
}
