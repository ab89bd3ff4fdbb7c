//! Features are decided in one place: one `cfg` line each in `lib.rs`, and none elsewhere in the library.

use crate::rust::{self, Placed, Token};
use crate::tree::{Tree, wants_none, wants_one};

fn complaints(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for file in tree
        .below(&["src/"], ".rs")
        .filter(|file| file.path != "src/lib.rs")
    {
        for line in feature_lines(&rust::tokens(&file.text)) {
            let path = &file.path;
            complaints.push(format!(
                "{path}:{line}: a feature is decided outside lib.rs"
            ));
        }
    }
    complaints
}

/// The lines of `feature = "..."` inside `cfg`, `cfg_attr`, `all(...)` and so on: nothing else is written like that.
fn feature_lines(tokens: &[Placed]) -> Vec<usize> {
    let matches = |window: &&[Placed]| {
        window[0].token.is("feature")
            && window[1].token == Token::Mark('=')
            && matches!(window[2].token, Token::Text(_))
    };
    tokens
        .windows(3)
        .filter(matches)
        .map(|window| window[0].line)
        .collect()
}

/// The contents page: it names modules, and does nothing itself.
fn complaints_about_lib(tree: &Tree) -> Vec<String> {
    let acts = ["fn", "struct", "enum", "impl", "trait", "static"];
    rust::tokens(tree.text("src/lib.rs"))
        .iter()
        .filter(|placed| placed.token.word().is_some_and(|word| acts.contains(&word)))
        .map(|placed| format!("src/lib.rs:{}: a contents page only", placed.line))
        .collect()
}

#[test]
fn features_are_decided_in_lib() {
    wants_none(&complaints(&Tree::real()));
}

#[test]
fn lib_is_a_contents_page() {
    wants_none(&complaints_about_lib(&Tree::real()));
}

#[test]
fn a_feature_elsewhere_is_noticed() {
    let file = "// feature = \"a\"\n#[cfg(all(unix, feature = \"client\"))]\nfn f() {}";
    wants_one(
        &complaints(&Tree::of(&[("src/a.rs", file)])),
        &["src/a.rs:2"],
    );
    wants_none(&complaints(&Tree::of(&[("src/lib.rs", file)])));
}

#[test]
fn a_contents_page_that_acts_is_noticed() {
    wants_one(
        &complaints_about_lib(&Tree::of(&[("src/lib.rs", "mod a;\nfn f() {}")])),
        &["src/lib.rs:2"],
    );
}
