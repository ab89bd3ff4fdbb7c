//! Names say what a thing is: no drawers for leftovers, and one word a meaning.

use crate::glossary;
use crate::rust::{self, Placed, Token};
use crate::tree::{File, Tree, wants_none, wants_one};

/// Names of drawers. A module of that name collects what nobody wanted to name.
const DRAWERS: [&str; 8] = [
    "util", "utils", "helper", "helpers", "common", "manager", "managers", "misc",
];
/// What introduces a name.
const KEYWORDS: [&str; 9] = [
    "fn", "struct", "enum", "trait", "type", "mod", "const", "static", "union",
];
/// What introduces a name that things are put into. A function may compare at a common index.
const KEYWORDS_OF_PLACES: [&str; 5] = ["struct", "enum", "trait", "type", "mod"];
/// What introduces a name in a `.proto` file.
const PROTO_KEYWORDS: [&str; 4] = ["message", "enum", "service", "rpc"];

/// Splits `LeaseClock`, `lease_clock` and `LEASE_CLOCK` into `lease`, `clock`.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before_lower = false;
    for c in name.chars() {
        if c == '_' || (c.is_uppercase() && before_lower) {
            words.push(String::new());
        }
        before_lower = c.is_lowercase() || c.is_ascii_digit();
        if c != '_' {
            words
                .last_mut()
                .expect("it starts with one")
                .extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// The names that a file introduces, with their lines; with `public`, those after a bare `pub` only: what
/// `pub(crate)` shows stays in the family.
fn introduced(tokens: &[Placed], keywords: &[&str], public: bool) -> Vec<(String, usize)> {
    let mut names = Vec::new();
    let mut shown = false;
    for pair in tokens.windows(2) {
        let word = pair[0].token.word().unwrap_or_default();
        match &pair[0].token {
            token if token.is("pub") => shown = pair[1].token != Token::Mark('('),
            Token::Mark(';' | ',' | '{' | '}') => shown = false,
            _ => {}
        }
        let name = pair[1].token.word().filter(|name| !keywords.contains(name));
        if let Some(name) = name.filter(|_| keywords.contains(&word) && (shown || !public)) {
            names.push((name.to_owned(), pair[1].line));
        }
    }
    names
}

fn complaints_about_drawers(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in tree.below(&["src/", "tests/", "benches/", "proto/"], "") {
        let path = &file.path;
        let parts = path.split(['/', '.']).flat_map(words_of);
        complaints.extend(parts.filter_map(|part| drawer(&part, path, 0)));
        if path.ends_with(".rs") && file.handwritten() {
            for (name, line) in introduced(&rust::tokens(&file.text), &KEYWORDS_OF_PLACES, false) {
                complaints.extend(
                    words_of(&name)
                        .iter()
                        .filter_map(|word| drawer(word, path, line)),
                );
            }
        }
    }
    complaints
}

fn drawer(word: &str, path: &str, line: usize) -> Option<String> {
    DRAWERS
        .contains(&word)
        .then(|| format!("{path}:{line}: `{word}` is a drawer, not a name"))
}

/// Public names and the wire contract use the glossary's words, and none of the words that it rules out.
fn complaints_about_words(tree: &Tree) -> Vec<String> {
    let ruled_out = glossary::ruled_out(tree);
    let mut complaints = Vec::new();
    let judge = |file: &File, keywords: &[&str], public: bool| {
        let mut found = Vec::new();
        for (name, line) in introduced(&rust::tokens(&file.text), keywords, public) {
            for (word, instead) in &ruled_out {
                if words_of(&name).contains(word) {
                    found.push(format!(
                        "{}:{line}: `{name}`: not `{word}` but `{instead}`",
                        file.path
                    ));
                }
            }
        }
        found
    };
    for file in tree
        .below(&["src/"], ".rs")
        .filter(|file| file.handwritten())
    {
        complaints.extend(judge(file, &KEYWORDS, true));
    }
    for file in tree.below(&["proto/fencepost/v1/"], ".proto") {
        complaints.extend(judge(file, &PROTO_KEYWORDS, false));
    }
    complaints
}

#[test]
fn nothing_is_named_as_a_drawer() {
    wants_none(&complaints_about_drawers(&Tree::real()));
}

#[test]
fn public_names_are_the_glossarys_words() {
    wants_none(&complaints_about_words(&Tree::real()));
}

#[test]
fn names_are_split_into_words() {
    assert_eq!(words_of("LeaseClock2Map"), ["lease", "clock2", "map"]);
    assert_eq!(words_of("TTL_MS_MAX"), ["ttl", "ms", "max"]);
}

#[test]
fn drawers_are_noticed() {
    wants_one(
        &complaints_about_drawers(&Tree::of(&[("src/client/utils.rs", "")])),
        &["`utils`"],
    );
    let code = "struct A;\npub(crate) struct LeaseManager;\n// fn misc\n";
    wants_one(
        &complaints_about_drawers(&Tree::of(&[("src/a.rs", code)])),
        &["src/a.rs:2", "`manager`"],
    );
}

#[test]
fn a_word_that_the_glossary_rules_out_is_noticed() {
    let page =
        "| word | means | not |\n|---|---|---|\n| `holder` | who has it | `owner`, session |\n";
    let with = |path, code| Tree::of(&[(glossary::PAGE, page), (path, code)]);
    let code = "struct Owner;\npub async fn owner_of() {}\npub struct A { pub b: u8 }\npub(crate) fn owner() {}";
    wants_one(
        &complaints_about_words(&with("src/a.rs", code)),
        &["src/a.rs:2", "`owner_of`", "`holder`"],
    );
    let proto = "message OwnerId {\n  string owner = 1;\n}";
    wants_one(
        &complaints_about_words(&with("proto/fencepost/v1/a.proto", proto)),
        &["OwnerId"],
    );
}
