//! WATCH: what a watcher received is ordered, unique and gap-free against the applied log, through
//! resumes on other nodes; or it ended with an explicit error.
//!
//! A watcher's messages are walked beside the log. Each begins where the last one ended, and between
//! the two cursors it must have brought every event that the watch is about, in order, and nothing
//! else. Marks of progress are held to the same: what they claim to be delivered must have been.

use std::{collections::BTreeMap, ops::Bound};

use super::{Evidence, Verdict};
use crate::history::watched::{Fact, Told, Watched};

/// Events by index.
type Facts = BTreeMap<u64, Vec<Fact>>;

pub(super) fn check(evidence: &Evidence) -> Verdict {
    let log = &evidence.applied;
    let mut facts = Facts::new();
    for (index, event) in &log.events {
        facts.entry(*index).or_default().extend(Fact::of(event));
    }
    let (mut judged, mut violations) = (0, Vec::new());
    for watched in &evidence.watched {
        // What lies in a hole of the log cannot be judged, and is not walked over in silence.
        let until = watched.reached();
        if let Some(hole) = log
            .holes
            .iter()
            .find(|at| (watched.after..=until).contains(*at))
        {
            return Verdict::Unknown(format!("entry {hole} is in no log, and was watched"));
        }
        judged += watched
            .told
            .iter()
            .map(|told| told.facts.len())
            .sum::<usize>();
        violations.extend(walk(watched, &facts));
    }
    Verdict::of(judged, violations)
}

fn walk(watched: &Watched, facts: &Facts) -> Option<String> {
    let mut reached = watched.after;
    for told in &watched.told {
        if let Err(what) = message(watched, told, reached, facts) {
            return Some(format!(
                "watcher {} of {:?}, stream {} at node {}, after {reached}: {what}",
                watched.watcher, watched.prefix, told.stream, told.node,
            ));
        }
        reached = told.cursor;
    }
    None
}

fn message(watched: &Watched, told: &Told, reached: u64, facts: &Facts) -> Result<(), String> {
    if told.cursor < reached {
        return Err(format!("went back to {}", told.cursor));
    }
    if told.cursor == reached && !told.facts.is_empty() {
        return Err(format!("told of entry {reached} again"));
    }
    let about = |fact: &&Fact| {
        fact.resource.starts_with(&watched.prefix) && (watched.renewals || fact.kind != "renewed")
    };
    let mut due = facts.range((Bound::Excluded(reached), Bound::Included(told.cursor)));
    let missed = due.find(|(index, all)| {
        (**index < told.cursor || told.facts.is_empty()) && all.iter().any(|fact| about(&fact))
    });
    if let Some((index, all)) = missed {
        let lost = all.iter().find(about).map(ToString::to_string);
        return Err(format!(
            "a message up to {} left out entry {index}: {lost:?}",
            told.cursor
        ));
    }
    if told.facts.is_empty() {
        return Ok(());
    }
    let all = facts.get(&told.cursor).into_iter().flatten();
    let due: Vec<&Fact> = all.filter(about).collect();
    if due.iter().copied().eq(&told.facts) {
        return Ok(());
    }
    Err(format!(
        "entry {}: told {:?}, where {due:?} happened",
        told.cursor, told.facts
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::story::Story;

    /// Entries 1, 3 and 4 are about `r/`, entry 2 is not.
    fn story() -> Story {
        Story::default()
            .logged_grant("r/1", "a", 0, 1)
            .logged_grant("s", "b", 0, 2)
            .logged_release("r/1", 1)
            .logged_place("r/2", "c", 0, 1)
    }

    fn fact(kind: &str, resource: &str, holder: &str, token: u64) -> Fact {
        let is = |one: &str| kind == one;
        Fact {
            kind: kind.into(),
            resource: resource.into(),
            holder: holder.into(),
            token,
            position: u32::from(is("queued")),
            lease_ms: if is("granted") { 1_000 } else { 0 },
            after_wait: false,
        }
    }

    fn granted() -> Fact {
        fact("granted", "r/1", "a", 1)
    }

    fn released() -> Fact {
        fact("released", "r/1", "", 1)
    }

    fn verdict(after: u64, told: Vec<(u64, Vec<Fact>)>) -> Verdict {
        let told = told.into_iter().map(|(cursor, facts)| Told {
            cursor,
            facts,
            ..Told::default()
        });
        let watched = Watched {
            prefix: "r/".into(),
            after,
            told: told.collect(),
            ..Watched::default()
        };
        let mut evidence = story().evidence();
        evidence.watched.push(watched);
        check(&evidence)
    }

    fn broken(after: u64, told: Vec<(u64, Vec<Fact>)>) -> bool {
        matches!(verdict(after, told), Verdict::Broken(_))
    }

    #[test]
    fn fires_on_a_gap_before_an_event_and_before_a_mark_of_progress() {
        assert!(broken(0, vec![(3, vec![released()])]));
        assert!(broken(0, vec![(1, vec![granted()]), (4, vec![])]));
        assert!(broken(1, vec![(3, vec![])]));
    }

    #[test]
    fn fires_on_an_event_that_is_told_twice_or_out_of_order() {
        let twice = vec![(1, vec![granted()]), (1, vec![granted()])];
        assert!(broken(0, twice));
        let back = vec![
            (1, vec![granted()]),
            (3, vec![released()]),
            (1, vec![granted()]),
        ];
        assert!(broken(0, back));
    }

    #[test]
    fn fires_on_an_event_that_did_not_happen_or_is_about_something_else() {
        assert!(broken(0, vec![(1, vec![fact("granted", "r/1", "x", 1)])]));
        assert!(broken(1, vec![(2, vec![fact("granted", "s", "b", 2)])]));
        assert!(broken(0, vec![(1, vec![])]));
    }

    #[test]
    fn is_unknown_where_the_log_has_a_hole() {
        let hole = r#"{"kind":"entry","term":1,"index":3,"hash":"h"}"#;
        let mut evidence = Story::default().evidence_with([hole, hole, hole]);
        evidence.watched.push(Watched::default());
        assert_eq!(check(&evidence), Verdict::Holds(0));
        evidence.watched[0].told.push(Told {
            cursor: 3,
            ..Told::default()
        });
        assert!(matches!(check(&evidence), Verdict::Unknown(_)));
    }

    #[test]
    fn passes_all_events_in_order_with_marks_between() {
        let told = vec![
            (1, vec![granted()]),
            (2, vec![]),
            (2, vec![]),
            (3, vec![released()]),
            (4, vec![fact("queued", "r/2", "c", 0)]),
            (9, vec![]),
        ];
        assert_eq!(verdict(0, told), Verdict::Holds(3));
        assert_eq!(verdict(3, vec![(3, vec![])]), Verdict::Holds(0));
    }
}
