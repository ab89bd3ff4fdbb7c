//! The little of Markdown that the checks read: tables, `code`, links and headings.

/// The rows of the first table whose header starts with the cell `first`, as trimmed cells.
pub(crate) fn table(text: &str, first: &str) -> Vec<Vec<String>> {
    let header = |line: &&str| cells(line).first().is_some_and(|cell| cell == first);
    let mut lines = text.lines().skip_while(|line| !header(line));
    lines.next();
    lines.next(); // the rule below the header
    lines
        .take_while(|line| line.trim_start().starts_with('|'))
        .map(cells)
        .collect()
}

fn cells(line: &str) -> Vec<String> {
    let line = line.trim();
    let Some(inner) = line.strip_prefix('|') else {
        return Vec::new();
    };
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    inner
        .split('|')
        .map(|cell| cell.trim().to_owned())
        .collect()
}

/// What stands between backticks in one line or cell.
pub(crate) fn code(text: &str) -> Vec<String> {
    text.split('`')
        .skip(1)
        .step_by(2)
        .map(str::to_owned)
        .collect()
}

/// The targets of the links in `text`, fenced blocks and `code` aside.
pub(crate) fn links(text: &str) -> Vec<String> {
    let mut links = Vec::new();
    for line in prose(text) {
        let plain: String = line.split('`').step_by(2).collect::<Vec<_>>().join("x");
        for piece in plain.split("](").skip(1) {
            let target = piece.split(')').next().unwrap_or_default();
            links.push(
                target
                    .split_whitespace()
                    .next()
                    .unwrap_or_default()
                    .to_owned(),
            );
        }
    }
    links
}

/// The anchors that a forge makes of the headings of `text`.
pub(crate) fn anchors(text: &str) -> Vec<String> {
    let headings = prose(text).filter(|line| line.starts_with('#'));
    headings
        .map(|line| anchor(line.trim_start_matches('#').trim()))
        .collect()
}

fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// The lines outside fenced blocks.
pub(crate) fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    text.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fence && !fenced
    })
}

#[test]
fn tables_links_and_headings_are_read() {
    let text = "# A `b`, c\n[x](y.md#z) `[no](no.md)`\n```\n[no](no.md)\n# no\n```\n| a | b |\n|---|---|\n| `1` `2` | 3 |\nend";
    assert_eq!(table(text, "a"), [["`1` `2`", "3"]]);
    assert_eq!(code("`1` and `2`"), ["1", "2"]);
    assert_eq!(links(text), ["y.md#z"]);
    assert_eq!(anchors(text), ["a-b-c"]);
}
