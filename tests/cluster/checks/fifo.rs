//! FIFO: by the queue events of the log (not by when clients asked), places are granted in order,
//! unless the waiter left, ran out of time or was detached.
//!
//! Each resource's queue is replayed from its events. A place is where the log says it is; a grant from
//! the queue goes to its head; nobody who did not wait is granted past it; and what leaves a queue had
//! been in it. A holder that asks again under a new request id takes over its own place, in one entry:
//! the old one leaves as superseded and the new one stands where it stood.

use std::collections::BTreeMap;

use super::{Evidence, Verdict};
use crate::history::audit::Event;

pub(super) fn check(evidence: &Evidence) -> Verdict {
    let log = &evidence.applied;
    if let Some(hole) = log.holes.first() {
        let holes = log.holes.len();
        return Verdict::Unknown(format!(
            "{holes} entries are in no log, {hole} is the first"
        ));
    }
    let mut lines: BTreeMap<&str, Line> = BTreeMap::new();
    let (mut judged, mut violations) = (0, Vec::new());
    for (index, event) in &log.events {
        let line = lines.entry(&event.resource).or_default();
        judged += usize::from(event.event == "queued" || event.after_wait);
        if let Err(what) = line.take(*index, event) {
            violations.push(format!("entry {index}, {}: {what}", event.resource));
        }
    }
    Verdict::of(judged, violations)
}

/// One resource: who holds it, and who stands in line.
#[derive(Default)]
struct Line<'a> {
    live: Option<(u64, &'a str)>,
    places: Vec<Place<'a>>,
    /// The entry that the last event came from.
    index: u64,
}

struct Place<'a> {
    request: &'a str,
    holder: &'a str,
    /// Superseded: whoever took it over comes in the same entry.
    taken_over: bool,
}

impl<'a> Line<'a> {
    fn take(&mut self, index: u64, event: &'a Event) -> Result<(), String> {
        if index != self.index {
            self.places.retain(|place| !place.taken_over);
            self.index = index;
        }
        match event.event.as_str() {
            "queued" => self.queued(event),
            "left" => self.left(event),
            "granted" => self.granted(event),
            "released" | "expired" | "revoked" | "superseded" => {
                self.live = self.live.filter(|(token, _)| *token != event.token());
                // One that superseded itself was there all the time: nobody was passed.
                if event.event == "superseded" {
                    self.live = Some((event.token(), &event.holder));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn queued(&mut self, event: &'a Event) -> Result<(), String> {
        let place = Place {
            request: &event.request_id,
            holder: &event.holder,
            taken_over: false,
        };
        let own = |one: &Place| one.taken_over && one.holder == event.holder;
        let at = match self.places.iter().position(own) {
            Some(at) => {
                self.places[at] = place;
                at
            }
            None => {
                self.places.push(place);
                self.places.len() - 1
            }
        };
        let said = event.position as usize;
        if said == at + 1 {
            return Ok(());
        }
        Err(format!(
            "{} took place {said}, but stands at {}",
            event.holder,
            at + 1
        ))
    }

    fn left(&mut self, event: &Event) -> Result<(), String> {
        let found = self
            .places
            .iter()
            .position(|one| one.request == event.request_id && !one.taken_over);
        let Some(at) = found else {
            return Err(format!("{} left a queue that it was not in", event.holder));
        };
        if event.how == "superseded" {
            self.places[at].taken_over = true;
        } else {
            self.places.remove(at);
        }
        Ok(())
    }

    fn granted(&mut self, event: &'a Event) -> Result<(), String> {
        let (before, holder) = (self.live, event.holder.as_str());
        self.live = Some((event.token(), holder));
        let head = self.places.first();
        if event.after_wait {
            let is_head = head.is_some_and(|head| head.request == event.request_id);
            let stood = self
                .places
                .iter()
                .position(|p| p.request == event.request_id);
            self.places
                .retain(|place| place.request != event.request_id);
            return match stood {
                _ if is_head => Ok(()),
                Some(at) => Err(format!("{holder} was granted from place {}", at + 1)),
                None => Err(format!(
                    "{holder} was granted from a queue that it was not in"
                )),
            };
        }
        let own = before.is_some_and(|(_, holder_before)| holder_before == holder);
        let own_head = head.is_some_and(|head| head.taken_over && head.holder == holder);
        if own || own_head || head.is_none() {
            return Ok(());
        }
        let waiting = self.places.len();
        Err(format!("{holder} was granted past {waiting} who waited"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::story::Story;

    /// `a` holds, then `b` and `c` stand in line.
    fn line() -> Story {
        Story::default()
            .logged_grant("r", "a", 0, 1)
            .logged_place("r", "b", 10, 1)
            .logged_place("r", "c", 20, 2)
    }

    fn broken(story: Story) -> bool {
        matches!(check(&story.evidence()), Verdict::Broken(v) if v.len() == 1)
    }

    #[test]
    fn fires_on_a_grant_to_the_second_in_line() {
        let story = line().logged_release("r", 1);
        assert!(broken(story.logged_waited_grant("r", "c", 20, 5, 1_000)));
    }

    #[test]
    fn fires_on_a_grant_past_the_line() {
        let story = line().logged_release("r", 1);
        assert!(broken(story.logged_grant("r", "d", 40, 5)));
    }

    #[test]
    fn fires_on_a_place_in_the_middle_of_the_line() {
        assert!(broken(line().logged_place("r", "d", 30, 2)));
    }

    #[test]
    fn fires_on_a_grant_from_the_queue_to_one_who_left_it() {
        let story = line().logged_left("r", "b", 10, "withdrawn");
        let story = story.logged_release("r", 1);
        assert!(broken(story.logged_waited_grant("r", "b", 10, 6, 1_000)));
    }

    #[test]
    fn fires_on_leaving_twice() {
        let story = line().logged_left("r", "b", 10, "detached");
        assert!(broken(story.logged_left("r", "b", 10, "waited_out")));
    }

    #[test]
    fn is_unknown_when_entries_are_in_no_log() {
        let hole = r#"{"kind":"entry","term":1,"index":2,"hash":"h"}"#;
        let verdict = check(&Story::default().evidence_with([hole, hole, hole]));
        assert!(matches!(verdict, Verdict::Unknown(_)));
    }

    #[test]
    fn passes_a_line_that_is_served_in_turn_and_one_that_is_left() {
        let story = line()
            .logged_release("r", 1)
            .logged_waited_grant("r", "b", 10, 5, 1_000)
            .logged_left("r", "c", 20, "waited_out")
            .logged_release("r", 5)
            .logged_grant("r", "d", 40, 8);
        assert_eq!(check(&story.evidence()), Verdict::Holds(3));
    }

    #[test]
    fn passes_a_holder_that_asks_again_and_a_waiter_that_does() {
        let again = r#","events":[{"event":"left","resource":"r","holder":"b","request_id":"b@10","how":"superseded"},{"event":"queued","resource":"r","holder":"b","request_id":"b@30","position":1}]"#;
        let superseded = r#","events":[{"event":"superseded","resource":"r","holder":"a","token":"1"},{"event":"granted","resource":"r","holder":"a","token":"5","request_id":"a@50"}]"#;
        let story = line().logged(again).logged(superseded);
        let story = story.logged_release("r", 5);
        let story = story.logged_waited_grant("r", "b", 30, 7, 1_000);
        assert_eq!(check(&story.evidence()), Verdict::Holds(4));
    }
}
