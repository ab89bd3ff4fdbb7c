//! What must hold whatever happens in a world. It looks at commands, outcomes and events alone, as a
//! watcher of the log could, and keeps its own idea of who waits for what.

use std::collections::{BTreeMap, BTreeSet};

use fencepost::grant::{EndedHow, LeftHow};
use fencepost::issuer::{
    Acquire, AcquireOutcome, Command, Event, Leaving, Outcome, PromoteOutcome, RequestKey,
    WithdrawOutcome,
};
use fencepost::resource::{Holder, ResourceName};
use fencepost::token::TokenValue;

/// How late something may be in calm weather, beside the margin of the clocks.
const LATE_US: u64 = 500_000;

/// An entry that is being committed, and when what it carries was sent.
pub(super) struct Entry<'a> {
    pub(super) now: u64,
    pub(super) sent: u64,
    pub(super) command: &'a Command,
    pub(super) outcome: &'a Outcome,
    pub(super) events: &'a [Event],
}

/// What is known of a live grant: whose it is, and its last start.
struct Start {
    resource: ResourceName,
    /// Ticks of its holder's clock in a million true microseconds.
    ppm: u64,
    /// The holder knows a start that it may count from. It does not after waiting, before it claims.
    known: bool,
    sent: u64,
    applied: u64,
    lease_us: u64,
}

struct Place {
    request: RequestKey,
    queued: u64,
    wait_us: u64,
    attempt: u32,
}

#[derive(Default)]
pub(super) struct Checks {
    starts: BTreeMap<TokenValue, Start>,
    held: BTreeMap<ResourceName, TokenValue>,
    lines: BTreeMap<ResourceName, Vec<Place>>,
    free_since: BTreeMap<ResourceName, u64>,
    last: Option<TokenValue>,
    granted: BTreeSet<RequestKey>,
    /// Requests of which somebody was told that they will not be granted.
    closed: BTreeSet<RequestKey>,
    /// How often what happened.
    pub(super) seen: BTreeMap<&'static str, u64>,
}

type Checked = Result<(), String>;

fn fires(check: &str, what: impl std::fmt::Display) -> Checked {
    Err(format!("{check}: {what}"))
}

impl Checks {
    pub(super) fn entry(&mut self, entry: &Entry<'_>, ppm: impl Fn(&Holder) -> u64) -> Checked {
        let grants = entry.events.iter();
        let grants = grants.filter(|event| matches!(event, Event::Granted { .. }));
        let last = entry.events.last();
        let at_the_end = matches!(last, Some(Event::Granted { .. }));
        if grants.count() > usize::from(at_the_end) {
            return fires(
                "ONE-TOKEN",
                "an entry has a grant that is not its last event",
            );
        }
        for event in entry.events {
            self.event(entry, event, &ppm)?;
        }
        self.hand_over(entry)?;
        self.told(entry);
        Ok(())
    }

    pub(super) fn is_closed(&self, request: &RequestKey) -> bool {
        self.closed.contains(request)
    }

    fn count(&mut self, what: &'static str) {
        *self.seen.entry(what).or_default() += 1;
    }

    fn event(&mut self, entry: &Entry<'_>, event: &Event, ppm: impl Fn(&Holder) -> u64) -> Checked {
        match event {
            Event::Granted { holder, .. } => self.granted(entry, event, ppm(holder)),
            Event::Renewed { token, ttl, .. } => {
                let Some(start) = self.starts.get_mut(&token.value()) else {
                    return fires("RENEW", "a renewal of what has ended");
                };
                (start.sent, start.applied, start.known) = (entry.sent, entry.now, true);
                start.lease_us = ttl.as_ms() * 1_000;
                Ok(())
            }
            Event::Ended { token, how, .. } => {
                self.count(how.as_str());
                if matches!(entry.command, Command::Withdraw(_)) {
                    return fires("WITHDRAW", format!("it ended the grant {token}"));
                }
                let Some(start) = self.starts.remove(&token.value()) else {
                    return fires("EXCLUSIVE", format!("{token} ended twice"));
                };
                self.held.remove(&start.resource);
                self.free_since.insert(start.resource.clone(), entry.now);
                if *how == EndedHow::Expired {
                    return self.in_time(entry.now, token.value(), &start);
                }
                Ok(())
            }
            Event::Queued { .. } => self.queued(entry.now, event),
            Event::Left { .. } => self.left(entry, event),
            Event::FloorRaised { .. } | Event::Admitted { .. } => Ok(()),
        }
    }

