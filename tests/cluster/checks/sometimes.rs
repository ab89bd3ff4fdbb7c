//! SOMETIMES: what the run is meant to provoke really happened. A run in which too little happened
//! proves nothing, so the verdict is *unknown*, which is not a pass.

use super::{Evidence, Verdict};

pub(super) fn check(evidence: &Evidence) -> Verdict {
    let wanted = &evidence.facts.sometimes;
    if wanted.is_empty() {
        return Verdict::Unknown("nobody said what must happen".into());
    }
    let short = wanted.iter().filter(|one| one.times < one.at_least);
    let short: Vec<String> = short
        .map(|one| format!("{}: {} times, {} wanted", one.what, one.times, one.at_least))
        .collect();
    if short.is_empty() {
        Verdict::Holds(wanted.len())
    } else {
        Verdict::Unknown(short.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::{Sometime, story::Story};

    fn verdict(counts: &[(u64, u64)]) -> Verdict {
        let mut story = Story::default();
        let sometime = |(times, at_least): &(u64, u64)| Sometime {
            what: "leader changes",
            times: *times,
            at_least: *at_least,
        };
        story.facts.sometimes = counts.iter().map(sometime).collect();
        check(&story.evidence())
    }

    #[test]
    fn is_unknown_when_something_did_not_happen_often_enough() {
        assert!(
            matches!(verdict(&[(5, 5), (9, 10)]), Verdict::Unknown(why) if why.contains("9 times"))
        );
    }

    #[test]
    fn is_unknown_when_nothing_was_wanted() {
        assert!(matches!(verdict(&[]), Verdict::Unknown(_)));
    }

    #[test]
    fn passes_when_all_of_it_happened() {
        assert_eq!(verdict(&[(10, 10), (11, 10)]), Verdict::Holds(2));
    }
}
