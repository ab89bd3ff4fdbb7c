//! The snippets of `docs/fencing-guide.md`, read from the page and run.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use fencepost::fence::{
    Rules,
    enforcement::{Dialect, Enforcement},
    sql::GuardTable,
};
use sqlx::{Connection as _, PgConnection};
use tempfile::TempDir;

use crate::service::{Service, right};
use crate::{databases, environment};

const PROJECT: &str = env!("CARGO_MANIFEST_DIR");
const PAGE: &str = "docs/fencing-guide.md";
/// What runs the snippets, one file a subject.
const CHECKS: [&str; 4] = [
    "check_rows.py",
    "check_psycopg.py",
    "check_client.py",
    "check_table.py",
];
/// What `fencepost hold` says to a program, and what `fencepost acquire` answers, as the command line's tests
/// have both.
const HELD: [(&str, &str); 4] = [
    ("FENCEPOST_ISSUER", "prod"),
    ("FENCEPOST_RESOURCE", "accounts/17"),
    ("FENCEPOST_TOKEN", "9007199254740993"),
    (
        "ACQUIRED",
        r#"{"outcome":"granted","resource":"accounts/17","token":"9007199254740993","issuer":"prod"}"#,
    ),
];

fn project(path: &str) -> PathBuf {
    Path::new(PROJECT).join(path)
}

/// The blocks of a page that have a file's name, by that name.
fn blocks(page: &str) -> BTreeMap<String, String> {
    let mut blocks = BTreeMap::new();
    for fenced in page.split("```").skip(1).step_by(2) {
        let (head, body) = fenced.split_once('\n').unwrap_or((fenced, ""));
        if let Some((_, name)) = head.split_once(' ') {
            let old = blocks.insert(name.trim().to_owned(), body.to_owned());
            assert_eq!(old, None, "{name} is there twice");
        }
    }
    blocks
}

/// The guide's blocks as files in a directory of their own.
fn written() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (name, body) in blocks(&fs::read_to_string(project(PAGE)).unwrap()) {
        fs::write(directory.path().join(name), body).unwrap();
    }
    directory
}

/// Runs a check to its end, which must be a good one.
fn check(python: &Path, script: &str, arguments: &[&str]) {
    let guide = written();
    let mut command = Command::new(python);
    command
        .arg(project("tests/probe/guide").join(script))
        .args(arguments)
        .env("GUIDE", guide.path())
        .envs(HELD)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let output = command.output().unwrap();
    println!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn rows_carry_their_tokens() {
    check(Path::new("python3"), "check_rows.py", &[]);
}

#[test]
fn callers_tell_a_stale_token_from_everything_else() {
    let service = Service::start(&right(), None);
    let url = service.url();
    let url = url.strip_suffix("/{resource}").unwrap();
    check(Path::new("python3"), "check_client.py", &[url]);
}

/// A Python with psycopg, and an empty database; nothing where either is missing.
async fn psycopg(name: &str) -> Option<(PathBuf, String)> {
    let postgres = databases::postgres()?;
    let requirements = project("tests/probe/guide/requirements.txt");
    let python = environment::python("guide-python", &requirements)?;
    Some((python, postgres.fresh(name).await))
}

#[tokio::test]
async fn rows_carry_their_tokens_in_postgres_too() {
    let Some((python, url)) = psycopg("guide_rows").await else {
        return;
    };
    check(&python, "check_psycopg.py", &[&url]);
}

#[tokio::test]
async fn a_table_of_marks_is_one_for_python_and_rust() {
    let Some((python, url)) = psycopg("guide").await else {
        return;
    };
    let triggers = tempfile::NamedTempFile::new().unwrap();
    let script = Enforcement::of_table(Dialect::Postgres, "other").unwrap();
    fs::write(triggers.path(), script.apply().unwrap().to_string()).unwrap();
    let path = triggers.path().to_str().unwrap();
    check(&python, "check_table.py", &[&url, path]);

    // What Python left there is what Rust reads.
    let mut connection = PgConnection::connect(&url).await.unwrap();
    let rules = Rules::issued_by("prod".parse().unwrap());
    let table = GuardTable::<sqlx::Postgres>::open(&mut connection, "fencing_marks", rules);
    let table = table.await.expect("the guide's table is a table of marks");
    let mut transaction = connection.begin().await.unwrap();
    let late = "prod:ledger:8".parse().unwrap();
    let verdict = table.fenced(&mut transaction, &late).await.unwrap();
    let refused = verdict.admitted().unwrap_err().to_string();
    assert!(refused.contains("required at least 9"), "{refused}");
}

#[test]
fn every_snippet_is_checked() {
    let checks = CHECKS.map(|name| fs::read_to_string(project("tests/probe/guide").join(name)));
    let checks = checks.map(Result::unwrap);
    let names: Vec<String> = blocks(&fs::read_to_string(project(PAGE)).unwrap())
        .into_keys()
        .collect();
    assert!(names.len() >= 7, "{names:?}");
    for name in names {
        let module = format!("import {}\n", name.trim_end_matches(".py"));
        let is_used =
            |text: &&String| text.contains(&module) || text.contains(&format!("\"{name}\""));
        assert!(
            checks.iter().any(|text| is_used(&text)),
            "nothing runs {name}"
        );
    }
}