    fn granted(&mut self, entry: &Entry<'_>, event: &Event, ppm: u64) -> Checked {
        let Event::Granted {
            resource,
            token,
            lease,
            request,
            after_wait,
            ..
        } = event
        else {
            return Ok(());
        };
        let token = token.value();
        if self.last.is_some_and(|last| last >= token) {
            return fires("TOKEN-RT", format!("{token} after {:?}", self.last));
        }
        self.last = Some(token);
        if self.closed.contains(request) {
            return fires("HONEST", format!("{request} was refused, and has {token}"));
        }
        if !self.granted.insert(*request) {
            return fires("ONCE", format!("{request} is granted a second time"));
        }
        if self.held.insert(resource.clone(), token).is_some() {
            return fires("EXCLUSIVE", format!("{resource} has two grants"));
        }
        self.free_since.remove(resource);
        if *after_wait {
            self.count("granted after waiting");
            let line = self.lines.entry(resource.clone()).or_default();
            if line.first().is_none_or(|first| first.request != *request) {
                return fires("FIFO", format!("{request} was granted, and was not next"));
            }
            line.remove(0);
        } else if self
            .lines
            .get(resource)
            .is_some_and(|line| !line.is_empty())
        {
            let ended = entry.events.first();
            let own = matches!(
                ended,
                Some(
                    Event::Ended {
                        how: EndedHow::Superseded,
                        ..
                    } | Event::Left {
                        how: LeftHow::Superseded,
                        ..
                    }
                )
            );
            if !own {
                return fires("FIFO", format!("{request} was granted past a queue"));
            }
        }
        let start = Start {
            resource: resource.clone(),
            ppm,
            known: !after_wait,
            sent: entry.sent,
            applied: entry.now,
            lease_us: lease.as_ms() * 1_000,
        };
        self.starts.insert(token, start);
        Ok(())
    }

    fn queued(&mut self, now: u64, event: &Event) -> Checked {
        let Event::Queued {
            resource,
            request,
            attempt,
            position,
            wait_ms,
            ..
        } = event
        else {
            return Ok(());
        };
        self.count("queued");
        let line = self.lines.entry(resource.clone()).or_default();
        let at = *position as usize - 1;
        if at > line.len() {
            return fires("FIFO", format!("{request} stands behind the end"));
        }
        let place = Place {
            request: *request,
            queued: now,
            wait_us: u64::from(*wait_ms) * 1_000,
            attempt: *attempt,
        };
        line.insert(at, place);
        Ok(())
    }

