//! TOKEN-UNIQ: no token is given twice; grants that only the applied log tells of included. The
//! replay of one request id is the same grant, and is no second one.

use std::collections::HashMap;

use super::{Evidence, Grant, Verdict};

pub(super) fn check(evidence: &Evidence) -> Verdict {
    let mut first: HashMap<u64, &Grant> = HashMap::new();
    let mut violations = Vec::new();
    for grant in &evidence.grants {
        let before = first.entry(grant.token).or_insert(grant);
        let same = before.request_id == grant.request_id
            && before.resource == grant.resource
            && before.holder == grant.holder;
        if !same {
            violations.push(format!(
                "token {} was given to {} for {} (request {}) and to {} for {} (request {})",
                grant.token,
                before.holder,
                before.resource,
                before.request_id,
                grant.holder,
                grant.resource,
                grant.request_id,
            ));
        }
    }
    Verdict::of(evidence.grants.len(), violations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{checks::story::Story, history::Outcome};

    #[test]
    fn fires_on_a_token_given_twice_at_the_same_time() {
        let story = Story::default()
            .grant("r1", "a", 0, 10, 70)
            .grant("r2", "b", 0, 10, 70);
        assert!(matches!(check(&story.evidence()), Verdict::Broken(_)));
    }

    #[test]
    fn fires_on_a_second_grant_that_was_learned_of_late() {
        let story = Story::default()
            .grant("r1", "a", 0, 10, 70)
            .acquire("r2", "b", 0, 0, Outcome::Unknown("lost".into()))
            .logged_grant("r1", "a", 0, 70)
            .logged_grant("r2", "b", 0, 70);
        assert!(matches!(check(&story.evidence()), Verdict::Broken(_)));
    }

    #[test]
    fn passes_the_same_grant_in_both_records() {
        let story = Story::default()
            .grant("r1", "a", 0, 10, 70)
            .grant("r2", "b", 0, 10, 71)
            .logged_grant("r1", "a", 0, 70)
            .logged_grant("r2", "b", 0, 71);
        assert_eq!(check(&story.evidence()), Verdict::Holds(2));
    }
}
