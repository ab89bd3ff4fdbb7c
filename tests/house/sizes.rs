//! Small files: nobody reads a long one to its end.

use crate::tree::{Tree, wants_none, wants_one};

/// Where Rust lives.
const PLACES: [&str; 4] = ["src/", "tests/", "benches/", "examples/"];
/// A file that is longer hides a part that has a name of its own.
const LINES_MAX: usize = 600;
/// What half of the files keep below.
const MEDIAN_MAX: usize = 200;

fn complaints(tree: &Tree) -> Vec<String> {
    let mut sizes: Vec<(usize, &str)> = tree
        .below(&PLACES, ".rs")
        .filter(|file| file.handwritten())
        .map(|file| (file.text.lines().count(), file.path.as_str()))
        .collect();
    sizes.sort_unstable();
    let mut complaints: Vec<String> = sizes
        .iter()
        .filter(|(lines, _)| *lines > LINES_MAX)
        .map(|(lines, path)| format!("{path}: {lines} lines, the cap is {LINES_MAX}"))
        .collect();
    let median = sizes.get(sizes.len() / 2).map_or(0, |(lines, _)| *lines);
    if median > MEDIAN_MAX {
        complaints.push(format!(
            "the median file has {median} lines, more than {MEDIAN_MAX}"
        ));
    }
    complaints
}

#[test]
fn files_are_small() {
    wants_none(&complaints(&Tree::real()));
}

#[test]
fn a_long_file_is_noticed() {
    let long = "\n".repeat(601);
    let tree = Tree::of(&[("src/a.rs", ""), ("src/b.rs", &long), ("src/0.rs", "")]);
    wants_one(&complaints(&tree), &["src/b.rs", "601"]);
    wants_none(&complaints(&Tree::of(&[(
        "src/wire/generated/b.rs",
        &long,
    )])));
}

#[test]
fn files_that_are_long_on_the_whole_are_noticed() {
    let longish = "\n".repeat(300);
    let tree = Tree::of(&[
        ("src/a.rs", &longish),
        ("src/b.rs", &longish),
        ("src/c.rs", ""),
    ]);
    wants_one(&complaints(&tree), &["median", "300"]);
}
