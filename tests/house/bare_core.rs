//! The core is pure: nothing in `issuer/` reads a clock, a file, a socket or a random number, or awaits.
//!
//! clippy bans the clocks by their paths; this bans the words, so that no alias gets around it.

use crate::rust;
use crate::tree::{Tree, wants_none, wants_one};

/// Words that code of the core has no use for. Hash maps are among them for their order, which differs by process.
const BANNED: [&str; 14] = [
    "async",
    "await",
    "SystemTime",
    "tokio",
    "rand",
    "fs",
    "net",
    "env",
    "thread",
    "Mutex",
    "HashMap",
    "HashSet",
    "static",
    "unsafe",
];

fn complaints(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in tree.below(&["src/issuer/"], ".rs") {
        for placed in rust::tokens(&file.text) {
            if let Some(word) = placed.token.word().filter(|word| BANNED.contains(word)) {
                complaints.push(format!(
                    "{}:{}: `{word}` in the pure core",
                    file.path, placed.line
                ));
            }
        }
    }
    complaints
}

#[test]
fn the_core_is_pure() {
    wants_none(&complaints(&Tree::real()));
}

#[test]
fn a_core_that_looks_around_is_noticed() {
    let tree = Tree::of(&[
        ("src/issuer/a.rs", "// fs\nuse std::fs;"),
        ("src/client/a.rs", "use std::fs;"),
    ]);
    wants_one(&complaints(&tree), &["src/issuer/a.rs:2", "`fs`"]);
}
