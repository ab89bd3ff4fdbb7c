//! The code that a guide quotes is part of a program that compiles or runs, and the tests that a page names exist.

use crate::tree::{Tree, wants_none, wants_one};

/// Guides, the language of their quotations, and the programs they quote. A block with a file's name after its
/// language is no quotation.
const GUIDES: [(&str, &str, &str); 3] = [
    (
        "docs/leader-election.md",
        "rust",
        "examples/leader_election.rs",
    ),
    (
        "docs/fencing-guide.md",
        "python",
        "tests/probe/services/right.py",
    ),
    ("docs/unfenced.md", "rust", "examples/unfenced_payment.rs"),
];

/// The lines of code without what indents them.
fn lines(code: &str) -> Vec<&str> {
    code.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect()
}

/// The blocks of a page that are marked with a language, and nothing else.
fn blocks<'p>(page: &'p str, language: &str) -> Vec<&'p str> {
    let opening = format!("```{language}\n");
    let after = page.split(opening.as_str()).skip(1);
    after
        .map(|rest| rest.split("```").next().unwrap_or_default())
        .collect()
}

fn complaints(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (guide, language, example) in GUIDES {
        // Comments may be left out of a quotation, or be added to it.
        let code = |text| -> Vec<&str> {
            let all = lines(text).into_iter();
            all.filter(|line| !line.starts_with("//")).collect()
        };
        let program = code(tree.text(example));
        for block in blocks(tree.text(guide), language) {
            let wanted = code(block);
            let found = program
                .windows(wanted.len().max(1))
                .any(|window| window == wanted);
            if !found {
                let first = wanted.first().copied().unwrap_or("an empty block");
                complaints.push(format!("{guide}: not in {example}: {first}"));
            }
        }
    }
    complaints
}

#[test]
fn guides_quote_programs_that_compile() {
    let tree = Tree::real();
    for (guide, language, _) in GUIDES {
        assert!(blocks(tree.text(guide), language).len() >= 3, "{guide}");
    }
    wants_none(&complaints(&tree));
}

#[test]
fn a_quotation_that_the_program_does_not_have_is_noticed() {
    let (guide, _, example) = GUIDES[0];
    let page = "```rust\n// Why.\na();\nb();\n```\n```rust\nb();\na();\n```\n";
    let program = "fn main() {\n    a();\n    // How.\n    b();\n}\n";
    let tree = Tree::of(&[(guide, page), (example, program)]);
    wants_one(&complaints(&tree), &["b();"]);
}

/// Every `tests/....rs::name` that a page mentions.
fn complaints_about_tests(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for page in tree.below(&["docs/", "README.md"], ".md") {
        for code in page.text.split('`').skip(1) {
            let named = code.strip_prefix("tests/").and(code.split_once("::"));
            let Some((file, function)) = named.filter(|_| !code.contains(char::is_whitespace))
            else {
                continue;
            };
            let path = page.path.as_str();
            // A story that is told of several databases takes one as its type.
            let told = |text: &str| {
                let starts = ["(", "<"].map(|next| format!("fn {function}{next}"));
                starts.iter().any(|start| text.contains(start))
            };
            if !tree.has(file) || !told(tree.text(file)) {
                complaints.push(format!("{path}: there is no test {code}"));
            }
        }
    }
    complaints
}

#[test]
fn tests_that_pages_name_exist() {
    wants_none(&complaints_about_tests(&Tree::real()));
}

#[test]
fn a_test_that_does_not_exist_is_noticed() {
    let tree = Tree::of(&[
        (
            "docs/a.md",
            "`tests/a.rs::is_there` and `tests/a.rs::is_not`",
        ),
        ("tests/a.rs", "fn is_there() {}"),
    ]);
    wants_one(
        &complaints_about_tests(&tree),
        &["docs/a.md", "tests/a.rs::is_not"],
    );
}
