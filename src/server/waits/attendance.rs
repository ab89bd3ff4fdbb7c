//! The leader's memory of who is still there.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use crate::{issuer::RequestKey, server::raft::Attached};

/// A place that nobody vouched for during this time is given up: four times in a row.
pub(super) const DETACHED_AFTER: Duration = Duration::from_secs(2);

/// Who was there when. Forgotten with the office: a new count begins with everybody being there.
#[derive(Debug, Default)]
pub(super) struct Attendance {
    seen: HashMap<RequestKey, Seen>,
}

/// When a place was last known to have somebody.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// The highest attempt that is known of. What is said about a lower one is old: its caller has come
    /// back since.
    attempt: u32,
    at: Instant,
}

impl Attendance {
    /// Some node has an open call for each of these.
    pub(super) fn vouched(&mut self, places: &[Attached], now: Instant) {
        for place in places {
            self.see(*place, now);
        }
    }

    fn see(&mut self, place: Attached, now: Instant) {
        let attempt = place.attempt;
        let fresh = Seen { attempt, at: now };
        let seen = self.seen.entry(place.request).or_insert(fresh);
        if attempt >= seen.attempt {
            *seen = fresh;
        }
    }

    /// Which of all places in queues nobody has vouched for during [`DETACHED_AFTER`]. A place that is
    /// seen for the first time, or with a higher attempt than before, has somebody now: the call that
    /// brought it.
    pub(super) fn absent(
        &mut self,
        places: impl IntoIterator<Item = Attached>,
        now: Instant,
    ) -> Vec<Attached> {
        let mut absent = Vec::new();
        for place in places {
            match self.seen.get(&place.request) {
                Some(seen) if seen.attempt >= place.attempt => {
                    if is_over(seen.at, now) {
                        absent.push(place);
                    }
                }
                Some(_) | None => self.see(place, now),
            }
        }
        let still = absent.len();
        // Left, granted, or told of before it was in line and never came: forgotten after the same time.
        // Those that are absent are kept until they are gone from the queue, or they would be new again.
        if self.seen.len() > still {
            let kept: std::collections::HashSet<_> = absent.iter().map(|it| it.request).collect();
            self.seen
                .retain(|request, seen| !is_over(seen.at, now) || kept.contains(request));
        }
        absent
    }
}

fn is_over(at: Instant, now: Instant) -> bool {
    now.saturating_duration_since(at) >= DETACHED_AFTER
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::clock;

    fn place(n: u8, attempt: u32) -> Attached {
        Attached {
            request: RequestKey::from_bytes([n; 16]),
            attempt,
        }
    }

    #[test]
    fn whom_nobody_vouches_for_is_absent_after_two_seconds_and_not_before() {
        let start = clock::now();
        let at = |ms| start + Duration::from_millis(ms);
        let places = [place(1, 1), place(2, 1)];
        let mut attendance = Attendance::default();
        assert!(attendance.absent(places, at(0)).is_empty(), "a new count");
        attendance.vouched(&[place(1, 1)], at(500));
        assert!(attendance.absent(places, at(1_999)).is_empty());
        assert_eq!(attendance.absent(places, at(2_000)), [place(2, 1)]);
        assert_eq!(attendance.absent(places, at(2_499)), [place(2, 1)]);
        assert_eq!(attendance.absent(places, at(2_500)).len(), 2);
        assert_eq!(attendance.absent(places, at(9_000)).len(), 2, "still");
    }

    #[test]
    fn a_place_that_was_come_back_to_has_somebody_again() {
        let start = clock::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut attendance = Attendance::default();
        attendance.absent([place(1, 1)], at(0));
        assert!(attendance.absent([place(1, 2)], at(2_500)).is_empty());
        // A node that has not noticed yet that its caller left says nothing about the new attempt.
        attendance.vouched(&[place(1, 1)], at(4_000));
        assert_eq!(attendance.absent([place(1, 2)], at(4_500)), [place(1, 2)]);
    }

    #[test]
    fn a_vouch_may_come_before_the_place_is_seen() {
        let start = clock::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut attendance = Attendance::default();
        attendance.vouched(&[place(1, 3)], at(0));
        assert!(attendance.absent([place(1, 3)], at(1_000)).is_empty());
        assert_eq!(attendance.absent([place(1, 3)], at(2_000)), [place(1, 3)]);
    }

    #[test]
    fn nobody_is_remembered_for_ever() {
        let start = clock::now();
        let mut attendance = Attendance::default();
        attendance.vouched(&[place(1, 1), place(2, 1)], start);
        attendance.absent([place(2, 1)], start + Duration::from_secs(3));
        assert_eq!(attendance.seen.len(), 1, "one left the queue");
        attendance.absent([], start + Duration::from_secs(3));
        assert!(attendance.seen.is_empty());
    }
}
