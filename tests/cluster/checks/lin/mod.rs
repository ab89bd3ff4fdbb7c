//! LIN: each resource's history is linearizable against a sequential model of a fenced mutex with
//! leases and a queue. There is an order of all calls in which each comes between its send and its
//! return, and in which each answer is what the model says.
//!
//! A lease that runs out explains a grant only from (send of the last renewal that may have counted +
//! TTL) on. The order in the applied log is *not* used, except to resolve calls without an answer: the
//! history must make sense by what callers saw.
//!
//! The harness keeps few callers on one resource (about eight at a time), so that the search ends; one
//! that takes too many steps is *unknown*.

#[cfg(test)]
mod beside_stateright;
mod items;
mod model;
mod search;

use self::search::{Found, search};
use super::{Evidence, Verdict};
use crate::history::Outcome;

/// Steps for one resource. A history that has an order needs about one for each item.
const STEPS_MAX: usize = 200_000;

pub(super) fn check(evidence: &Evidence) -> Verdict {
    let open = |outcome: &Outcome| matches!(outcome, Outcome::Unknown(_));
    let any_open = evidence.operations.iter().any(|op| open(&op.outcome));
    let log = &evidence.applied;
    if any_open && (log.entries == 0 || !log.holes.is_empty()) {
        let holes = log.holes.len();
        return Verdict::Unknown(format!(
            "{holes} entries are in no log, so that unknown calls cannot be resolved"
        ));
    }
    let (mut judged, mut violations, mut unknown) = (0, Vec::new(), Vec::new());
    for (resource, items) in items::by_resource(evidence) {
        judged += items.len();
        match search(items, STEPS_MAX) {
            Found::Order => {}
            Found::Nothing(why) => violations.push(format!("{resource}: {why}")),
            Found::OutOfSteps => unknown.push(resource),
        }
    }
    if violations.is_empty() && !unknown.is_empty() {
        let resources = unknown.join(", ");
        return Verdict::Unknown(format!("out of {STEPS_MAX} steps on {resources}"));
    }
    Verdict::of(judged, violations)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{checks::story::Story, history::Call};

    fn broken(story: Story) -> bool {
        matches!(check(&story.evidence()), Verdict::Broken(_))
    }

    fn lost() -> Outcome {
        Outcome::Unknown("lost".into())
    }

    #[test]
    fn fires_on_two_holders_within_a_lease() {
        let story = Story::default().grant("r", "a", 0, 10, 70);
        assert!(broken(story.grant("r", "b", 900, 999, 71)));
    }

    #[test]
    fn fires_on_a_release_that_came_too_late_to_explain_the_next_grant() {
        let story = Story::default()
            .grant("r", "a", 0, 10, 70)
            .grant("r", "b", 100, 199, 71)
            .release("r", 70, 200, 210, Outcome::Released);
        assert!(broken(story));
    }

    #[test]
    fn fires_on_an_expiry_that_a_renewal_rules_out() {
        let story = Story::default()
            .grant("r", "a", 0, 10, 70)
            .renew("r", 70, 500, 510, Outcome::Renewed)
            .grant("r", "b", 1_100, 1_499, 71);
        assert!(broken(story));
    }

    #[test]
    fn fires_on_a_lost_renewal_that_the_log_tells_of() {
        let story = Story::default()
            .logged_grant("r", "a", 0, 1)
            .logged_renewal(1)
            .logged_grant("r", "b", 1_100, 3)
            .grant("r", "a", 0, 10, 1)
            .renew("r", 1, 500, 0, lost())
            .grant("r", "b", 1_100, 1_499, 3);
        assert!(broken(story));
    }

    #[test]
    fn fires_on_a_refusal_by_somebody_who_had_given_it_back() {
        let story = Story::default()
            .grant("r", "a", 0, 10, 70)
            .release("r", 70, 20, 30, Outcome::Released)
            .acquire("r", "b", 40, 50, Outcome::Held(70));
        assert!(broken(story));
    }

    #[test]
    fn fires_on_a_stale_read_and_on_a_renewal_of_what_was_given_back() {
        let story = || Story::default().grant("r", "a", 0, 10, 70);
        let seen = Outcome::Inspected(None);
        assert!(broken(story().op("r", Call::Inspect, 20, 30, seen)));
        let released = story().release("r", 70, 20, 30, Outcome::Released);
        assert!(broken(released.renew("r", 70, 40, 50, Outcome::Renewed)));
    }

    #[test]
    fn fires_on_a_waiter_that_was_granted_while_the_holder_held() {
        let story = Story::default()
            .grant("r", "a", 0, 10, 70)
            .grant_after_wait("r", "b", 20, 500, 71);
        assert!(broken(story));
    }

    #[test]
    fn is_unknown_without_a_log_to_resolve_what_is_open() {
        let story = Story::default().acquire("r", "a", 0, 0, lost());
        assert!(matches!(check(&story.evidence()), Verdict::Unknown(_)));
    }

    #[test]
    fn passes_what_leases_releases_and_lost_calls_explain() {
        let story = Story::default()
            .logged_grant("r", "a", 0, 1)
            .logged_release("r", 1)
            .logged_grant("r", "b", 40, 3)
            .logged_expiry(3, 0)
            .logged_grant("r", "c", 900, 5)
            .grant("r", "a", 0, 10, 1)
            .release("r", 1, 20, 0, lost())
            .acquire("r", "b", 40, 0, lost())
            .acquire("r", "c", 60, 70, Outcome::Held(3))
            .grant("r", "c", 900, 1_041, 5)
            .op(
                "r",
                Call::Inspect,
                1_050,
                1_060,
                Outcome::Inspected(Some(5)),
            );
        assert!(matches!(check(&story.evidence()), Verdict::Holds(_)));
    }

    #[test]
    fn passes_a_queue_that_is_served_in_turn() {
        let story = Story::default()
            .grant("r", "a", 0, 10, 70)
            .grant_after_wait("r", "b", 20, 110, 71)
            .grant_after_wait("r", "c", 21, 1_200, 72)
            .release("r", 70, 100, 105, Outcome::Released)
            .renew("r", 71, 120, 130, Outcome::Renewed);
        let verdict = check(&story.evidence());
        assert!(matches!(verdict, Verdict::Holds(_)), "{verdict}");
    }

    #[test]
    fn a_renewal_that_came_before_a_release_fits_in_between() {
        let story = Story::default()
            .grant("r", "a", 0, 10, 70)
            .renew("r", 70, 20, 60, Outcome::Renewed)
            .release("r", 70, 20, 60, Outcome::Released);
        assert_eq!(check(&story.evidence()), Verdict::Holds(3));
    }
}
