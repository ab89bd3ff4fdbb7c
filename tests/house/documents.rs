//! Documents are found from the README, their links lead somewhere, and the architecture page knows every part.

use std::collections::BTreeSet;

use crate::markdown;
use crate::tree::{File, Tree, wants_none, wants_one};

/// Where a reader starts.
const START: &str = "README.md";

/// `docs/a.md` + `../b.md` is `b.md`.
fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/")
}

/// The links of a page that stay in the tree: (file, anchor).
fn inner_links(page: &File) -> Vec<(String, Option<String>)> {
    let links = markdown::links(&page.text).into_iter();
    let inner = links.filter(|link| !link.contains("://") && !link.starts_with("mailto:"));
    let split = |link: String| match link.split_once('#') {
        Some(("", anchor)) => (page.path.clone(), Some(anchor.to_owned())),
        Some((file, anchor)) => (resolve(&page.path, file), Some(anchor.to_owned())),
        None => (resolve(&page.path, &link), None),
    };
    inner.map(split).collect()
}

fn complaints_about_links(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for page in tree.below(&[""], ".md") {
        for (file, anchor) in inner_links(page) {
            if !tree.has(&file) {
                complaints.push(format!("{}: there is no {file}", page.path));
            } else if let Some(anchor) = anchor
                && !markdown::anchors(tree.text(&file)).contains(&anchor)
            {
                complaints.push(format!(
                    "{}: there is no heading #{anchor} in {file}",
                    page.path
                ));
            }
        }
    }
    complaints
}

fn complaints_about_orphans(tree: &Tree) -> Vec<String> {
    let mut reached = BTreeSet::from([START.to_owned()]);
    let mut open = vec![START.to_owned()];
    while let Some(path) = open.pop() {
        let Some(page) = tree.files.iter().find(|file| file.path == path) else {
            continue;
        };
        for (target, _) in inner_links(page) {
            if reached.insert(target.clone()) {
                open.push(target);
            }
        }
    }
    let lost = tree
        .below(&["docs/"], "")
        .filter(|file| !reached.contains(&file.path));
    lost.map(|file| format!("{}: no way leads there from {START}", file.path))
        .collect()
}

/// Every directory of modules has its line on the architecture page.
fn complaints_about_architecture(tree: &Tree) -> Vec<String> {
    let page = tree.text("docs/architecture.md");
    let mut directories = BTreeSet::new();
    for file in tree.below(&["src/"], ".rs") {
        let mut path = file.path.trim_start_matches("src/");
        while let Some((directory, _)) = path.rsplit_once('/') {
            directories.insert(directory);
            path = directory;
        }
    }
    let named = |directory: &&str| {
        page.contains(&format!("`{directory}`")) || page.contains(&format!("`{directory}/`"))
    };
    let missing = directories
        .into_iter()
        .filter(|directory| !named(directory));
    missing
        .map(|directory| format!("docs/architecture.md does not name `{directory}`"))
        .collect()
}

/// The commands that the README promises are those that the gate runs.
fn complaints_about_commands(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (promised, run) in [
        ("cargo test", "cargo test --locked"),
        (
            "cargo run --release -- demo",
            "cargo run --locked --quiet -- demo",
        ),
    ] {
        if !tree.text(START).contains(promised) {
            complaints.push(format!("{START} does not name `{promised}`"));
        }
        if !tree.text(".ci/run").contains(run) {
            complaints.push(format!(".ci/run does not run `{run}`"));
        }
    }
    complaints
}

#[test]
fn links_lead_somewhere() {
    wants_none(&complaints_about_links(&Tree::real()));
}

#[test]
fn every_document_is_found_from_the_readme() {
    wants_none(&complaints_about_orphans(&Tree::real()));
}

#[test]
fn the_architecture_page_names_every_directory() {
    wants_none(&complaints_about_architecture(&Tree::real()));
}

#[test]
fn the_gate_runs_what_the_readme_promises() {
    wants_none(&complaints_about_commands(&Tree::real()));
}

#[test]
fn broken_links_are_noticed() {
    let tree = Tree::of(&[
        ("README.md", "[a](docs/a.md)"),
        ("docs/b.md", "[up](../README.md)"),
    ]);
    wants_one(&complaints_about_links(&tree), &["README.md", "docs/a.md"]);
    let tree = Tree::of(&[
        ("README.md", "# Top\n[a](docs/a.md#here)"),
        ("docs/a.md", "# There"),
    ]);
    wants_one(&complaints_about_links(&tree), &["#here"]);
    wants_none(&complaints_about_links(&Tree::of(&[(
        "README.md",
        "# The top\n[a](#the-top)",
    )])));
}

#[test]
fn orphans_are_noticed() {
    let pages = [
        ("README.md", "[a](docs/a.md)"),
        ("docs/a.md", "[b](b.md)"),
        ("docs/b.md", ""),
        ("docs/c.md", ""),
    ];
    wants_one(&complaints_about_orphans(&Tree::of(&pages)), &["docs/c.md"]);
}

#[test]
fn a_directory_that_nobody_explains_is_noticed() {
    let tree = Tree::of(&[
        ("docs/architecture.md", "`server` `server/a`"),
        ("src/server/b/c.rs", ""),
    ]);
    wants_one(&complaints_about_architecture(&tree), &["`server/b`"]);
}

#[test]
fn a_promise_that_the_gate_does_not_run_is_noticed() {
    let readme = "cargo test, cargo run --release -- demo";
    let tree = Tree::of(&[("README.md", readme), (".ci/run", "cargo test --locked")]);
    wants_one(&complaints_about_commands(&tree), &[".ci/run", "demo"]);
}
