//! MUTEX-LEASE: the next grant never returns before the previous holder's own deadline, the *send*
//! of its release (or of a revocation), or a grant to the same holder; and in the applied log no
//! expiry follows a renewal that it should have seen.
//!
//! The holder's deadline is what it may rely on: the first send of its acquire plus the TTL, or the
//! send of any renewal that was acknowledged plus the TTL, whichever is latest. A renewal that was
//! acknowledged after the next grant returned counts too: it had been applied, so the lease had not
//! ended when it was.
//!
//! Grants of a resource are taken in token order. Of those between a grant and the next one to the
//! same holder, the earliest return must not lie before the grant's end. A stack of the returns seen
//! from the right answers that with one binary search.

use std::collections::{BTreeMap, HashMap};

use super::{Evidence, Grant, Verdict};
use crate::history::{Call, Moment, Outcome, applied::LoggedExpiry};

pub(super) fn check(evidence: &Evidence) -> Verdict {
    let renewed = renewed_until(evidence);
    let given_up = earliest_end(evidence);
    let mut by_resource: BTreeMap<&str, Vec<&Grant>> = BTreeMap::new();
    for grant in &evidence.grants {
        by_resource.entry(&grant.resource).or_default().push(grant);
    }
    let mut violations = Vec::new();
    for grants in by_resource.values_mut() {
        grants.sort_by_key(|grant| grant.token);
        violations.extend(overlaps(grants, |grant| {
            let own = grant
                .sent
                .zip(grant.relied_on)
                .map(|(sent, ttl)| sent + ttl);
            let deadline = own.max(renewed.get(&grant.token).copied())?;
            Some(
                given_up
                    .get(&grant.token)
                    .map_or(deadline, |end| deadline.min(*end)),
            )
        }));
    }
    violations.extend(blind_expiries(evidence));
    Verdict::of(
        evidence.grants.len() + evidence.applied.expiries.len(),
        violations,
    )
}

/// By token: the latest deadline that an acknowledged renewal allows its holder, or that the client
/// library claimed.
fn renewed_until(evidence: &Evidence) -> HashMap<u64, Moment> {
    let mut latest: HashMap<u64, Moment> = HashMap::new();
    for op in &evidence.operations {
        let (token, until) = match (&op.call, &op.outcome) {
            (Call::Renew { token, ttl }, Outcome::Renewed) => (*token, op.sent + *ttl),
            (Call::Rely { token, until }, _) => (*token, *until),
            _ => continue,
        };
        let deadline = latest.entry(token).or_default();
        *deadline = (*deadline).max(until);
    }
    latest
}

/// By token: the first send of a release or a revocation, whatever became of it.
fn earliest_end(evidence: &Evidence) -> HashMap<u64, Moment> {
    let mut earliest: HashMap<u64, Moment> = HashMap::new();
    for op in &evidence.operations {
        if let Call::Release { token } | Call::Revoke { token } = op.call {
            let end = earliest.entry(token).or_insert(op.sent);
            *end = (*end).min(op.sent);
        }
    }
    earliest
}

/// Grants of one resource in token order, with the time until which each holder may rely on its own.
fn overlaps(grants: &[&Grant], relied_until: impl Fn(&Grant) -> Option<Moment>) -> Vec<String> {
    let mut violations = Vec::new();
    let mut next_of_holder: HashMap<&str, usize> = HashMap::new();
    // From the bottom up, positions fall and returns rise: who returned later than one further left
    // is never the earliest of a range that begins further left still.
    let mut stack: Vec<(usize, Moment)> = Vec::new();
    for (at, grant) in grants.iter().enumerate().rev() {
        let until = next_of_holder
            .insert(&grant.holder, at)
            .unwrap_or(grants.len());
        // The deepest position before `until` has the earliest return of all between.
        let deepest = stack.partition_point(|(position, _)| *position >= until);
        if let (Some((next, returned)), Some(end)) = (stack.get(deepest), relied_until(grant))
            && *returned < end
        {
            violations.push(format!(
                "{}: token {} was with {} until {end:?}, but token {} for {} had returned at {returned:?}",
                grant.resource, grant.token, grant.holder, grants[*next].token, grants[*next].holder,
            ));
        }
        if let Some(returned) = grant.returned {
            while stack.last().is_some_and(|(_, later)| *later >= returned) {
                stack.pop();
            }
            stack.push((at, returned));
        }
    }
    violations
}

