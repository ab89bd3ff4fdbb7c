//! NO-LOST-GRANT: every grant that was acknowledged stands in the applied log of every node, as it
//! was acknowledged; and no request id took effect twice.
//!
//! A node that took a snapshot did not apply what the snapshot covers, so its audit log skips that
//! range; the HASH check then speaks for it, since the snapshot carries the chained hash. Every other
//! node's log must hold the entry. Asked after the cluster is calm again and all nodes have caught up.

use std::collections::{HashMap, HashSet};

use super::{Evidence, Verdict};
use crate::history::audit::{Kind, NodeAudit};

pub(super) fn check(evidence: &Evidence) -> Verdict {
    if !evidence.applied.holes.is_empty() {
        let holes = evidence.applied.holes.len();
        return Verdict::Unknown(format!(
            "{holes} applied entries are in no node's audit log"
        ));
    }
    let mut violations = taken_twice(evidence);
    for audit in &evidence.audits {
        let known = Known::of(audit);
        let (mut judged, mut missing) = (0_usize, Vec::new());
        for op in &evidence.operations {
            let (Some(granted), Some(request_id)) = (op.granted(), op.request_id()) else {
                continue;
            };
            judged += 1;
            if !known.has(granted.token, request_id, granted.index) {
                missing.push(format!(
                    "node {}: token {} (entry {}) for request {request_id} on {} was acknowledged and is not in its log",
                    audit.node, granted.token, granted.index, op.resource,
                ));
            }
        }
        if judged > 0 && known.grants.is_empty() {
            return Verdict::Unknown(format!("node {} wrote no grant at all", audit.node));
        }
        violations.extend(missing);
    }
    Verdict::of(
        evidence
            .operations
            .iter()
            .filter(|op| op.granted().is_some())
            .count(),
        violations,
    )
}

/// Request ids with more than one grant in the applied log.
fn taken_twice(evidence: &Evidence) -> Vec<String> {
    let mut first: HashMap<(&str, &str, &str), u64> = HashMap::new();
    let mut violations = Vec::new();
    for grant in &evidence.applied.grants {
        let asked = (
            grant.resource.as_str(),
            grant.holder.as_str(),
            grant.request_id.as_str(),
        );
        if let Some(before) = first.insert(asked, grant.token) {
            violations.push(format!(
                "request {} of {} for {} was granted as token {before} and again as token {}",
                grant.request_id, grant.holder, grant.resource, grant.token,
            ));
        }
    }
    violations
}

/// What one node's audit log holds.
struct Known<'a> {
    grants: HashSet<(u64, &'a str)>,
    /// Ranges of indexes, both ends included, that a snapshot let it skip.
    skipped: Vec<(u64, u64)>,
}

impl<'a> Known<'a> {
    fn of(audit: &'a NodeAudit) -> Self {
        let events = audit.lines.iter().flat_map(|line| &line.events);
        let granted = events.filter(|event| event.event == "granted");
        let grants = granted
            .map(|event| (event.token(), event.request_id.as_str()))
            .collect();
        let (mut skipped, mut reached) = (Vec::new(), 0);
        for line in &audit.lines {
            // A process that died between the snapshot and its line begins its next life there.
            let jumps = matches!(line.kind, Kind::Snapshot | Kind::Start);
            if jumps && line.index > reached {
                skipped.push((reached + 1, line.index));
            }
            reached = reached.max(line.index);
        }
        Self { grants, skipped }
    }

    fn has(&self, token: u64, request_id: &str, index: u64) -> bool {
        self.grants.contains(&(token, request_id))
            || self
                .skipped
                .iter()
                .any(|(from, to)| (*from..=*to).contains(&index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{checks::story::Story, history::Outcome};

    const GRANT: &str = r#"{"kind":"entry","term":1,"index":1,"hash":"h1","events":[{"event":"granted","resource":"r","holder":"a","token":"1","request_id":"a@0"}]}"#;
    const OTHER: &str = r#"{"kind":"entry","term":1,"index":1,"hash":"h1","events":[{"event":"granted","resource":"r","holder":"x","token":"9","request_id":"x@0"}]}"#;
    const SKIP: &str = r#"{"kind":"snapshot","term":1,"index":1,"hash":"h1"}
{"kind":"entry","term":1,"index":2,"hash":"h2","events":[{"event":"granted","resource":"r2","holder":"x","token":"9","request_id":"x@0"}]}"#;

    #[test]
    fn fires_on_an_acknowledged_grant_that_one_node_lacks() {
        let story = Story::default().grant("r", "a", 0, 10, 1);
        let verdict = check(&story.evidence_with([GRANT, GRANT, OTHER]));
        assert!(matches!(verdict, Verdict::Broken(v) if v.len() == 1 && v[0].contains("node 3")));
    }

    #[test]
    fn fires_on_a_request_id_that_took_effect_twice() {
        let story = Story::default()
            .acquire("r", "a", 0, 0, Outcome::Unknown("lost".into()))
            .logged_grant("r", "a", 0, 1)
            .logged_grant("r", "a", 0, 2);
        assert!(matches!(check(&story.evidence()), Verdict::Broken(v) if v.len() == 1));
    }

    #[test]
    fn is_unknown_when_entries_are_in_no_log() {
        let story = Story::default().grant("r", "a", 0, 10, 1);
        assert!(matches!(
            check(&story.evidence_with([SKIP, SKIP, SKIP])),
            Verdict::Unknown(_)
        ));
    }

    #[test]
    fn passes_what_a_snapshot_covers_on_one_node() {
        let story = Story::default().grant("r", "a", 0, 10, 1);
        assert_eq!(
            check(&story.evidence_with([GRANT, GRANT, SKIP])),
            Verdict::Holds(1)
        );
    }
}
