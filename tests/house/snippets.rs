//! The Rust code that a guide shows is part of the example that it quotes, and so compiles and runs.

use crate::tree::{Tree, wants_none, wants_one};

/// Guides and the programs they quote.
const GUIDES: [(&str, &str); 1] = [("docs/leader-election.md", "examples/leader_election.rs")];

/// The lines of code without what indents them.
fn lines(code: &str) -> Vec<&str> {
    code.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect()
}

/// The blocks of a page that are marked as Rust.
fn blocks(page: &str) -> Vec<&str> {
    let after = page.split("```rust\n").skip(1);
    after
        .map(|rest| rest.split("```").next().unwrap_or_default())
        .collect()
}

fn complaints(tree: &Tree) -> Vec<String> {
    let mut complaints = Vec::new();
    for (guide, example) in GUIDES {
        // Comments may be left out of a quotation, or be added to it.
        let code = |text| -> Vec<&str> {
            let all = lines(text).into_iter();
            all.filter(|line| !line.starts_with("//")).collect()
        };
        let program = code(tree.text(example));
        for block in blocks(tree.text(guide)) {
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
    for (guide, _) in GUIDES {
        assert!(blocks(tree.text(guide)).len() >= 3, "{guide}");
    }
    wants_none(&complaints(&tree));
}

#[test]
fn a_quotation_that_the_program_does_not_have_is_noticed() {
    let (guide, example) = GUIDES[0];
    let page = "```rust\n// Why.\na();\nb();\n```\n```rust\nb();\na();\n```\n";
    let program = "fn main() {\n    a();\n    // How.\n    b();\n}\n";
    let tree = Tree::of(&[(guide, page), (example, program)]);
    wants_one(&complaints(&tree), &["b();"]);
}
