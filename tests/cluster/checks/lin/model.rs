//! The sequential model: one fenced mutex with leases and a queue, as a caller may think of it.
//!
//! A step takes a state and something that happened, and gives the state after it, or nothing if it
//! cannot have happened there. Time enters in one place: a state knows from when on its lease may run
//! out, which is the send of whatever set it last, plus what that set it to.

use std::time::Duration;

use crate::history::Moment;

/// A holder or a place in the queue, by a number of the history's own.
pub(super) type Number = u32;

/// Something that happened at one point in time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// A free resource, or the holder's own, is granted at once.
    Grant {
        token: u64,
        holder: Number,
        lease: Duration,
    },
    /// A holder takes a place at the end of the queue, or takes over its own.
    Join {
        place: Number,
        holder: Number,
    },
    /// The head of the queue is granted the resource.
    Take {
        place: Number,
        token: u64,
        holder: Number,
        lease: Duration,
    },
    /// A place ends without a grant.
    Leave {
        place: Number,
    },
    /// A caller is told who holds it.
    Held {
        by: u64,
    },
    /// A reader is told who holds it, if anybody does.
    Seen(Option<u64>),
    Renew {
        token: u64,
        lease: Duration,
    },
    /// A renewal, a release or a revocation is told that the grant is none any more.
    NotLive {
        token: u64,
    },
    /// Again, too: a release that is repeated says the same.
    Release {
        token: u64,
    },
    Revoke {
        token: u64,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct State {
    holding: Option<Holding>,
    /// While nobody holds it: since when at the earliest.
    free_from: Moment,
    /// Places and whose they are, the head first.
    queue: Vec<(Number, Number)>,
    pub(super) last_token: u64,
    /// Ended grants that somebody may still ask about.
    ended: Vec<(u64, Ended)>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Holding {
    token: u64,
    holder: Number,
    /// From when on its lease may have run out.
    may_expire: Moment,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Ended {
    Released,
    Revoked,
    Otherwise,
}

impl State {
    /// The state after `act` of a call that was sent at `sent`; `None` if it cannot have happened.
    pub(super) fn step(&self, act: &Act, sent: Moment) -> Option<Self> {
        match *act {
            Act::Grant {
                token,
                holder,
                lease,
            } => self.grant(token, holder, sent + lease),
            Act::Join { place, holder } => self.join(place, holder),
            Act::Take {
                place,
                token,
                holder,
                lease,
            } => self.take(place, token, holder, sent, lease),
            Act::Leave { place } => {
                let mut after = self.clone();
                after.queue.retain(|(one, _)| *one != place);
                Some(after)
            }
            Act::Held { by } => self.unchanged_if(self.holder_of(by).is_some()),
            Act::Seen(by) => self.unchanged_if(self.holding.as_ref().map(|h| h.token) == by),
            Act::NotLive { token } => {
                let issued = token <= self.last_token;
                self.unchanged_if(issued && self.holder_of(token).is_none())
            }
            Act::Renew { token, lease } => {
                self.holder_of(token)?;
                let mut after = self.clone();
                after.holding.as_mut()?.may_expire = sent + lease;
                Some(after)
            }
            Act::Release { token } => self.end(token, Ended::Released, sent),
            Act::Revoke { token } => self.end(token, Ended::Revoked, sent),
        }
    }

    /// The state after its lease has run out, if it may have by `now`.
    pub(super) fn expired(&self, now: Moment) -> Option<Self> {
        let holding = self.holding.as_ref().filter(|h| h.may_expire <= now)?;
        Some(self.without_holder(Ended::Otherwise, holding.may_expire))
    }

    /// Forgets how grants ended that nobody asks about any more.
    pub(super) fn forget(&mut self, asked_about: impl Fn(u64) -> bool) {
        self.ended.retain(|(token, _)| asked_about(*token));
    }

    fn unchanged_if(&self, so: bool) -> Option<Self> {
        so.then(|| self.clone())
    }

    fn holder_of(&self, token: u64) -> Option<Number> {
        let holding = self.holding.as_ref().filter(|h| h.token == token)?;
        Some(holding.holder)
    }

    fn without_holder(&self, how: Ended, free_from: Moment) -> Self {
        let mut after = self.clone();
        if let Some(was) = after.holding.take() {
            after.ended.push((was.token, how));
            after.free_from = free_from;
        }
        after
    }

    fn holding(&self, token: u64, holder: Number, may_expire: Moment) -> Option<Self> {
        if token <= self.last_token {
            return None;
        }
        let mut after = self.without_holder(Ended::Otherwise, self.free_from);
        after.last_token = token;
        after.holding = Some(Holding {
            token,
            holder,
            may_expire,
        });
        Some(after)
    }

    fn grant(&self, token: u64, holder: Number, may_expire: Moment) -> Option<Self> {
        let mut after = self.holding(token, holder, may_expire)?;
        match (&self.holding, self.queue.first()) {
            (Some(before), _) if before.holder == holder => {}
            (Some(_), _) => return None,
            (None, None) => {}
            // It took over its own place at the head, in the very entry that grants to the head.
            (None, Some((_, head))) if *head == holder => {
                after.queue.remove(0);
            }
            (None, Some(_)) => return None,
        }
        Some(after)
    }

    fn join(&self, place: Number, holder: Number) -> Option<Self> {
        let mut after = self.clone();
        if let Some(own) = after.queue.iter_mut().find(|(_, whose)| *whose == holder) {
            own.0 = place;
            return Some(after);
        }
        let waits = match &self.holding {
            Some(before) => before.holder != holder,
            None => !self.queue.is_empty(),
        };
        after.queue.push((place, holder));
        waits.then_some(after)
    }

    fn take(
        &self,
        place: Number,
        token: u64,
        holder: Number,
        sent: Moment,
        lease: Duration,
    ) -> Option<Self> {
        if self.holding.is_some() || self.queue.first() != Some(&(place, holder)) {
            return None;
        }
        let began = sent.max(self.free_from);
        let mut after = self.holding(token, holder, began + lease)?;
        after.queue.remove(0);
        Some(after)
    }

    fn end(&self, token: u64, how: Ended, sent: Moment) -> Option<Self> {
        if self.holder_of(token).is_some() {
            return Some(self.without_holder(how, sent));
        }
        self.unchanged_if(self.ended.contains(&(token, how)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::story::ms;

    fn after(acts: &[Act]) -> Option<State> {
        let first = Some(State::default());
        acts.iter()
            .fold(first, |state, act| state?.step(act, ms(100)))
    }

    fn grant(token: u64, holder: Number) -> Act {
        let lease = ms(1_000);
        Act::Grant {
            token,
            holder,
            lease,
        }
    }

    fn take(place: Number, token: u64, holder: Number) -> Act {
        let lease = ms(500);
        Act::Take {
            place,
            token,
            holder,
            lease,
        }
    }

    #[test]
    fn another_holder_is_granted_only_after_the_end() {
        assert_eq!(after(&[grant(1, 1), grant(2, 2)]), None);
        assert!(after(&[grant(1, 1), Act::Release { token: 1 }, grant(2, 2)]).is_some());
        let held = after(&[grant(1, 1)]).unwrap();
        assert_eq!(held.expired(ms(1_099)), None);
        let free = held.expired(ms(1_100)).unwrap();
        assert!(free.step(&grant(2, 2), ms(1_100)).is_some());
    }

    #[test]
    fn a_token_never_falls_and_a_renewal_moves_the_end() {
        assert_eq!(after(&[grant(2, 1), grant(1, 1)]), None);
        let lease = ms(5_000);
        let renewed = after(&[grant(2, 1), Act::Renew { token: 2, lease }]).unwrap();
        assert_eq!(renewed.expired(ms(5_099)), None);
        assert!(renewed.expired(ms(5_100)).is_some());
        let late = after(&[
            grant(2, 1),
            Act::Release { token: 2 },
            Act::Renew { token: 2, lease },
        ]);
        assert_eq!(late, None);
    }

    #[test]
    fn the_queue_is_served_from_its_head_and_nobody_passes_it() {
        let join = |place, holder| Act::Join { place, holder };
        let line = [
            grant(1, 1),
            join(1, 2),
            join(2, 3),
            Act::Release { token: 1 },
        ];
        let line = after(&line).unwrap();
        assert_eq!(line.step(&take(2, 2, 3), ms(100)), None);
        assert_eq!(line.step(&grant(2, 4), ms(100)), None);
        let head = line.step(&take(1, 2, 2), ms(50)).unwrap();
        // Its lease began when the resource was free, not when it asked.
        assert_eq!(head.expired(ms(599)), None);
        assert!(head.expired(ms(600)).is_some());
        // Whoever left is not in the way.
        let left = line.step(&Act::Leave { place: 1 }, ms(100)).unwrap();
        assert!(left.step(&take(2, 2, 3), ms(100)).is_some());
        // Nobody queues for what is free.
        assert_eq!(after(&[join(1, 2)]), None);
    }

    #[test]
    fn what_callers_are_told_fits_the_state() {
        let told = |act: Act| after(&[grant(1, 1), Act::Release { token: 1 }, grant(2, 2), act]);
        assert!(told(Act::Held { by: 2 }).is_some());
        assert_eq!(told(Act::Held { by: 1 }), None);
        assert!(told(Act::Seen(Some(2))).is_some());
        assert_eq!(told(Act::Seen(None)), None);
        assert!(told(Act::NotLive { token: 1 }).is_some());
        assert_eq!(told(Act::NotLive { token: 2 }), None);
        assert!(told(Act::Release { token: 1 }).is_some());
        assert_eq!(told(Act::Revoke { token: 1 }), None);
    }
}
