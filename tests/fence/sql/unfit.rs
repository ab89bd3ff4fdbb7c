//! Tables that would let a stale write through, or block every write, without a word: refused when
//! they are opened, with the reason and the remedy.

use fencepost::fence::sql::{GuardTable, GuardedTable, SqlError, WriteOutcome};
use sqlx::{Executor as _, MySql, Postgres, Sqlite};

use super::{
    database::{Database, Server},
    on_each_database,
};
use crate::scene::{ACCOUNT, resource, rules, sequencer};

on_each_database!(
    a_table_that_cannot_be_guarded_is_refused_with_the_reason,
    a_name_that_needs_quoting_is_refused_before_any_statement,
    a_table_of_marks_under_whose_collation_names_are_equal_is_refused,
);

/// A table `t`, key `id`, token `token`.
struct Case {
    make: &'static str,
    /// What its refusal says; empty where it is fit.
    reason: &'static str,
}

const fn case(make: &'static str, reason: &'static str) -> Case {
    Case { make, reason }
}

trait Unfit: Server {
    const CASES: &[Case];
    /// A table of marks that takes `A` for `a`.
    const EQUAL_NAMES: &str;
}

impl Unfit for Sqlite {
    const CASES: &[Case] = &[
        case(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, token TEXT NOT NULL)",
            "whole numbers",
        ),
        case(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, token REAL NOT NULL)",
            "whole numbers",
        ),
        case(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, token NOT NULL)",
            "whole numbers",
        ),
        case(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, token NUMERIC NOT NULL)",
            "whole numbers",
        ),
        case(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, token INTEGER)",
            "may be NULL",
        ),
        case(
            "CREATE TABLE t (id INTEGER, token INTEGER NOT NULL)",
            "several rows",
        ),
        case(
            "CREATE TABLE t (id INTEGER, x, token INTEGER NOT NULL, PRIMARY KEY (id, x))",
            "several rows",
        ),
        case(
            "CREATE TABLE t (id INTEGER, token INTEGER NOT NULL);
              CREATE UNIQUE INDEX part ON t (id) WHERE id > 10",
            "several rows",
        ),
        case(
            "CREATE TABLE t (id INTEGER PRIMARY KEY)",
            "no column \"token\"",
        ),
        case(
            "CREATE TABLE t (x INTEGER PRIMARY KEY, token INTEGER NOT NULL)",
            "no column \"id\"",
        ),
        case(
            "CREATE TABLE t (id INTEGER PRIMARY KEY, token INTEGER NOT NULL AS (1))",
            "generated",
        ),
        case(
            "CREATE TABLE t (id TEXT PRIMARY KEY COLLATE NOCASE, token INTEGER NOT NULL)",
            "different names are equal",
        ),
        case(
            "CREATE TABLE t (id TEXT COLLATE RTRIM PRIMARY KEY, token INTEGER NOT NULL)",
            "different names are equal",
        ),
        // Collation of the column and of its index apart.
        case(
            "CREATE TABLE t (id TEXT COLLATE NOCASE, token INTEGER NOT NULL);
              CREATE UNIQUE INDEX i ON t (id COLLATE BINARY)",
            "different names are equal",
        ),
        case(
            "CREATE TABLE t (id TEXT, token INTEGER NOT NULL);
              CREATE UNIQUE INDEX i ON t (id COLLATE NOCASE)",
            "different names are equal",
        ),
        case(
            "CREATE TABLE r (id INTEGER PRIMARY KEY, token INTEGER NOT NULL);
              CREATE VIEW t AS SELECT * FROM r",
            "a view",
        ),
        case(
            "CREATE TABLE t (id TEXT PRIMARY KEY, token BIGINT NOT NULL) STRICT",
            "unknown datatype",
        ),
        case(
            "CREATE TABLE t (id TEXT PRIMARY KEY, token INT NOT NULL) STRICT",
            "",
        ),
        case(
            "CREATE TABLE t (id TEXT UNIQUE, other TEXT COLLATE NOCASE, token BIGINT NOT NULL)",
            "",
        ),
    ];
    const EQUAL_NAMES: &str =
        "CREATE TABLE fencing_marks (resource TEXT COLLATE NOCASE PRIMARY KEY,
        issuer TEXT NOT NULL, token INTEGER NOT NULL)";
}

