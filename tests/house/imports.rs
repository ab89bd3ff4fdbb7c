//! Imports only go down: the table in `docs/architecture.md` is the rule, and this check reads it there.

use crate::manifest;
use crate::markdown;
use crate::paths::{self, Mention};
use crate::rust;
use crate::tree::{File, Tree, wants_none, wants_one};

const TABLE: &str = "docs/architecture.md";
/// Crates whose types stop at the border of one part.
const AT_HOME: [&str; 5] = ["sled", "openraft", "sqlx", "clap", "axum"];

/// A row of the import table.
struct Row {
    /// The parts that it speaks of: `server/store`.
    parts: Vec<String>,
    /// The parts that these may use, beside themselves.
    uses: Vec<String>,
    /// The foreign crates that they may use.
    crates: Vec<String>,
}

impl Row {
    fn allows(&self, part: &str) -> bool {
        self.parts.iter().chain(&self.uses).any(|name| name == part)
    }
}

fn rows(tree: &Tree) -> Vec<Row> {
    let table = markdown::table(tree.text(TABLE), "part");
    let words = table
        .first()
        .map(|cells| markdown::code(&cells[0]))
        .unwrap_or_default();
    let names = |cell: &String| {
        let mut names = markdown::code(cell);
        if cell.contains("the words") {
            names.extend(words.iter().cloned());
        }
        names
    };
    let row = |cells: &Vec<String>| Row {
        parts: markdown::code(&cells[0]),
        uses: names(&cells[1]),
        crates: markdown::code(&cells[2]),
    };
    table.iter().map(row).collect()
}

/// The part that a module or a path below `crate` belongs to: the longest one in the table that it starts with.
fn part_of<'a>(rows: &'a [Row], module: &[&str]) -> Option<&'a str> {
    let inside = |part: &&String| {
        let part: Vec<&str> = part.split('/').collect();
        module.starts_with(&part)
    };
    let parts = rows.iter().flat_map(|row| &row.parts);
    parts
        .filter(inside)
        .max_by_key(|part| part.len())
        .map(String::as_str)
}

fn complaints(tree: &Tree) -> Vec<String> {
    let rows = rows(tree);
    let crates = manifest::dependencies(tree.text("Cargo.toml"));
    let mut complaints = Vec::new();
    for file in tree
        .below(&["src/"], ".rs")
        .filter(|file| file.path != "src/lib.rs")
    {
        let module: Vec<&str> = file.module().unwrap_or_default().split('/').collect();
        let Some(part) = part_of(&rows, &module) else {
            complaints.push(format!("{}: its part has no row in {TABLE}", file.path));
            continue;
        };
        let row = rows
            .iter()
            .find(|row| row.parts.iter().any(|name| name == part));
        let row = row.expect("the part came from a row");
        let tokens = rust::without_tests(&rust::tokens(&file.text));
        for mention in paths::mentions(&tokens, &module, &crates) {
            complaints.extend(judge(&rows, row, part, file, &mention));
        }
    }
    complaints
}

fn judge(rows: &[Row], row: &Row, part: &str, file: &File, mention: &Mention) -> Option<String> {
    let File { path, .. } = file;
    let path_parts: Vec<&str> = mention.path.iter().map(String::as_str).collect();
    let (&first, rest) = path_parts.split_first()?;
    let line = mention.line;
    if first != "crate" {
        let allowed = row
            .crates
            .iter()
            .any(|name| name.replace('-', "_") == first);
        return (!allowed)
            .then(|| format!("{path}:{line}: `{part}` may not use the crate `{first}` ({TABLE})"));
    }
    let target = part_of(rows, rest)?;
    (!row.allows(target))
        .then(|| format!("{path}:{line}: `{part}` may not use `{target}` ({TABLE})"))
}

/// A crate with a home in two parts has none, and client and guards never know the server.
fn complaints_about_the_table(tree: &Tree) -> Vec<String> {
    let rows = rows(tree);
    let mut complaints = Vec::new();
    for name in AT_HOME {
        let homes = rows
            .iter()
            .filter(|row| row.crates.iter().any(|other| other == name))
            .count();
        if homes != 1 {
            complaints.push(format!(
                "{TABLE}: `{name}` has {homes} homes instead of one"
            ));
        }
    }
    for row in rows.iter().filter(|row| {
        row.parts
            .iter()
            .any(|part| part == "client" || part == "fence")
    }) {
        for part in row
            .uses
            .iter()
            .filter(|part| part.starts_with("server") || *part == "issuer")
        {
            complaints.push(format!(
                "{TABLE}: `{}` must not know `{part}`",
                row.parts[0]
            ));
        }
    }
    for name in rows
        .iter()
        .flat_map(|row| row.parts.iter().chain(&row.uses))
    {
        if !tree.has(&format!("src/{name}")) && !tree.has(&format!("src/{name}.rs")) {
            complaints.push(format!("{TABLE}: there is no part `{name}`"));
        }
    }
    complaints
}

