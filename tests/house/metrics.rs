//! Every metric that a node exports is described, and every metric that is described is exported.

use std::collections::BTreeSet;

use crate::markdown;
use crate::rust::{self, Token};
use crate::tree::{Tree, wants_none, wants_one};

const PAGE: &str = "docs/monitoring.md";
const CODE: [&str; 2] = ["src/server/telemetry/", "src/fence/watched/"];
const PREFIX: &str = "fencepost_";

fn is_metric(name: &str) -> bool {
    let known = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    name.strip_prefix(PREFIX)
        .is_some_and(|rest| !rest.is_empty() && rest.chars().all(known))
}

/// The exporter adds `_total` to counters, so the page has it and the code does not.
fn bare(name: &str) -> String {
    name.strip_suffix("_total").unwrap_or(name).to_owned()
}

/// String literals that are names of metrics, the whole of them.
fn in_code(tree: &Tree) -> BTreeSet<String> {
    let files = tree.below(&CODE, ".rs");
    let texts = files
        .flat_map(|file| rust::tokens(&file.text))
        .filter_map(|placed| match placed.token {
            Token::Text(text) if is_metric(&text) => Some(bare(&text)),
            _ => None,
        });
    texts.collect()
}

/// First cells of the table rows of the page.
fn in_page(tree: &Tree) -> BTreeSet<String> {
    let rows = tree
        .text(PAGE)
        .lines()
        .filter(|line| line.starts_with("| `"));
    let names = rows.filter_map(|line| markdown::code(line).into_iter().next());
    names
        .filter(|name| is_metric(name))
        .map(|name| bare(&name))
        .collect()
}

fn complaints(tree: &Tree) -> Vec<String> {
    let (code, page) = (in_code(tree), in_page(tree));
    let unknown = code
        .difference(&page)
        .map(|name| format!("`{name}` is not described in {PAGE}"));
    let gone = page
        .difference(&code)
        .map(|name| format!("`{name}` of {PAGE} is not exported"));
    unknown.chain(gone).collect()
}

#[test]
fn every_metric_is_described() {
    let tree = Tree::real();
    assert!(
        in_code(&tree).len() >= 10,
        "no metrics found under {CODE:?}"
    );
    wants_none(&complaints(&tree));
}

#[test]
fn a_metric_that_nobody_describes_is_noticed() {
    let code = "register(\"fencepost_grants\", \"Grants.\"); \"fencepost_term\";";
    let page = "| metric | means |\n|---|---|\n| `fencepost_grants_total` | `x` |\n";
    let tree = Tree::of(&[("src/server/telemetry/mod.rs", code), (PAGE, page)]);
    wants_one(&complaints(&tree), &["`fencepost_term`", "not described"]);
    let tree = Tree::of(&[("src/server/telemetry/mod.rs", ""), (PAGE, page)]);
    wants_one(&complaints(&tree), &["`fencepost_grants`", "not exported"]);
}
