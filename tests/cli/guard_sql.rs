//! `fencepost guard sql` prints statements, or says what is wrong with the names.

use crate::fencepost;

async fn printed(args: &[&str]) -> String {
    let run = fencepost(&[&["guard", "sql"], args].concat()).await;
    assert_eq!(run.code, Some(0), "{args:?}: {}", run.stderr);
    assert_eq!(run.stderr, "");
    run.stdout
}

#[tokio::test]
async fn every_database_gets_its_statements_and_their_reverse() {
    for dialect in ["postgres", "mariadb", "mysql", "sqlite"] {
        let args = ["--dialect", dialect, "--table", "accounts", "--add-column"];
        let apply = printed(&args).await;
        for part in [
            "-- Apply: ",
            "ADD COLUMN",
            "CREATE TRIGGER",
            "fencepost: delete refused",
        ] {
            assert!(apply.contains(part), "{dialect}: {part}: {apply}");
        }
        let undo = printed(&[&args[..], &["--undo"]].concat()).await;
        assert!(undo.contains("DROP TRIGGER IF EXISTS"), "{dialect}: {undo}");
        for part in ["CREATE", "DROP COLUMN"] {
            assert!(!undo.contains(part), "{dialect}: {part}: {undo}");
        }
        let dropping = printed(&[&args[..], &["--undo", "--drop-marks"]].concat()).await;
        assert!(dropping.contains("DROP COLUMN"), "{dialect}: {dropping}");
    }
}

#[tokio::test]
async fn tables_of_marks_and_of_grants_are_printed_beside() {
    for dialect in ["postgres", "mariadb", "sqlite"] {
        let tables = [
            "--guard-table",
            "fencing_marks",
            "--issuer-table",
            "lock_grants",
        ];
        let sql = printed(&[&["--dialect", dialect], &tables[..]].concat()).await;
        assert_eq!(
            sql.matches("CREATE TABLE ").count(),
            2 + usize::from(dialect == "sqlite"),
            "{sql}"
        );
        let undo = [&["--dialect", dialect, "--undo"], &tables[..]].concat();
        for (more, dropped) in [(&[][..], 0), (&["--drop-marks"][..], 2)] {
            let sql = printed(&[&undo[..], more].concat()).await;
            // Alone in its line: SQLite's note, which is no mark, goes by DROP TABLE IF EXISTS.
            let tables = sql
                .lines()
                .filter(|line| line.starts_with("DROP TABLE") && !line.contains("IF EXISTS"));
            assert_eq!(tables.count(), dropped, "{dialect}: {sql}");
        }
    }
}

#[tokio::test]
async fn policies_show_in_the_statements() {
    let once = printed(&[
        "--dialect",
        "sqlite",
        "--table",
        "t",
        "--equal-tokens",
        "refuse",
    ])
    .await;
    assert!(
        once.contains("NEW.\"fencing_token\" <= OLD.\"fencing_token\""),
        "{once}"
    );
    let kept = printed(&[
        "--dialect",
        "postgres",
        "--table",
        "t",
        "--deletes",
        "keep-mark",
    ])
    .await;
    assert!(kept.contains("fencepost_t_marks"), "{kept}");
}

#[tokio::test]
async fn what_cannot_be_is_a_usage_error_and_prints_nothing() {
    let long = "x".repeat(64);
    let cases: [(&[&str], &str); 12] = [
        (&[], "--dialect"),
        (
            &["--dialect", "oracle", "--table", "t"],
            "postgres, mariadb, mysql, sqlite",
        ),
        (&["--dialect", "sqlite"], "--table"),
        (
            &["--dialect", "sqlite", "--table", "t", "--drop-marks"],
            "--undo",
        ),
        (&["--dialect", "sqlite", "--table", ""], "it is empty"),
        (
            &["--dialect", "sqlite", "--table", "a\nb"],
            "control character",
        ),
        (
            &["--dialect", "sqlite", "--table", "a\"; DROP TABLE b; --"],
            "double quote is out of place",
        ),
        (
            &["--dialect", "postgres", "--table", &long],
            "longer than 63 bytes",
        ),
        (
            &["--dialect", "postgres", "--table", "a.b.c"],
            "more than one dot",
        ),
        (
            &[
                "--dialect",
                "postgres",
                "--table",
                "t",
                "--key",
                "fencing_token",
            ],
            "cannot be a part of a key",
        ),
        (
            &["--dialect", "postgres", "--table", "t", "--key", "a,a"],
            "named twice",
        ),
        (
            &[
                "--dialect",
                "mysql",
                "--table",
                "t",
                "--unnamed-token",
                "refuse",
            ],
            "refuse equal tokens",
        ),
    ];
    for (args, part) in cases {
        let run = fencepost(&[&["guard", "sql"], args].concat()).await;
        assert_eq!(run.code, Some(2), "{args:?}: {}", run.stderr);
        assert!(
            run.stderr.contains(part),
            "{args:?} should say {part:?}: {}",
            run.stderr
        );
        assert!(run.stdout.is_empty(), "{args:?}: {}", run.stdout);
    }
}

#[tokio::test]
async fn its_help_teaches_and_hides_the_connection() {
    let run = fencepost(&["guard", "sql", "--help"]).await;
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    for part in [
        "  fencepost guard sql --dialect postgres",
        "--undo",
        "--drop-marks",
        "ZF001",
    ] {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
    assert!(!run.stdout.contains("--endpoints"), "{}", run.stdout);
    let wide = run.stdout.lines().find(|line| line.chars().count() > 100);
    assert_eq!(wide, None);
    let run = fencepost(&["guard", "sql", "--endpoints", "127.0.0.1:1"]).await;
    assert!(run.stderr.contains("talks to no cluster"), "{}", run.stderr);
}
