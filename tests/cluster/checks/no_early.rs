//! NO-EARLY: no lease runs out before [send of what set it last + its length].
//!
//! When the entry of an expiry was applied is known from the timeline: by the earliest answer that
//! tells of it or of a later entry. What set the lease last was a grant or a renewal; it was applied
//! after its own call was sent, and after the sends of all entries before it. A grant that came from
//! the queue sets the shorter lease that stands in its entry, and is judged by that.

use std::{collections::HashMap, time::Duration};

use super::{Evidence, Verdict};
use crate::history::{Call, Moment, Outcome, applied::LoggedExpiry};

pub(super) fn check(evidence: &Evidence) -> Verdict {
    let log = &evidence.applied;
    let grants: HashMap<u64, _> = log.grants.iter().map(|g| (g.token, g)).collect();
    let renewed = latest_renewals(evidence);
    let violation = |expiry: &LoggedExpiry| {
        let grant = grants.get(&expiry.token)?;
        let last = log.renewals.get(&expiry.token).and_then(|all| all.last());
        let (index, lease) = last.map_or((grant.index, grant.lease), |last| (last.index, last.ttl));
        let set = evidence.timeline.not_before(index);
        // All of its acknowledged renewals were applied before the last one, or are it.
        let set = set.max(renewed.get(&expiry.token).copied().unwrap_or_default());
        let by = evidence.timeline.not_after(expiry.index)?;
        (by < set + lease).then(|| {
            format!(
                "{}: token {} was expired by {by:?} (entry {}), but its lease of {lease:?} was set after {set:?} (entry {index})",
                grant.resource, expiry.token, expiry.index,
            )
        })
    };
    Verdict::of(
        log.expiries.len(),
        log.expiries.iter().filter_map(violation).collect(),
    )
}

/// By token: the latest send of a renewal that was acknowledged.
fn latest_renewals(evidence: &Evidence) -> HashMap<u64, Moment> {
    let mut latest: HashMap<u64, Moment> = HashMap::new();
    for op in &evidence.operations {
        if let (Call::Renew { token, .. }, Outcome::Renewed) = (&op.call, &op.outcome) {
            let sent = latest.entry(*token).or_insert(Duration::ZERO);
            *sent = (*sent).max(op.sent);
        }
    }
    latest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::story::Story;

    /// `a` has token 1 from 0 on; it expires in an entry that `b` tells of at `told`.
    fn expired_by(told: u64, renewed_at: Option<u64>) -> Verdict {
        let mut story = Story::default()
            .grant("r", "a", 0, 10, 1)
            .logged_grant("r", "a", 0, 1);
        if let Some(at) = renewed_at {
            story = story
                .renew("r", 1, at, at + 5, Outcome::Renewed)
                .logged_renewal(1);
        }
        let index = if renewed_at.is_some() { 4 } else { 3 };
        let story = story
            .logged_expiry(1, u64::from(renewed_at.is_some()))
            .logged_grant("s", "b", 20, index)
            .grant("s", "b", 20, told, index);
        check(&story.evidence())
    }

    #[test]
    fn fires_on_an_expiry_before_the_end_of_the_lease() {
        assert!(matches!(expired_by(999, None), Verdict::Broken(_)));
    }

    #[test]
    fn fires_on_an_expiry_too_soon_after_a_renewal() {
        assert!(matches!(expired_by(1_499, Some(500)), Verdict::Broken(_)));
    }

    #[test]
    fn fires_on_a_waiter_whose_short_lease_was_cut() {
        let story = Story::default()
            .grant("q", "z", 700, 710, 1)
            .logged_grant("q", "z", 700, 1)
            .logged_waited_grant("r", "a", 0, 2, 500)
            .logged_expiry(2, 0)
            .logged_grant("s", "b", 1_100, 4)
            .grant("s", "b", 1_100, 1_150, 4);
        assert!(matches!(check(&story.evidence()), Verdict::Broken(_)));
    }

    #[test]
    fn passes_an_expiry_at_the_end_of_the_lease() {
        assert_eq!(expired_by(1_000, None), Verdict::Holds(1));
        assert_eq!(expired_by(1_500, Some(500)), Verdict::Holds(1));
    }
}
