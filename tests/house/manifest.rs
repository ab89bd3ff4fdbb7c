//! What the checks read of `Cargo.toml`, and that it lists every test binary.

use std::collections::BTreeSet;

use crate::rust;
use crate::tree::{Tree, wants_none, wants_one};

/// The names under `[dependencies]`, as code writes them.
pub(crate) fn dependencies(manifest: &str) -> Vec<String> {
    let section = manifest
        .lines()
        .skip_while(|line| line.trim() != "[dependencies]")
        .skip(1);
    let lines = section.take_while(|line| !line.starts_with('['));
    let names = lines
        .filter(|line| !line.starts_with(['#', ' ']))
        .filter_map(|line| line.split_once('='));
    names
        .map(|(name, _)| name.trim().replace('-', "_"))
        .collect()
}

/// Tests are not found by themselves (`autotests = false`), so that one that is not listed would never run.
fn complaints(tree: &Tree) -> Vec<String> {
    let manifest = tree.text("Cargo.toml");
    let mut complaints = Vec::new();
    for file in tree.below(&["tests/"], ".rs") {
        let alone = file.path.split('/').count() == 2;
        if alone {
            complaints.push(format!(
                "{}: a test binary is a folder with a main.rs",
                file.path
            ));
        }
        if file.path.ends_with("/main.rs")
            && !manifest.contains(&format!("path = \"{}\"", file.path))
        {
            complaints.push(format!(
                "{}: not listed in Cargo.toml, so it never runs",
                file.path
            ));
        }
    }
    complaints
}

/// The names that `mod` declares, and those of files that a `#[path]` or the like loads.
fn compiled(tree: &Tree) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for file in tree.below(&["src/", "tests/"], ".rs") {
        let tokens = rust::tokens(&file.text);
        for pair in tokens.windows(2).filter(|pair| pair[0].token.is("mod")) {
            names.extend(pair[1].token.word().map(str::to_owned));
        }
        for placed in tokens {
            if let rust::Token::Text(path) = placed.token
                && path.ends_with(".rs")
            {
                names.insert(stem(&path).to_owned());
            }
        }
    }
    names
}

/// `b` of `a/b.rs` and of `a/b/mod.rs`.
fn stem(path: &str) -> &str {
    let path = path.trim_end_matches("/mod.rs").trim_end_matches(".rs");
    path.rsplit('/').next().unwrap_or_default()
}

/// A file that no `mod` names is not compiled, and its tests never run.
fn complaints_about_modules(tree: &Tree) -> Vec<String> {
    let compiled = compiled(tree);
    let mut complaints = Vec::new();
    for file in tree.below(&["src/", "tests/"], ".rs") {
        let name = stem(&file.path);
        if !["main", "lib"].contains(&name) && !compiled.contains(name) {
            complaints.push(format!(
                "{}: no `mod {name}` anywhere, so it is not compiled",
                file.path
            ));
        }
    }
    complaints
}

#[test]
fn every_test_binary_runs() {
    wants_none(&complaints(&Tree::real()));
}

#[test]
fn every_file_is_compiled() {
    wants_none(&complaints_about_modules(&Tree::real()));
}

#[test]
fn a_file_that_is_not_compiled_is_noticed() {
    let main = "mod a;\n#[path = \"../other/c.rs\"]\nmod d;";
    let files = [
        ("tests/x/main.rs", main),
        ("tests/x/a.rs", ""),
        ("tests/x/b.rs", ""),
        ("tests/other/c.rs", ""),
    ];
    wants_one(
        &complaints_about_modules(&Tree::of(&files)),
        &["tests/x/b.rs"],
    );
}

#[test]
fn a_test_that_never_runs_is_noticed() {
    let listed = "path = \"tests/a/main.rs\"";
    let tree = Tree::of(&[
        ("Cargo.toml", listed),
        ("tests/a/main.rs", ""),
        ("tests/b/main.rs", ""),
    ]);
    wants_one(&complaints(&tree), &["tests/b/main.rs", "not listed"]);
    wants_one(&complaints(&Tree::of(&[("tests/c.rs", "")])), &["a folder"]);
}

#[test]
fn dependencies_are_read() {
    let manifest = "[package]\nname = \"x\"\n[dependencies]\n# words\na-b = \"1\"\nc = { version = \"2\" }\n[features]\nd = []";
    assert_eq!(dependencies(manifest), ["a_b", "c"]);
}
