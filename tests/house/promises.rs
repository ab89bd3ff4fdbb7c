//! Every sentence of the promise names tests that show it, and these tests exist.

use crate::markdown;
use crate::tree::{Tree, wants_none, wants_one};

const PAGE: &str = "docs/verification.md";

/// The bold words that begin the rows of the README's table.
fn promised(tree: &Tree) -> Vec<String> {
    let rows = tree
        .text("README.md")
        .lines()
        .filter_map(|line| line.strip_prefix("| **"));
    rows.filter_map(|row| row.split_once("**"))
        .map(|(name, _)| name.to_owned())
        .collect()
}

fn complaints(tree: &Tree) -> Vec<String> {
    let rows = markdown::table(tree.text(PAGE), "promise");
    let mut complaints = Vec::new();
    for name in promised(tree) {
        if !rows.iter().any(|row| row[0] == format!("**{name}**")) {
            complaints.push(format!("{PAGE}: the promise '{name}' has no row"));
        }
    }
    for row in &rows {
        let tests = markdown::code(&row[1]);
        if tests.is_empty() {
            complaints.push(format!("{PAGE}: {} names no test", row[0]));
        }
        for test in tests {
            let (path, function) = test.split_once("::").unwrap_or((&test, ""));
            if !tree.text(path).contains(&format!("fn {function}(")) {
                complaints.push(format!("{PAGE}: there is no test {test}"));
            }
        }
    }
    complaints
}

#[test]
fn every_promise_is_shown_by_tests() {
    let tree = Tree::real();
    assert!(
        promised(&tree).len() >= 8,
        "the promise was not found in README.md"
    );
    wants_none(&complaints(&tree));
}

#[test]
fn a_promise_without_a_test_is_noticed() {
    let readme = "| **order** | A. |\n| **unique** | B. |";
    let complain = |page: &str| {
        let test = ("tests/a.rs", "fn rises() {}");
        complaints(&Tree::of(&[("README.md", readme), (PAGE, page), test]))
    };
    let head = "| promise | shown by |\n|---|---|\n";
    let both =
        format!("{head}| **order** | `tests/a.rs::rises` |\n| **unique** | `tests/a.rs::rises` |");
    wants_none(&complain(&both));
    wants_one(
        &complain(&both.replace("| **unique**", "| **other**")),
        &["'unique' has no row"],
    );
    wants_one(
        &complain(&both.replacen("rises", "falls", 1)),
        &["tests/a.rs::falls"],
    );
    wants_one(
        &complain(&both.replacen("`tests/a.rs::rises`", "soon", 1)),
        &["names no test"],
    );
}
