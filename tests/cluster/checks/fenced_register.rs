//! FENCED-REGISTER: the cluster's own register never admits a lower token for a resource after it has
//! admitted a higher one, by the callers' clock and by the log; it refuses none without a reason; and it
//! knows every token that was issued.

use std::collections::BTreeMap;

use super::{Evidence, Verdict};
use crate::history::{Call, Moment, Operation, Outcome};

pub(super) fn check(evidence: &Evidence) -> Verdict {
    let mut of_resource: BTreeMap<&str, Vec<Presented<'_>>> = BTreeMap::new();
    for op in &evidence.operations {
        if let Call::Admit { token } = op.call {
            let presented = of_resource.entry(&op.resource).or_default();
            presented.push(Presented { op, token });
        }
    }
    let judged = of_resource.values().map(Vec::len).sum();
    if judged == 0 {
        return Verdict::Unknown("no token was presented to the register".into());
    }
    let mut violations = Vec::new();
    for presented in of_resource.values_mut() {
        presented.sort_by_key(|one| one.op.sent);
        violations.extend(lower_after_higher(presented));
        violations.extend(without_reason(presented));
    }
    violations.extend(falling_marks(evidence));
    Verdict::of(judged, violations)
}

/// A token that was presented for a resource.
struct Presented<'a> {
    op: &'a Operation,
    token: u64,
}

/// What was admitted although a higher one had been, before it was asked for.
fn lower_after_higher(presented: &[Presented<'_>]) -> Vec<String> {
    let mut admitted: Vec<(Moment, u64)> = presented
        .iter()
        .filter(|one| one.op.outcome == Outcome::Admitted)
        .filter_map(|one| Some((one.op.returned?, one.token)))
        .collect();
    admitted.sort_unstable();
    let mut returns = admitted.into_iter().peekable();
    let mut highest = 0;
    let mut violations = Vec::new();
    for one in presented {
        while let Some((_, token)) = returns.next_if(|(returned, _)| *returned < one.op.sent) {
            highest = highest.max(token);
        }
        if one.op.outcome == Outcome::Admitted && one.token < highest {
            violations.push(format!(
                "{} was admitted for {}, asked for after {highest} had been",
                one.token, one.op.resource
            ));
        }
    }
    violations
}

/// What was refused although nobody had presented what was required, or as never issued although the
/// harness had it from a grant.
fn without_reason(presented: &[Presented<'_>]) -> Vec<String> {
    let mut violations = Vec::new();
    for one in presented {
        match one.op.outcome {
            Outcome::Stale(required) => {
                let before = presented.iter().take_while(|other| {
                    one.op
                        .returned
                        .is_none_or(|returned| other.op.sent < returned)
                });
                let reason = before
                    .filter(|other| !other.op.definitely_without_effect())
                    .any(|other| other.token >= required);
                if !reason || one.token >= required {
                    violations.push(format!(
                        "{} was refused for {}, which required {required} without a reason",
                        one.token, one.op.resource
                    ));
                }
            }
            Outcome::NeverIssued => violations.push(format!(
                "{} was issued for {}, and the register did not know it",
                one.token, one.op.resource
            )),
            _ => {}
        }
    }
    violations
}

/// Each entry that moves a mark moves it up.
fn falling_marks(evidence: &Evidence) -> Vec<String> {
    let mut marks: BTreeMap<&str, u64> = BTreeMap::new();
    let mut violations = Vec::new();
    let rises = evidence.applied.events.iter();
    for (index, event) in rises.filter(|(_, event)| event.event == "admitted") {
        let (mark, token) = (marks.entry(&event.resource).or_default(), event.token());
        if token <= *mark {
            violations.push(format!(
                "entry {index} moved the mark of {} from {mark} to {token}",
                event.resource
            ));
        }
        *mark = token;
    }
    violations
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::story::Story;

    trait Presents {
        fn presents(self, token: u64, at: u64, back: u64, outcome: Outcome) -> Self;
    }

    impl Presents for Story {
        fn presents(self, token: u64, at: u64, back: u64, outcome: Outcome) -> Self {
            self.op("r", Call::Admit { token }, at, back, outcome)
        }
    }

    fn broken(story: Story) -> bool {
        matches!(check(&story.evidence()), Verdict::Broken(_))
    }

    #[test]
    fn fires_on_a_lower_token_that_passed_after_a_higher_one() {
        let higher = || Story::default().presents(9, 0, 10, Outcome::Admitted);
        assert!(broken(higher().presents(5, 20, 30, Outcome::Admitted)));
        let beside = higher().presents(5, 5, 30, Outcome::Admitted);
        assert_eq!(check(&beside.evidence()), Verdict::Holds(2));
        let elsewhere = Call::Admit { token: 5 };
        let elsewhere = higher().op("s", elsewhere, 20, 30, Outcome::Admitted);
        assert_eq!(check(&elsewhere.evidence()), Verdict::Holds(2));
    }

    #[test]
    fn fires_on_a_refusal_for_which_there_is_no_reason() {
        let stale = |story: Story| story.presents(5, 20, 30, Outcome::Stale(9));
        assert!(broken(stale(Story::default())));
        let failed = Outcome::Failed("no effect".into());
        assert!(broken(stale(Story::default().presents(9, 0, 10, failed))));
        assert!(broken(stale(Story::default().presents(
            9,
            40,
            50,
            Outcome::Admitted
        ))));
        // One whose answer was lost may have been admitted.
        let lost = Outcome::Unknown("lost".into());
        let story = stale(Story::default().presents(9, 0, 0, lost));
        assert_eq!(check(&story.evidence()), Verdict::Holds(2));
    }

    #[test]
    fn fires_on_an_issued_token_that_is_said_to_be_none() {
        assert!(broken(Story::default().presents(
            5,
            0,
            10,
            Outcome::NeverIssued
        )));
    }

    #[test]
    fn fires_on_a_mark_that_falls_in_the_log() {
        let story = |first: u64, then: u64| {
            Story::default()
                .presents(5, 0, 10, Outcome::Admitted)
                .logged_mark("r", first)
                .logged_mark("r", then)
        };
        assert!(broken(story(9, 5)));
        assert!(broken(story(9, 9)));
        assert_eq!(check(&story(5, 9).evidence()), Verdict::Holds(1));
    }

    #[test]
    fn cannot_say_when_nothing_was_presented() {
        assert!(matches!(
            check(&Story::default().evidence()),
            Verdict::Unknown(_)
        ));
    }
}
