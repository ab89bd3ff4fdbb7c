//! RECOVERY: after the last fault heals, every resource is granted within a bound plus what is left
//! of a live lease, and no node needs a hand.
//!
//! What is left is taken at its worst: any grant or renewal that was sent, answered or not, may have
//! been applied as late as its return, and at the latest when the fault healed if it never returned.

use std::collections::HashMap;

use super::{Evidence, Verdict};
use crate::history::{Call, Moment};

pub(super) fn check(evidence: &Evidence) -> Verdict {
    let facts = &evidence.facts;
    let Some(healed) = facts.healed else {
        return Verdict::Unknown("the last fault was never healed".into());
    };
    let leases = leases_until(evidence, healed);
    let mut violations: Vec<String> = facts
        .needed_a_hand
        .iter()
        .map(|what| format!("needed a hand: {what}"))
        .collect();
    for resource in &facts.resources {
        let free = leases
            .get(resource.as_str())
            .copied()
            .unwrap_or(healed)
            .max(healed);
        let latest = free + facts.recovery_bound;
        let granted = evidence
            .operations
            .iter()
            .filter(|op| op.granted().is_some() && op.sent >= healed && op.resource == *resource);
        match granted.filter_map(|op| op.returned).min() {
            Some(at) if at <= latest => {}
            Some(at) => violations.push(format!(
                "{resource} was granted at {at:?}, {latest:?} at the latest was due"
            )),
            None => violations.push(format!("{resource} was not granted after {healed:?}")),
        }
    }
    Verdict::of(facts.resources.len(), violations)
}

/// By resource: until when a lease from before `healed` may live.
fn leases_until(evidence: &Evidence, healed: Moment) -> HashMap<&str, Moment> {
    let mut until: HashMap<&str, Moment> = HashMap::new();
    for op in evidence.operations.iter().filter(|op| op.sent < healed) {
        let ends = match op.call {
            Call::Acquire { ttl, .. } | Call::Renew { ttl, .. }
                if !op.definitely_without_effect() =>
            {
                op.returned.unwrap_or(healed) + ttl
            }
            Call::Rely { until, .. } => until,
            _ => continue,
        };
        let lease = until.entry(&op.resource).or_default();
        *lease = (*lease).max(ends);
    }
    until
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::{
        Facts,
        story::{Story, ms},
    };

    fn story(resources: &[&str]) -> Story {
        let resources = resources.iter().map(|name| (*name).into()).collect();
        let facts = Facts {
            healed: Some(ms(5_000)),
            resources,
            recovery_bound: ms(10_000),
            ..Facts::default()
        };
        let mut story = Story::default();
        story.facts = facts;
        story
    }

    #[test]
    fn fires_on_a_resource_that_is_never_granted_again() {
        let story = story(&["r"]).grant("r", "a", 100, 200, 70);
        assert!(matches!(check(&story.evidence()), Verdict::Broken(_)));
    }

    #[test]
    fn fires_on_a_grant_that_comes_too_late() {
        let story = story(&["r"])
            .grant("r", "a", 4_800, 4_900, 70)
            .grant("r", "b", 5_100, 15_901, 71);
        assert!(matches!(check(&story.evidence()), Verdict::Broken(_)));
    }

    #[test]
    fn fires_on_a_node_that_needed_a_hand() {
        let mut story = story(&["r"]).grant("r", "b", 5_100, 5_200, 71);
        story
            .facts
            .needed_a_hand
            .push("node 2 did not start".into());
        assert!(matches!(check(&story.evidence()), Verdict::Broken(_)));
    }

    #[test]
    fn is_unknown_when_nothing_healed() {
        assert!(matches!(
            check(&Story::default().evidence()),
            Verdict::Unknown(_)
        ));
    }

    #[test]
    fn passes_a_grant_within_the_bound_after_a_live_lease() {
        let story = story(&["r"])
            .grant("r", "a", 4_800, 4_900, 70)
            .grant("r", "b", 5_100, 15_900, 71);
        assert_eq!(check(&story.evidence()), Verdict::Holds(1));
    }
}
