//! HASH: the chained hash over applied entries, their outcomes and their events is equal on all nodes
//! at every common index, also after snapshots and restarts.
//!
//! A node that restarts writes entries again, so it is held against itself too. Within one life of a
//! process the indexes follow each other without a hole.

use std::collections::HashMap;

use super::{Evidence, Verdict};
use crate::history::audit::{Kind, Line, NodeAudit};

pub(super) fn check(evidence: &Evidence) -> Verdict {
    // At each index: the first that wrote it, and how many different nodes agreed.
    let mut first: HashMap<u64, (u64, &Line)> = HashMap::new();
    let (mut common, mut violations) = (0, Vec::new());
    for audit in &evidence.audits {
        violations.extend(out_of_step(audit));
        for line in &audit.lines {
            let (node, before) = first.entry(line.index).or_insert((audit.node, line));
            if (before.term, &before.hash) != (line.term, &line.hash) {
                violations.push(format!(
                    "entry {}: node {node} has term {} and hash {}, node {} has term {} and hash {}",
                    line.index, before.term, before.hash, audit.node, line.term, line.hash,
                ));
            }
            common += usize::from(line.index > 0 && *node != audit.node);
        }
    }
    if common == 0 && violations.is_empty() {
        return Verdict::Unknown("no two nodes have an entry in common".into());
    }
    Verdict::of(common, violations)
}

/// Entry lines that do not follow the line before them.
fn out_of_step(audit: &NodeAudit) -> Vec<String> {
    let mut violations = Vec::new();
    let mut reached: Option<u64> = None;
    for line in &audit.lines {
        let applied = !matches!(line.kind, Kind::Start | Kind::Snapshot);
        if let Some(before) = reached.filter(|before| applied && line.index != before + 1) {
            violations.push(format!(
                "node {}: entry {} follows entry {before}",
                audit.node, line.index
            ));
        }
        reached = Some(line.index);
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::story::Story;

    fn lines(of: &[(&str, u64, &str)]) -> String {
        let line = |(kind, index, hash): &(&str, u64, &str)| {
            format!(r#"{{"kind":"{kind}","term":1,"index":{index},"hash":"{hash}"}}"#) + "\n"
        };
        of.iter().map(line).collect()
    }

    fn verdict(first: &str, second: &str, third: &str) -> Verdict {
        check(&Story::default().evidence_with([first, second, third]))
    }

    #[test]
    fn fires_on_nodes_that_differ() {
        let (good, bad) = (lines(&[("entry", 1, "a")]), lines(&[("entry", 1, "b")]));
        assert!(matches!(verdict(&good, &good, &bad), Verdict::Broken(_)));
    }

    #[test]
    fn fires_on_a_snapshot_that_differs_from_what_others_applied() {
        let (good, bad) = (lines(&[("entry", 1, "a")]), lines(&[("snapshot", 1, "b")]));
        assert!(matches!(verdict(&good, &good, &bad), Verdict::Broken(_)));
    }

    #[test]
    fn fires_on_a_restart_that_replays_to_something_else() {
        let good = lines(&[("entry", 1, "a")]);
        let bad = lines(&[
            ("start", 0, "0"),
            ("entry", 1, "a"),
            ("start", 0, "0"),
            ("entry", 1, "b"),
        ]);
        assert!(matches!(verdict(&good, &good, &bad), Verdict::Broken(_)));
    }

    #[test]
    fn fires_on_a_hole_within_one_life() {
        let (good, bad) = (
            lines(&[("entry", 1, "a")]),
            lines(&[("entry", 1, "a"), ("entry", 3, "c")]),
        );
        assert!(matches!(verdict(&good, &good, &bad), Verdict::Broken(_)));
    }

    #[test]
    fn is_unknown_when_nothing_is_common() {
        assert!(matches!(verdict("", "", ""), Verdict::Unknown(_)));
    }

    #[test]
    fn passes_restarts_and_snapshots_that_agree() {
        let all = lines(&[
            ("start", 0, "0"),
            ("entry", 1, "a"),
            ("entry", 2, "b"),
            ("entry", 3, "c"),
        ]);
        let again = lines(&[
            ("start", 0, "0"),
            ("entry", 1, "a"),
            ("start", 0, "0"),
            ("entry", 1, "a"),
        ]);
        let late = lines(&[("start", 0, "0"), ("snapshot", 2, "b"), ("entry", 3, "c")]);
        assert_eq!(verdict(&all, &again, &late), Verdict::Holds(4));
    }
}
