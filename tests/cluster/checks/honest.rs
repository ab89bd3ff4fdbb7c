//! HONEST: a call that was answered with a definite refusal or error never took effect.
//!
//! An acquire is found in the applied log by its request id. Renewals and releases carry no id of
//! their own, so they are counted for each token: the log may hold no more of them than there were
//! calls that may have taken effect.

use std::collections::{HashMap, HashSet};

use super::{Evidence, Verdict};
use crate::history::Call;

pub(super) fn check(evidence: &Evidence) -> Verdict {
    let definite = evidence
        .operations
        .iter()
        .filter(|op| op.definitely_without_effect())
        .count();
    let log = &evidence.applied;
    let counted = log
        .renewals
        .iter()
        .map(|(token, all)| (*token, all.len() as u64));
    let renewals: HashMap<u64, u64> = counted.collect();
    let mut violations = refused_and_granted(evidence);
    violations.extend(more_than_asked(
        evidence,
        "renewals",
        &renewals,
        |call| match call {
            Call::Renew { token, .. } => Some(*token),
            _ => None,
        },
    ));
    violations.extend(more_than_asked(
        evidence,
        "releases",
        &log.releases,
        |call| match call {
            Call::Release { token } => Some(*token),
            _ => None,
        },
    ));
    Verdict::of(definite, violations)
}

fn refused_and_granted(evidence: &Evidence) -> Vec<String> {
    let granted: HashSet<(&str, &str)> = evidence
        .applied
        .grants
        .iter()
        .map(|g| (g.resource.as_str(), g.request_id.as_str()))
        .collect();
    let refused = evidence
        .operations
        .iter()
        .filter(|op| op.definitely_without_effect());
    refused
        .filter(|op| {
            op.request_id()
                .is_some_and(|id| granted.contains(&(op.resource.as_str(), id)))
        })
        .map(|op| {
            format!(
                "client {} was told {:?} about {}, and was granted: {:?}",
                op.client, op.outcome, op.resource, op.call
            )
        })
        .collect()
}

/// Only tokens that the harness ever asked about are judged: others may act on the cluster too.
fn more_than_asked(
    evidence: &Evidence,
    what: &str,
    applied: &HashMap<u64, u64>,
    token_of: impl Fn(&Call) -> Option<u64>,
) -> Vec<String> {
    let mut may_have: HashMap<u64, u64> = HashMap::new();
    for op in &evidence.operations {
        if let Some(token) = token_of(&op.call) {
            *may_have.entry(token).or_default() += u64::from(!op.definitely_without_effect());
        }
    }
    may_have
        .iter()
        .map(|(token, asked)| (token, *asked, applied.get(token).copied().unwrap_or(0)))
        .filter(|(_, asked, applied)| applied > asked)
        .map(|(token, asked, applied)| {
            format!(
                "token {token}: {applied} {what} were applied, and only {asked} were not refused"
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{checks::story::Story, history::Outcome};

    fn refused() -> Outcome {
        Outcome::Refused("held".into())
    }

    #[test]
    fn fires_on_a_refused_acquire_that_was_granted() {
        let story = Story::default()
            .acquire("r", "a", 0, 10, refused())
            .logged_grant("r", "a", 0, 1);
        assert!(matches!(check(&story.evidence()), Verdict::Broken(_)));
    }

    #[test]
    fn fires_on_an_error_without_effect_that_was_granted() {
        let failed = Outcome::Failed("unavailable, no effect".into());
        let story = Story::default()
            .acquire("r", "a", 0, 10, failed)
            .logged_grant("r", "a", 0, 1);
        assert!(matches!(check(&story.evidence()), Verdict::Broken(_)));
    }

    #[test]
    fn fires_on_a_refused_renewal_that_was_applied() {
        let story = Story::default()
            .renew("r", 1, 0, 10, refused())
            .logged_renewal(1);
        assert!(matches!(check(&story.evidence()), Verdict::Broken(_)));
    }

    #[test]
    fn fires_on_a_refused_release_that_was_applied() {
        let story = Story::default()
            .release("r", 1, 0, 10, refused())
            .logged_release("r", 1);
        assert!(matches!(check(&story.evidence()), Verdict::Broken(_)));
    }

    #[test]
    fn passes_refusals_without_effect_and_unknown_calls_with_one() {
        let unknown = || Outcome::Unknown("lost".into());
        let story = Story::default()
            .acquire("r", "a", 0, 10, refused())
            .acquire("r", "b", 0, 0, unknown())
            .logged_grant("r", "b", 0, 2)
            .renew("r", 2, 20, 0, unknown())
            .logged_renewal(2)
            .release("r", 2, 30, 0, unknown())
            .logged_release("r", 2);
        assert_eq!(check(&story.evidence()), Verdict::Holds(1));
    }
}
