//! The table of exit codes in `docs/operations.md` and the constants in the code are equal.

use std::collections::BTreeMap;

use crate::markdown;
use crate::rust::{self, Token};
use crate::tree::{Tree, wants_none, wants_one};

const CODE: &str = "src/cli/exit.rs";
const PAGE: &str = "docs/operations.md";
const UNIT: &str = "deploy/fencepost@.service";

/// Name to number, from lines like `pub(crate) const USAGE: u8 = 2;`.
fn in_code(tree: &Tree) -> BTreeMap<String, String> {
    let tokens: Vec<Token> = rust::tokens(tree.text(CODE))
        .into_iter()
        .map(|placed| placed.token)
        .collect();
    let constants = tokens.windows(6).filter(|six| {
        six[0].is("const")
            && six[2] == Token::Mark(':')
            && six[3].is("u8")
            && six[4] == Token::Mark('=')
    });
    let text = |token: &Token| token.word().unwrap_or_default().to_owned();
    constants
        .map(|six| (text(&six[1]), text(&six[5])))
        .collect()
}

/// Name to number, from rows like ``| 2 | `USAGE` | ...``.
fn in_page(tree: &Tree) -> BTreeMap<String, String> {
    let rows = markdown::table(tree.text(PAGE), "code");
    rows.iter()
        .map(|row| (markdown::code(&row[1]).join(""), row[0].clone()))
        .filter(|(name, _)| !name.is_empty()) // 0 needs no constant
        .collect()
}

fn complaints(tree: &Tree) -> Vec<String> {
    let (code, page) = (in_code(tree), in_page(tree));
    let mut complaints = Vec::new();
    for (name, number) in &code {
        match page.get(name) {
            Some(other) if other == number => {}
            Some(other) => {
                complaints.push(format!("`{name}` is {number} in {CODE}, {other} in {PAGE}"))
            }
            None => complaints.push(format!("`{name}` ({number}) is missing in {PAGE}")),
        }
    }
    for name in page.keys().filter(|name| !code.contains_key(*name)) {
        complaints.push(format!("`{name}` is in {PAGE}, but not in {CODE}"));
    }
    if code
        .values()
        .collect::<std::collections::BTreeSet<_>>()
        .len()
        != code.len()
    {
        complaints.push(format!("two names have one number in {CODE}"));
    }
    complaints
}

/// A node that refused for a reason that a restart cannot mend is left alone by systemd.
fn complaints_about_unit(tree: &Tree) -> Vec<String> {
    let code = in_code(tree);
    let lasting = [
        "USAGE",
        "CONFIGURATION",
        "IDENTITY",
        "STORAGE_DAMAGED",
        "RAFT_FATAL",
    ];
    let wanted: Vec<&str> = lasting
        .iter()
        .map(|name| code.get(*name).map_or("?", String::as_str))
        .collect();
    let line = format!("RestartPreventExitStatus={}", wanted.join(" "));
    let there = tree.text(UNIT).lines().any(|other| other == line);
    if there {
        Vec::new()
    } else {
        vec![format!("{UNIT}: no line `{line}`")]
    }
}

#[test]
fn the_page_and_the_code_agree() {
    let tree = Tree::real();
    assert!(in_code(&tree).len() >= 10, "no exit codes found in {CODE}");
    wants_none(&complaints(&tree));
}

#[test]
fn systemd_restarts_only_what_a_restart_can_mend() {
    wants_none(&complaints_about_unit(&Tree::real()));
}

#[test]
fn a_code_that_the_page_does_not_have_is_noticed() {
    let code = "pub(crate) const OK: u8 = 0;\npub(crate) const USAGE: u8 = 2;";
    let page = |rows: &str| format!("| code | name |\n|---|---|\n{rows}");
    let complain = |rows: &str| complaints(&Tree::of(&[(CODE, code), (PAGE, &page(rows))]));
    wants_none(&complain("| 0 | `OK` |\n| 2 | `USAGE` |"));
    wants_one(
        &complain("| 0 | `OK` |\n| 3 | `USAGE` |"),
        &["`USAGE` is 2", "3 in"],
    );
    wants_one(&complain("| 0 | `OK` |"), &["`USAGE` (2) is missing"]);
    wants_one(
        &complain("| 0 | `OK` |\n| 2 | `USAGE` |\n| 9 | `MORE` |"),
        &["`MORE` is in"],
    );
    let twice = "const OK: u8 = 0; const USAGE: u8 = 0;";
    let rows = page("| 0 | `OK` |\n| 0 | `USAGE` |");
    wants_one(
        &complaints(&Tree::of(&[(CODE, twice), (PAGE, &rows)])),
        &["two names"],
    );
}

#[test]
fn a_unit_that_restarts_a_damaged_node_is_noticed() {
    let names = [
        "USAGE",
        "CONFIGURATION",
        "IDENTITY",
        "STORAGE_DAMAGED",
        "RAFT_FATAL",
    ];
    let code: String = names
        .iter()
        .zip(2..)
        .map(|(name, code)| format!("const {name}: u8 = {code};"))
        .collect();
    let complain = |unit| complaints_about_unit(&Tree::of(&[(CODE, &code), (UNIT, unit)]));
    wants_none(&complain("[Service]\nRestartPreventExitStatus=2 3 4 5 6\n"));
    wants_one(
        &complain("[Service]\nRestartPreventExitStatus=2 3 4 6\n"),
        &["2 3 4 5 6"],
    );
}