impl Unfit for Postgres {
    const CASES: &[Case] = &[
        case("CREATE TABLE t (id INT PRIMARY KEY, token TEXT NOT NULL)", "bigint"),
        case("CREATE TABLE t (id INT PRIMARY KEY, token INT NOT NULL)", "bigint"),
        case("CREATE TABLE t (id INT PRIMARY KEY, token NUMERIC NOT NULL)", "bigint"),
        case("CREATE TABLE t (id INT PRIMARY KEY, token DOUBLE PRECISION NOT NULL)", "bigint"),
        case("CREATE TABLE t (id INT PRIMARY KEY, token BIGINT)", "may be NULL"),
        case("CREATE TABLE t (id INT PRIMARY KEY, token BIGINT NOT NULL GENERATED ALWAYS AS (1) STORED)", "generated"),
        case("CREATE TABLE t (id INT PRIMARY KEY, token BIGINT GENERATED ALWAYS AS IDENTITY)", "generated"),
        case("CREATE TABLE t (id BPCHAR[] PRIMARY KEY, token BIGINT NOT NULL)", "made of parts"),
        case("CREATE TABLE t (id NUMRANGE PRIMARY KEY, token BIGINT NOT NULL)", "made of parts"),
        case("CREATE TABLE t (id INT, token BIGINT NOT NULL)", "several rows"),
        case("CREATE TABLE t (id INT, x INT, token BIGINT NOT NULL, PRIMARY KEY (id, x))", "several rows"),
        case("CREATE TABLE t (id INT, token BIGINT NOT NULL);
              CREATE UNIQUE INDEX part ON t (id) WHERE id > 10", "several rows"),
        case("CREATE TABLE t (id INT, token BIGINT NOT NULL);
              CREATE UNIQUE INDEX expression ON t (abs(id))", "several rows"),
        case("CREATE TABLE t (id INT UNIQUE DEFERRABLE, token BIGINT NOT NULL)", "several rows"),
        case("CREATE TABLE t (id INT PRIMARY KEY)", "no column \"token\""),
        case("CREATE TABLE t (\"Id\" INT PRIMARY KEY, token BIGINT NOT NULL)", "no column \"id\""),
        case("CREATE TABLE \"T\" (id INT PRIMARY KEY, token BIGINT NOT NULL)", "no such table"),
        case("CREATE TABLE t (id CHAR(9) PRIMARY KEY, token BIGINT NOT NULL)", "different names are equal"),
        case("CREATE COLLATION nocase (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
              CREATE TABLE t (id TEXT COLLATE nocase PRIMARY KEY, token BIGINT NOT NULL)", "nondeterministic"),
        case("CREATE TABLE t (id TEXT, token BIGINT NOT NULL);
              CREATE UNIQUE INDEX i ON t (id COLLATE nocase)", "several rows"),
        case("CREATE UNLOGGED TABLE t (id INT PRIMARY KEY, token BIGINT NOT NULL)", "UNLOGGED"),
        case("CREATE TABLE r (id INT PRIMARY KEY, token BIGINT NOT NULL);
              CREATE VIEW t AS SELECT * FROM r", "a view"),
        case("CREATE TABLE t (id INT PRIMARY KEY, token BIGINT NOT NULL);
              CREATE TABLE heir () INHERITS (t)", "inherit"),
        case("DROP TABLE heir; CREATE TABLE t (id VARCHAR(9) PRIMARY KEY, token BIGINT NOT NULL)", ""),
        case("CREATE TABLE t (id INT PRIMARY KEY, token BIGINT NOT NULL) PARTITION BY HASH (id)", ""),
    ];
    const EQUAL_NAMES: &str = "CREATE COLLATION nocase2
        (provider = icu, locale = 'und-u-ks-level2', deterministic = false);
        CREATE TABLE fencing_marks (resource TEXT COLLATE nocase2 PRIMARY KEY, issuer TEXT NOT NULL,
            token BIGINT NOT NULL)";
}

impl Unfit for MySql {
    const CASES: &[Case] = &[
        case(
            "CREATE TABLE t (id INT PRIMARY KEY, token TEXT NOT NULL)",
            "BIGINT",
        ),
        case(
            "CREATE TABLE t (id INT PRIMARY KEY, token INT NOT NULL)",
            "BIGINT",
        ),
        case(
            "CREATE TABLE t (id INT PRIMARY KEY, token BIGINT UNSIGNED NOT NULL)",
            "BIGINT",
        ),
        case(
            "CREATE TABLE t (id INT PRIMARY KEY, token DECIMAL(20) NOT NULL)",
            "BIGINT",
        ),
        case(
            "CREATE TABLE t (id INT PRIMARY KEY, token DOUBLE NOT NULL)",
            "BIGINT",
        ),
        case(
            "CREATE TABLE t (id INT PRIMARY KEY, token BIGINT)",
            "may be NULL",
        ),
        case(
            "CREATE TABLE t (id INT, token BIGINT NOT NULL)",
            "several rows",
        ),
        case(
            "CREATE TABLE t (id INT, x INT, token BIGINT NOT NULL, PRIMARY KEY (id, x))",
            "several rows",
        ),
        case(
            "CREATE TABLE t (id VARBINARY(99), token BIGINT NOT NULL, UNIQUE (id(9)))",
            "several rows",
        ),
        case("CREATE TABLE t (id INT PRIMARY KEY)", "no column \"token\""),
        case(
            "CREATE TABLE t (x INT PRIMARY KEY, token BIGINT NOT NULL)",
            "no column \"id\"",
        ),
        case(
            "CREATE TABLE t (id VARCHAR(9) PRIMARY KEY, token BIGINT NOT NULL)",
            "different names are equal",
        ),
        case(
            "CREATE TABLE t (id VARCHAR(9) COLLATE utf8mb4_bin PRIMARY KEY, token BIGINT NOT NULL)",
            "different names are equal",
        ),
        case(
            "CREATE TABLE t (id CHAR(9) COLLATE utf8mb4_nopad_bin PRIMARY KEY, token BIGINT NOT NULL)",
            "different names are equal",
        ),
        case(
            "CREATE TABLE t (id ENUM('a', 'b') PRIMARY KEY, token BIGINT NOT NULL)",
            "different names are equal",
        ),
        case(
            "CREATE TABLE t (id DOUBLE PRIMARY KEY, token BIGINT NOT NULL)",
            "rounding",
        ),
        case(
            "CREATE TABLE t (id INT PRIMARY KEY, token BIGINT NOT NULL) ENGINE=MyISAM",
            "InnoDB",
        ),
        case(
            "CREATE TABLE r (id INT PRIMARY KEY, token BIGINT NOT NULL);
              CREATE VIEW t AS SELECT * FROM r",
            "VIEW",
        ),
        case(
            "DROP VIEW t; CREATE TABLE t (id VARBINARY(9) PRIMARY KEY, token BIGINT NOT NULL)",
            "",
        ),
        case(
            "CREATE TABLE t (id VARCHAR(9) COLLATE utf8mb4_nopad_bin UNIQUE, token BIGINT NOT NULL)",
            "",
        ),
    ];
    const EQUAL_NAMES: &str = "CREATE TABLE fencing_marks (resource VARCHAR(160) PRIMARY KEY,
        issuer VARBINARY(320) NOT NULL, token BIGINT NOT NULL, admissions BIGINT NOT NULL)";
}

async fn open<DB: Server>(
    database: &Database<DB>,
    table: &str,
) -> Result<GuardedTable<DB>, SqlError> {
    let mut connection = database.connect().await;
    GuardedTable::<DB>::open(&mut connection, table, &["id"], "token", rules()).await
}

async fn a_table_that_cannot_be_guarded_is_refused_with_the_reason<DB: Unfit>(
    database: Database<DB>,
) {
    for Case { make, reason } in DB::CASES {
        let mut connection = database.connect().await;
        if let Err(error) = DB::run(&mut connection, make).await {
            assert!(error.to_string().contains(reason), "{make}: {error}");
            continue;
        }
        match open(&database, "t").await {
            Ok(_) => assert_eq!(*reason, "", "{make} was taken"),
            Err(error) => {
                assert!(matches!(error, SqlError::Unfit { .. }), "{make}: {error}");
                let said = !reason.is_empty() && error.to_string().contains(reason);
                assert!(said, "{make}: {error} lacks {reason:?}");
            }
        }
        for drop in ["DROP VIEW IF EXISTS t", "DROP TABLE IF EXISTS t"] {
            // PostgreSQL insists on the right word for the thing.
            let _ = DB::run(&mut connection, drop).await;
        }
        let _ = DB::run(&mut connection, "DROP TABLE IF EXISTS r").await;
    }
    let error = open(&database, "nowhere").await.unwrap_err();
    assert!(error.to_string().contains("no such table"), "{error}");
    let mut connection = database.connect().await;
    let open = GuardedTable::<DB>::open(&mut connection, "accounts", &[], "fencing_token", rules());
    let error = open.await.unwrap_err();
    assert!(error.to_string().contains("no key column"), "{error}");
    let key = ["fencing_token"];
    let open = GuardedTable::<DB>::open(&mut connection, "accounts", &key, key[0], rules());
    let error = open.await.unwrap_err();
    assert!(
        error.to_string().contains("key and token at once"),
        "{error}"
    );
}

async fn a_name_that_needs_quoting_is_refused_before_any_statement<DB: Server>(
    database: Database<DB>,
) {
    let long = "a".repeat(64);
    for name in [
        "", "1a", "a b", "a\"b", "a`b", "a'b", "a;b", "a.b.c", ".a", "a.", "tä", "a\0", &long,
    ] {
        let error = open(&database, name).await.unwrap_err();
        let refused = matches!(error, SqlError::Identifier { .. });
        assert!(refused, "{name:?}: {error}");
    }
}

async fn a_table_of_marks_under_whose_collation_names_are_equal_is_refused<DB: Unfit>(
    database: Database<DB>,
) {
    database.run(DB::EQUAL_NAMES).await;
    let mut connection = database.connect().await;
    let error = GuardTable::<DB>::create(&mut connection, "fencing_marks", rules()).await;
    let error = error.unwrap_err();
    assert!(matches!(error, SqlError::Unfit { .. }), "{error}");
    assert!(
        error.to_string().contains("different names are equal"),
        "{error}"
    );
}

#[tokio::test]
async fn sqlite_tables_are_named_without_a_schema() {
    let database = Database::<Sqlite>::new().await.unwrap();
    let error = open(&database, "main.accounts").await.unwrap_err();
    assert!(matches!(error, SqlError::Identifier { .. }), "{error}");
}

/// A name without a schema is looked up once: a connection with another search path does not write
/// another table of that name.
#[tokio::test]
async fn a_table_stays_the_one_that_was_opened_whatever_the_search_path() {
    let Some(database) = Database::<Postgres>::new().await else {
        return;
    };
    database
        .run(
            "DROP TRIGGER remember ON accounts;
             CREATE SCHEMA \"a-b\"; CREATE TABLE \"a-b\".accounts (LIKE accounts INCLUDING ALL)",
        )
        .await;
    let accounts = database.accounts(rules()).await;
    let mut connection = database.connect().await;
    let elsewhere = "SET search_path = \"a-b\"";
    connection.execute(elsewhere).await.unwrap();
    let write = accounts.write(&resource(ACCOUNT), &sequencer(5));
    let write = write.key(1_i64).set("balance", 5_i64);
    let outcome = write.update(&mut connection).await.unwrap();
    assert_eq!(outcome, WriteOutcome::Written);
    assert_eq!(database.account(1).await, Some((5, 5)));

    // Opened from there, it is the other one; and both can be named.
    let key = ["id"];
    let other =
        GuardedTable::<Postgres>::open(&mut connection, "accounts", &key, "fencing_token", rules())
            .await
            .unwrap();
    let write = other.write(&resource(ACCOUNT), &sequencer(5));
    let write = write.key(1_i64).set("balance", 5_i64);
    let outcome = write.update(&mut connection).await.unwrap();
    assert_eq!(outcome, WriteOutcome::NoSuchRow);
    let named = "public.accounts";
    GuardedTable::<Postgres>::open(&mut connection, named, &["id"], "fencing_token", rules())
        .await
        .unwrap();
}

#[tokio::test]
async fn a_key_that_mysql_would_compare_as_a_float_is_refused() {
    let Some(database) = Database::<MySql>::new().await else {
        return;
    };
    database
        .run("CREATE TABLE names (id VARBINARY(9) PRIMARY KEY, v BIGINT, token BIGINT NOT NULL)")
        .await;
    let names = open(&database, "names").await.unwrap();
    let accounts = database.accounts(rules()).await;
    let mut connection = database.connect().await;
    let write = names.write(&resource(ACCOUNT), &sequencer(5));
    let write = write.key(0_i64).set("v", 1_i64);
    let error = write.upsert(&mut connection).await.unwrap_err();
    assert!(
        error.to_string().contains("does not compare exactly"),
        "{error}"
    );
    let write = accounts.write(&resource(ACCOUNT), &sequencer(5));
    let write = write.key("1st").set("balance", 1_i64);
    let error = write.update(&mut connection).await.unwrap_err();
    assert!(
        error.to_string().contains("does not compare exactly"),
        "{error}"
    );
    assert_eq!(database.account(1).await, Some((0, 0)));
}

/// `ON DUPLICATE KEY UPDATE` would overwrite the row of whoever has the same e-mail address.
#[tokio::test]
async fn a_row_that_meets_anothers_unique_key_in_mysql_is_an_error_and_overwrites_nothing() {
    let Some(database) = Database::<MySql>::new().await else {
        return;
    };
    database
        .run(
            "CREATE TABLE people (id BIGINT PRIMARY KEY, email VARCHAR(99) UNIQUE,
                 token BIGINT NOT NULL);
             INSERT INTO people VALUES (1, 'a@example.org', 0)",
        )
        .await;
    let people = open(&database, "people").await.unwrap();
    let mut connection = database.connect().await;
    let write = people.write(&resource(ACCOUNT), &sequencer(5));
    let write = write.key(2_i64).set("email", "a@example.org");
    let error = write.upsert(&mut connection).await.unwrap_err();
    assert!(error.to_string().contains("1062"), "{error}");
    assert!(!error.may_retry());
    let rows = MySql::numbers(&mut connection, "SELECT id, token FROM people").await;
    assert_eq!(rows.unwrap(), [[1, 0]]);
}

#[tokio::test]
async fn a_mark_that_is_no_token_stops_the_write_and_is_shown() {
    let database = Database::<Sqlite>::new().await.unwrap();
    let (accounts, mut connection) = (database.accounts(rules()).await, database.connect().await);
    // INTEGER affinity keeps what it cannot convert.
    for (value, shown) in [("'soon'", "soon"), ("1e30", "1.0e+30"), ("x'00'", "X'00'")] {
        database
            .run(&format!("UPDATE accounts SET fencing_token = {value}"))
            .await;
        let write = accounts.write(&resource(ACCOUNT), &sequencer(5));
        let outcome = write.key(1).set("balance", 1).update(&mut connection).await;
        let error = outcome.unwrap_err();
        assert!(matches!(error, SqlError::Mark { .. }), "{error}");
        assert!(error.to_string().contains(shown), "{error} lacks {shown:?}");
    }
}

#[tokio::test]
async fn a_trigger_that_swallows_the_write_is_not_reported_as_stale() {
    let database = Database::<Sqlite>::new().await.unwrap();
    let (accounts, mut connection) = (database.accounts(rules()).await, database.connect().await);
    let trigger = "CREATE TRIGGER swallow BEFORE UPDATE ON accounts WHEN new.balance < 0
                   BEGIN SELECT RAISE(IGNORE); END";
    connection.execute(trigger).await.unwrap();
    let write = |balance: i64| {
        let write = accounts.write(&resource(ACCOUNT), &sequencer(5));
        write.key(1).set("balance", balance)
    };
    let error = write(-1).update(&mut connection).await.unwrap_err();
    assert!(error.to_string().contains("trigger"), "{error}");
    let outcome = write(1).update(&mut connection).await.unwrap();
    assert_eq!(outcome, WriteOutcome::Written);
}
