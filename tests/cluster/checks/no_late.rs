//! NO-LATE: a lease that is not renewed ends within its length plus a bound.
//!
//! Each stretch of a lease is judged: from what set it (a grant, a renewal) to what came next (a
//! renewal, an end, or the end of the log). It may not be longer than the lease, since in every one of
//! them the lease should have run out before. The ends of a stretch are taken from the timeline at their
//! worst for the verdict: set as late as possible, gone on as short as possible.
//!
//! What is allowed beyond the bound, as the promise allows it:
//! - silences, in which nobody was answered: no leader, or a machine (or a harness) that stood still;
//! - the whole lease once more for each new leader since it was set. A leader that restarted, was paused,
//!   lagged or installed a snapshot starts the lease when it has applied its entry; which leaders did is
//!   not known here, so each may have.

use std::time::Duration;

use super::{Evidence, Verdict};
use crate::history::{Moment, applied::LoggedGrant};

/// The promise.
const BOUND: Duration = Duration::from_millis(500);

/// Nobody was answered for so long: at over a hundred calls a second, nothing worked then. Shorter
/// ones are part of the bound.
const SILENCE: Duration = Duration::from_millis(100);

/// How much longer than the holder's the nodes' own deadline is, as clocks may run at different rates.
const MARGIN_PER_MILLE: u32 = 2;

pub(super) fn check(evidence: &Evidence) -> Verdict {
    let log = &evidence.applied;
    if let Some(hole) = log.holes.first() {
        let holes = log.holes.len();
        return Verdict::Unknown(format!(
            "{holes} entries are in no log, {hole} is the first"
        ));
    }
    let (mut judged, mut violations) = (0, Vec::new());
    for grant in &log.grants {
        for stretch in stretches(evidence, grant) {
            judged += 1;
            violations.extend(too_long(evidence, grant, &stretch));
        }
    }
    Verdict::of(judged, violations)
}

/// A part of a grant's life, between two entries that set its lease, or that ended it.
struct Stretch {
    from: u64,
    to: u64,
    lease: Duration,
}

fn stretches(evidence: &Evidence, grant: &LoggedGrant) -> Vec<Stretch> {
    let log = &evidence.applied;
    let renewals = log.renewals.get(&grant.token).into_iter().flatten();
    let renewals = renewals.map(|renewal| (renewal.index, renewal.ttl));
    let set: Vec<(u64, Duration)> = [(grant.index, grant.lease)]
        .into_iter()
        .chain(renewals)
        .collect();
    let end = log
        .ends
        .get(&grant.token)
        .map_or(log.last_index, |end| end.1);
    let nexts = set.iter().skip(1).map(|(index, _)| *index).chain([end]);
    set.iter()
        .zip(nexts)
        .map(|(&(from, lease), to)| Stretch { from, to, lease })
        .collect()
}

fn too_long(evidence: &Evidence, grant: &LoggedGrant, stretch: &Stretch) -> Option<String> {
    let (log, timeline) = (&evidence.applied, &evidence.timeline);
    let set: Moment = timeline.not_after(stretch.from)?;
    let gone_on = timeline.not_before(stretch.to);
    let lease = stretch.lease + stretch.lease * MARGIN_PER_MILLE / 1_000;
    let due = set + lease + BOUND;
    if gone_on <= due {
        return None;
    }
    let terms = (log.term_at(stretch.from), log.term_at(stretch.to));
    let later = log
        .terms
        .keys()
        .filter(|term| (terms.0 + 1..=terms.1).contains(*term));
    let leaders = u32::try_from(later.count()).expect("elections are few");
    let silent = timeline.silent(set, gone_on, SILENCE);
    let latest = due + silent + lease * leaders;
    (gone_on > latest).then(|| {
        format!(
            "{}: token {} still lived at {gone_on:?} (entry {}), its lease of {:?} was set by {set:?} (entry {}); {latest:?} at the latest was due, with {silent:?} of silence and {leaders} new leaders",
            grant.resource, grant.token, stretch.to, stretch.lease, stretch.from,
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{checks::story::Story, history::Outcome};

    /// Somebody is granted something every 50 ms from `from` on, so that there is no silence; gives
    /// the story and the index that comes next.
    fn busy(mut story: Story, from: u64, until: u64) -> Story {
        for at in (from..until).step_by(50) {
            let index = story.next_index();
            let holder = format!("busy-{at}");
            story = story
                .grant(&format!("s{at}"), &holder, at, at + 10, index)
                .logged_grant(&format!("s{at}"), &holder, at, index)
                .release(
                    &format!("s{at}"),
                    index,
                    at + 11,
                    at + 12,
                    Outcome::Released,
                )
                .logged_release(&format!("s{at}"), index);
        }
        story
    }

    fn held() -> Story {
        Story::default()
            .grant("r", "a", 0, 10, 1)
            .logged_grant("r", "a", 0, 1)
    }

    fn broken(story: Story) -> bool {
        matches!(check(&story.evidence()), Verdict::Broken(_))
    }

    #[test]
    fn fires_on_a_lease_that_runs_out_too_late_or_never() {
        assert!(broken(busy(held(), 20, 1_700)));
        let late = busy(held(), 20, 1_700).logged_expiry(1, 0);
        assert!(broken(busy(late, 1_700, 1_800)));
    }

    #[test]
    fn fires_on_a_renewal_of_what_should_have_run_out() {
        let late = busy(held(), 20, 1_700).logged_renewal(1);
        assert!(broken(busy(late, 1_700, 1_800).logged_expiry(1, 1)));
    }

    #[test]
    fn fires_on_a_waiter_whose_short_lease_went_on_for_the_whole_ttl() {
        let story = busy(Story::default(), 0, 100).logged_waited_grant("r", "a", 20, 99, 200);
        assert!(broken(busy(story, 100, 1_100)));
    }

    #[test]
    fn is_unknown_when_entries_are_in_no_log() {
        let hole = r#"{"kind":"entry","term":1,"index":2,"hash":"h"}"#;
        let verdict = check(&Story::default().evidence_with([hole, hole, hole]));
        assert!(matches!(verdict, Verdict::Unknown(_)));
    }

    #[test]
    fn passes_an_expiry_within_the_bound() {
        let story = busy(held(), 20, 1_450).logged_expiry(1, 0);
        let verdict = check(&busy(story, 1_450, 2_000).evidence());
        assert!(matches!(verdict, Verdict::Holds(_)), "{verdict}");
    }

    #[test]
    fn a_silence_and_a_new_leader_are_allowed_for() {
        // Nobody was answered between 500 and 1,600 ms.
        let story = busy(busy(held(), 20, 500), 1_600, 1_900).logged_expiry(1, 0);
        assert!(!broken(busy(story, 1_900, 2_000)));
        let story = busy(held(), 20, 500).new_term();
        let story = busy(story, 500, 2_200).logged_expiry(1, 0);
        assert!(!broken(busy(story, 2_200, 2_300)));
    }
}
