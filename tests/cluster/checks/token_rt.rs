//! TOKEN-RT: a grant that was asked for after another had returned has the greater token; for a
//! resource, and over the whole cluster.
//!
//! One sweep in time order. At each return the highest token so far is kept; at each send it is
//! noted; the grant's own token must be above what was noted. A send and a return at the same moment
//! are concurrent, so sends go first. Grants that only the applied log tells of take part as the
//! later one of a pair: their send is known, their return is not.

use std::collections::BTreeMap;

use super::{Evidence, Grant, Verdict};
use crate::history::Moment;

pub(super) fn check(evidence: &Evidence) -> Verdict {
    let mut by_resource: BTreeMap<&str, Vec<&Grant>> = BTreeMap::new();
    for grant in &evidence.grants {
        by_resource.entry(&grant.resource).or_default().push(grant);
    }
    let all: Vec<&Grant> = evidence.grants.iter().collect();
    let mut violations = sweep("the cluster", &all);
    for (resource, grants) in by_resource {
        violations.extend(sweep(resource, &grants));
    }
    Verdict::of(all.len(), violations)
}

fn sweep(over: &str, grants: &[&Grant]) -> Vec<String> {
    // (when, is a return, which): false sorts first, so sends go before returns of the same moment.
    let sends = grants
        .iter()
        .enumerate()
        .filter_map(|(at, g)| Some((g.sent?, false, at)));
    let returns = grants
        .iter()
        .enumerate()
        .filter_map(|(at, g)| Some((g.returned?, true, at)));
    let mut order: Vec<(Moment, bool, usize)> = sends.chain(returns).collect();
    order.sort_unstable();

    let mut highest: Option<&Grant> = None;
    let mut violations = Vec::new();
    for (_, is_return, at) in order {
        let grant = grants[at];
        if is_return {
            highest = highest
                .filter(|before| before.token >= grant.token)
                .or(Some(grant));
        } else if let Some(before) = highest.filter(|before| grant.token <= before.token) {
            violations.push(format!(
                "over {over}: token {} of {} for {} was asked for at {:?}, after token {} of {} for {} had returned at {:?}",
                grant.token, grant.resource, grant.holder, grant.sent.unwrap_or_default(),
                before.token, before.resource, before.holder, before.returned.unwrap_or_default(),
            ));
        }
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{checks::story::Story, dice::Dice, history::Outcome};

    #[test]
    fn fires_on_a_lower_token_asked_for_later_on_another_resource() {
        let story = Story::default()
            .grant("r1", "a", 0, 10, 70)
            .grant("r2", "b", 11, 20, 60);
        assert!(matches!(check(&story.evidence()), Verdict::Broken(v) if v.len() == 1));
    }

    #[test]
    fn fires_on_an_equal_token() {
        let story = Story::default()
            .grant("r", "a", 0, 10, 70)
            .grant("r", "b", 11, 20, 70);
        assert!(matches!(check(&story.evidence()), Verdict::Broken(v) if v.len() == 2));
    }

    #[test]
    fn fires_on_a_grant_that_only_the_log_tells_of() {
        let story = Story::default()
            .grant("r", "a", 0, 10, 70)
            .acquire("r", "b", 11, 0, Outcome::Unknown("lost".into()))
            .logged_grant("r", "a", 0, 70)
            .logged_grant("r", "b", 11, 60);
        assert!(matches!(check(&story.evidence()), Verdict::Broken(_)));
    }

    #[test]
    fn passes_concurrent_grants_in_any_order() {
        let story = Story::default()
            .grant("r1", "a", 0, 10, 70)
            .grant("r2", "b", 10, 20, 60)
            .grant("r1", "c", 21, 30, 71);
        assert_eq!(check(&story.evidence()), Verdict::Holds(3));
    }

    #[test]
    fn agrees_with_the_plain_definition_on_random_histories() {
        let (mut dice, mut broken) = (Dice::new(1), 0);
        for _ in 0..2_000 {
            let grants: Vec<Grant> = (0..dice.below(9)).map(|_| random(&mut dice)).collect();
            let grants: Vec<&Grant> = grants.iter().collect();
            let before = |one: &Grant, other: &Grant| {
                one.returned.zip(other.sent).is_some_and(|(r, s)| r < s)
            };
            let wrong = |later: &&&Grant| {
                grants
                    .iter()
                    .any(|one| before(one, later) && one.token >= later.token)
            };
            let plain = grants.iter().filter(wrong).count();
            assert_eq!(sweep("r", &grants).len(), plain, "{grants:?}");
            broken += plain;
        }
        assert!(
            broken > 1_000,
            "the histories are worth something: {broken}"
        );
    }

    fn random(dice: &mut Dice) -> Grant {
        let sent = dice.percent(90).then(|| dice.millis(0, 60));
        Grant {
            token: 1 + dice.below(12),
            resource: "r".into(),
            holder: "h".into(),
            request_id: "i".into(),
            sent,
            returned: sent
                .filter(|_| dice.percent(80))
                .map(|sent| sent + dice.millis(1, 20)),
            relied_on: None,
        }
    }
}