/// Unsafe code has one home too.
fn complaints_about_unsafe(tree: &Tree) -> Vec<String> {
    let has_unsafe = |file: &&File| {
        rust::tokens(&file.text)
            .iter()
            .any(|placed| placed.token.is("unsafe"))
    };
    let files: Vec<_> = tree
        .below(&["src/"], ".rs")
        .filter(has_unsafe)
        .map(|file| file.path.as_str())
        .collect();
    if files.len() > 1 {
        return vec![format!(
            "unsafe code in more than one file: {}",
            files.join(", ")
        )];
    }
    Vec::new()
}

#[test]
fn parts_import_only_what_the_table_allows() {
    wants_none(&complaints(&Tree::real()));
}

#[test]
fn the_table_is_sound() {
    wants_none(&complaints_about_the_table(&Tree::real()));
}

#[test]
fn unsafe_code_has_one_home() {
    wants_none(&complaints_about_unsafe(&Tree::real()));
}

const SMALL: &str = "\
| part | may use | crates |
|---|---|---|
| `token` | nothing | |
| `client` | the words | `tonic` |
| `server/store` | the words | `sled` `openraft` `sqlx` `clap` `axum` |
| `server` | the words, `server/store` | `tonic-health` |
";

const DEPENDENCIES: &str = "[dependencies]\nsled = \"1\"\ntonic = \"1\"\ntonic-health = \"1\"\n";

#[test]
fn a_client_that_imports_the_server_is_noticed() {
    let client = "use crate::{token::Token, server::{store::Log}};";
    let tree = Tree::of(&[
        (TABLE, SMALL),
        ("Cargo.toml", DEPENDENCIES),
        ("src/client/mod.rs", client),
    ]);
    wants_one(
        &complaints(&tree),
        &["src/client/mod.rs:1", "`client` may not use `server/store`"],
    );
}

#[test]
fn a_foreign_crate_outside_its_home_is_noticed() {
    let server = "use tonic_health::Server;\nfn f(db: &sled::Db) {}";
    let tree = Tree::of(&[
        (TABLE, SMALL),
        ("Cargo.toml", DEPENDENCIES),
        ("src/server/clock.rs", server),
    ]);
    wants_one(
        &complaints(&tree),
        &[
            "src/server/clock.rs:2",
            "`server` may not use the crate `sled`",
        ],
    );
}

#[test]
fn a_part_without_a_row_is_noticed() {
    let tree = Tree::of(&[(TABLE, SMALL), ("src/extra/mod.rs", "")]);
    wants_one(&complaints(&tree), &["src/extra/mod.rs", "no row"]);
}

#[test]
fn a_table_that_opens_the_server_to_the_client_is_noticed() {
    let table = SMALL.replace("| `client` | the words |", "| `client` | `server` |");
    let files = [
        "src/token.rs",
        "src/client/mod.rs",
        "src/server/store/mod.rs",
    ]
    .map(|path| (path, ""));
    let tree = Tree::of(&[&[(TABLE, table.as_str())], &files[..]].concat());
    wants_one(
        &complaints_about_the_table(&tree),
        &["`client` must not know `server`"],
    );
    let table = SMALL.replace("`tonic-health`", "`sled`");
    let tree = Tree::of(&[&[(TABLE, table.as_str())], &files[..]].concat());
    wants_one(&complaints_about_the_table(&tree), &["`sled` has 2 homes"]);
}

#[test]
fn a_second_unsafe_file_is_noticed() {
    let tree = Tree::of(&[
        ("src/a.rs", "unsafe { f() }"),
        ("src/b.rs", "unsafe fn g() {} // unsafe"),
    ]);
    wants_one(&complaints_about_unsafe(&tree), &["src/a.rs, src/b.rs"]);
    wants_none(&complaints_about_unsafe(&Tree::of(&[
        ("src/a.rs", "unsafe {}"),
        ("src/b.rs", "// unsafe"),
    ])));
}