    fn left(&mut self, entry: &Entry<'_>, event: &Event) -> Checked {
        let Event::Left {
            resource,
            request,
            how,
            ..
        } = event
        else {
            return Ok(());
        };
        self.closed.insert(*request);
        let line = self.lines.entry(resource.clone()).or_default();
        let at = line.iter().position(|place| place.request == *request);
        let Some(place) = at.map(|at| line.remove(at)) else {
            return fires("FIFO", format!("{request} left, and was not in line"));
        };
        self.count(match how {
            LeftHow::Withdrawn => "withdrawn",
            LeftHow::WaitedOut => "waited out",
            LeftHow::Superseded => "place superseded",
            LeftHow::Detached => "detached",
        });
        match (how, entry.command) {
            (LeftHow::WaitedOut, _) => {
                let earliest = place.queued + place.wait_us * 999 / 1_000;
                if entry.now < earliest {
                    return fires("NO-EARLY", format!("{request} waited too short"));
                }
            }
            (LeftHow::Withdrawn | LeftHow::Detached, Command::Withdraw(withdraw)) => {
                let of = |leaving: &&Leaving| leaving.request == *request;
                let attempt = withdraw.places.iter().find(of).map(|of| of.attempt);
                if attempt.is_none_or(|attempt| attempt < place.attempt) {
                    return fires("FAIR", format!("{request} left, and had come back"));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// An entry that ended one grant, and had nothing else to do, gives the resource on.
    fn hand_over(&mut self, entry: &Entry<'_>) -> Checked {
        let mut ended = entry.events.iter().filter_map(|event| match event {
            Event::Ended { resource, .. } => Some(resource),
            _ => None,
        });
        let (Some(resource), None) = (ended.next(), ended.next()) else {
            return Ok(());
        };
        let waits = self
            .lines
            .get(resource)
            .is_some_and(|line| !line.is_empty());
        if waits && !self.held.contains_key(resource) {
            return fires("HAND-OVER", format!("{resource} is free, and has a queue"));
        }
        Ok(())
    }

    /// What callers were told for good.
    fn told(&mut self, entry: &Entry<'_>) {
        match (entry.command, entry.outcome) {
            (Command::Acquire(acquire), Outcome::Acquire(outcome)) => {
                self.answered(acquire, outcome);
            }
            (Command::Withdraw(withdraw), Outcome::Withdraw(each)) => {
                for (leaving, outcome) in withdraw.places.iter().zip(each) {
                    if *outcome == WithdrawOutcome::Marked {
                        self.count("marked");
                        // No caller here sends a request again that it has withdrawn.
                        self.closed.insert(leaving.request);
                    }
                }
            }
            (Command::Promote(_), Outcome::Promote(PromoteOutcome::Granted { .. })) => {
                self.count("promoted");
            }
            _ => {}
        }
    }

    fn answered(&mut self, acquire: &Acquire, outcome: &AcquireOutcome) {
        match outcome {
            AcquireOutcome::Queued { replayed: true, .. } => {
                let line = self.lines.entry(acquire.resource.clone()).or_default();
                for place in line.iter_mut() {
                    if place.request == acquire.request && acquire.attempt > place.attempt {
                        place.attempt = acquire.attempt;
                    }
                }
                self.count("came back");
            }
            AcquireOutcome::Held { .. }
            | AcquireOutcome::Left { .. }
            | AcquireOutcome::TooManyGrants { .. }
            | AcquireOutcome::TooManyWaiters { .. }
            | AcquireOutcome::TooManyGrantsOfHolder { .. } => {
                self.closed.insert(acquire.request);
            }
            AcquireOutcome::TooOld => self.count("too old"),
            AcquireOutcome::Ended { .. } => self.count("late copy"),
            _ => {}
        }
    }

    /// The holder's own deadline counts from the send, on its own clock. One that has not claimed its
    /// grant believes in nothing yet, but has the time to claim it.
    fn in_time(&self, now: u64, token: TokenValue, start: &Start) -> Checked {
        let deadline = match start.known {
            true => start.sent + start.lease_us * 1_000_000 / start.ppm,
            false => start.applied + start.lease_us,
        };
        if now < deadline {
            let early = deadline - now;
            return fires("NO-EARLY", format!("{token} ended {early} us early"));
        }
        Ok(())
    }

    /// In calm weather nothing is late: no lease, no wait, and no free resource with a queue.
    pub(super) fn late(&self, now: u64) -> Checked {
        let latest = |since: u64, lasts: u64| since + lasts * 1_003 / 1_000 + LATE_US;
        for (token, start) in &self.starts {
            if now > latest(start.applied, start.lease_us) {
                return fires("NO-LATE", format!("{token} should have ended"));
            }
        }
        for (resource, line) in &self.lines {
            let overdue = line
                .iter()
                .find(|place| now > latest(place.queued, place.wait_us));
            if let Some(place) = overdue {
                return fires("NO-LATE", format!("{} waits too long", place.request));
            }
            let free = self.free_since.get(resource).copied();
            if !line.is_empty() && free.is_some_and(|since| now > latest(since, 0)) {
                return fires("NO-LATE", format!("{resource} is free, and has a queue"));
            }
        }
        Ok(())
    }
}