/// Expiries that ended a lease although renewals were applied that they had not seen.
fn blind_expiries(evidence: &Evidence) -> impl Iterator<Item = String> + '_ {
    let blind = |expiry: &&LoggedExpiry| expiry.renewals_seen < expiry.renewals_applied;
    evidence
        .applied
        .expiries
        .iter()
        .filter(blind)
        .map(|expiry| {
            format!(
                "entry {} expired token {} as of renewal {}, after renewal {} had been applied",
                expiry.index, expiry.token, expiry.renewals_seen, expiry.renewals_applied,
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        checks::story::{Story, ms},
        dice::Dice,
        history::Granted,
    };

    fn broken(story: Story) -> bool {
        matches!(check(&story.evidence()), Verdict::Broken(_))
    }

    #[test]
    fn fires_on_a_grant_within_the_lease() {
        assert!(broken(
            Story::default()
                .grant("r", "a", 0, 10, 70)
                .grant("r", "b", 900, 999, 71)
        ));
    }

    #[test]
    fn fires_on_a_grant_within_a_renewed_lease() {
        let story = Story::default()
            .grant("r", "a", 0, 10, 70)
            .renew("r", 70, 500, 510, Outcome::Renewed)
            .grant("r", "b", 1_400, 1_499, 71);
        assert!(broken(story));
    }

    #[test]
    fn fires_on_a_grant_while_the_library_said_that_it_was_safe() {
        let until = ms(1_300);
        let story = Story::default()
            .grant("r", "a", 0, 10, 70)
            .op(
                "r",
                Call::Rely { token: 70, until },
                900,
                900,
                Outcome::Renewed,
            )
            .grant("r", "b", 1_100, 1_299, 71);
        assert!(broken(story));
    }

    #[test]
    fn fires_on_a_grant_two_further_on_when_the_next_one_is_known_from_the_log_only() {
        let story = Story::default()
            .grant("r", "a", 0, 10, 70)
            .acquire("r", "b", 20, 0, Outcome::Unknown("lost".into()))
            .grant("r", "c", 30, 40, 72)
            .logged_grant("r", "a", 0, 70)
            .logged_grant("r", "b", 20, 71)
            .logged_grant("r", "c", 30, 72);
        assert!(broken(story));
    }

    #[test]
    fn fires_on_an_expiry_that_missed_a_renewal() {
        let story = Story::default()
            .logged_grant("r", "a", 0, 70)
            .logged_renewal(70);
        assert!(broken(story.logged_expiry(70, 0)));
    }

    #[test]
    fn passes_a_grant_after_the_lease_and_after_a_release_was_sent() {
        let story = Story::default()
            .grant("r", "a", 0, 10, 70)
            .grant("r", "b", 900, 1_001, 71)
            .release("r", 71, 1_100, 0, Outcome::Unknown("lost".into()))
            .grant("r", "c", 1_101, 1_105, 72)
            .logged_renewal(72)
            .logged_expiry(72, 1);
        assert_eq!(check(&story.evidence()), Verdict::Holds(4));
    }

    #[test]
    fn passes_a_new_grant_to_the_same_holder_and_what_follows_it() {
        let story = Story::default()
            .grant("r", "a", 0, 10, 70)
            .grant("r", "a", 20, 30, 71)
            .release("r", 71, 40, 50, Outcome::Released)
            .grant("r", "b", 60, 70, 72);
        assert_eq!(check(&story.evidence()), Verdict::Holds(3));
    }

    #[test]
    fn a_replayed_answer_gives_no_deadline_until_a_renewal_returns() {
        let replayed = Granted {
            token: 70,
            index: 70,
            start_unknown: true,
            after_wait: false,
        };
        let story = Story::default()
            .acquire("r", "a", 0, 900, Outcome::Granted(replayed))
            .grant("r", "b", 910, 950, 71);
        assert_eq!(check(&story.evidence()), Verdict::Holds(2));
    }

    /// The definition, pair by pair.
    fn plainly_broken(grants: &[&Grant], until: impl Fn(&Grant) -> Option<Moment>) -> usize {
        let broken = |at: &usize| {
            let grant = grants[*at];
            let later = grants[at + 1..]
                .iter()
                .take_while(|next| next.holder != grant.holder);
            let earliest = later.filter_map(|next| next.returned).min();
            earliest
                .zip(until(grant))
                .is_some_and(|(returned, end)| returned < end)
        };
        (0..grants.len()).filter(broken).count()
    }

    #[test]
    fn agrees_with_the_plain_definition_on_random_histories() {
        let (mut dice, mut broken) = (Dice::new(1), 0);
        for _ in 0..2_000 {
            let grants: Vec<Grant> = (1..=dice.below(9))
                .map(|token| random(&mut dice, token))
                .collect();
            let grants: Vec<&Grant> = grants.iter().collect();
            let until = |grant: &Grant| {
                grant
                    .sent
                    .zip(grant.relied_on)
                    .map(|(sent, ttl)| sent + ttl)
            };
            let found = overlaps(&grants, until).len();
            assert_eq!(found, plainly_broken(&grants, until), "{grants:?}");
            broken += found;
        }
        assert!(
            broken > 1_000,
            "the histories are worth something: {broken}"
        );
    }

    fn random(dice: &mut Dice, token: u64) -> Grant {
        let sent = dice.millis(0, 100);
        Grant {
            token,
            resource: "r".into(),
            holder: format!("h{}", dice.below(4)),
            request_id: token.to_string(),
            sent: Some(sent),
            returned: dice.percent(80).then(|| sent + dice.millis(1, 20)),
            relied_on: dice.percent(80).then(|| dice.millis(1, 40)),
        }
    }
}
