//! The glossary as data: `docs/glossary.md` is the one place where words are ruled out.
//!
//! In its last column a word in backticks is checked in public names; one without is for prose alone (`key` and
//! `version`, say, have other honest uses in code).

use crate::markdown;
use crate::tree::Tree;

pub(crate) const PAGE: &str = "docs/glossary.md";

/// Words that no public name may hold, each with the word to use instead.
pub(crate) fn ruled_out(tree: &Tree) -> Vec<(String, String)> {
    let mut ruled_out = Vec::new();
    for row in markdown::table(tree.text(PAGE), "word") {
        let instead = markdown::code(&row[0]).join(", ");
        let words = row
            .last()
            .map(|cell| markdown::code(cell))
            .unwrap_or_default();
        ruled_out.extend(words.into_iter().map(|word| (word, instead.clone())));
    }
    ruled_out
}

#[test]
fn the_glossary_rules_words_out() {
    let words = ruled_out(&Tree::real());
    assert!(words.len() >= 10, "only {words:?} in {PAGE}");
}
