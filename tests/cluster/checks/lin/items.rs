//! From the records of a run to the items of the search, for one resource.
//!
//! What was answered speaks for itself. What stayed unknown is resolved from the applied log first:
//! a call that stands there happened, and before the earliest answer that tells of its entry or of a
//! later one; a call that does not stand there never happened. So no unknown call stays open for ever.
//! What stands in the log without a call of the harness (the client library renews by itself) is an
//! item too, between the bounds that the timeline gives.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use super::{
    model::{Act, Number},
    search::Item,
};
use crate::{
    checks::{Evidence, timeline::Timeline},
    history::{
        Call, Moment, Operation, Outcome,
        applied::{AppliedLog, How, LoggedGrant},
    },
};

/// The lease that a grant from the queue starts with is the TTL, and at most this.
const UNCLAIMED_MAX: Duration = Duration::from_secs(2);

/// All items by resource.
pub(super) fn by_resource(evidence: &Evidence) -> BTreeMap<&str, Vec<Item>> {
    let log = Log::of(&evidence.applied);
    let mut calls: BTreeMap<&str, Vec<&Operation>> = BTreeMap::new();
    for op in &evidence.operations {
        calls.entry(&op.resource).or_default().push(op);
    }
    for grant in &evidence.applied.grants {
        calls.entry(&grant.resource).or_default();
    }
    let items = calls.into_iter().map(|(resource, calls)| {
        let mut maker = Maker {
            log: &log,
            applied: &evidence.applied,
            timeline: &evidence.timeline,
            numbers: HashMap::new(),
            items: Vec::new(),
        };
        maker.take(resource, &calls);
        (resource, maker.items)
    });
    items.collect()
}

/// The applied log, as it is asked here.
struct Log<'a> {
    by_request: HashMap<&'a str, &'a LoggedGrant>,
    by_token: HashMap<u64, &'a LoggedGrant>,
    by_resource: HashMap<&'a str, Vec<&'a LoggedGrant>>,
    /// By request id: when it took a place in the queue, and when it left it without a grant.
    queued: HashMap<&'a str, u64>,
    left: HashMap<&'a str, u64>,
}

impl<'a> Log<'a> {
    fn of(applied: &'a AppliedLog) -> Self {
        let places = |what: &'static str| {
            let events = applied.events.iter().filter(move |(_, e)| e.event == what);
            events.map(|(index, event)| (event.request_id.as_str(), *index))
        };
        let mut by_resource: HashMap<&str, Vec<&LoggedGrant>> = HashMap::new();
        for grant in &applied.grants {
            by_resource.entry(&grant.resource).or_default().push(grant);
        }
        let grants = || applied.grants.iter();
        Self {
            by_request: grants().map(|g| (g.request_id.as_str(), g)).collect(),
            by_token: grants().map(|grant| (grant.token, grant)).collect(),
            by_resource,
            queued: places("queued").collect(),
            left: places("left").collect(),
        }
    }
}

struct Maker<'a> {
    log: &'a Log<'a>,
    applied: &'a AppliedLog,
    timeline: &'a Timeline,
    numbers: HashMap<String, Number>,
    items: Vec<Item>,
}

/// What the calls on one grant came to.
#[derive(Default)]
struct Asked<'a> {
    renewed: usize,
    renewals_open: Vec<&'a Operation>,
    ends_open: Vec<&'a Operation>,
    ended: bool,
}

impl<'a> Maker<'a> {
    fn take(&mut self, resource: &str, calls: &[&'a Operation]) {
        let mut asked: BTreeMap<u64, Asked> = BTreeMap::new();
        let mut known: HashSet<u64> = HashSet::new();
        for op in calls {
            match &op.call {
                Call::Acquire { .. } => known.extend(self.acquire(op)),
                Call::Renew { token, ttl } => {
                    self.renew(op, *token, *ttl, asked.entry(*token).or_default());
                }
                Call::Release { token } => {
                    let act = Act::Release { token: *token };
                    self.end(op, *token, act, asked.entry(*token).or_default());
                }
                Call::Revoke { token } => {
                    let act = Act::Revoke { token: *token };
                    self.end(op, *token, act, asked.entry(*token).or_default());
                }
                Call::Inspect => {
                    if let Outcome::Inspected(by) = op.outcome {
                        self.answered(op, Act::Seen(by));
                    }
                }
                // A withdrawal's effect is the place's end, which its acquire tells of.
                Call::Withdraw { .. } | Call::Rely { .. } | Call::Admit { .. } => {}
            }
        }
        let logged = self.log.by_resource.get(resource).cloned();
        for grant in logged.unwrap_or_default() {
            if !known.contains(&grant.token) {
                self.grant_of_others(grant);
            }
            let asked = asked.remove(&grant.token).unwrap_or_default();
            self.renewals_from_log(grant, &asked);
            self.end_from_log(grant.token, &asked);
        }
    }

    /// The token that an acquire was granted, if it was.
    fn acquire(&mut self, op: &Operation) -> Option<u64> {
        let Call::Acquire {
            holder,
            request_id,
            ttl,
            ..
        } = &op.call
        else {
            return None;
        };
        let (holder, place) = (self.number(holder), self.number(request_id));
        let answered = op.returned.unwrap_or(Moment::MAX);
        let (token, after_wait, to) = match &op.outcome {
            Outcome::Granted(granted) => {
                // An answer that the grant is over already does not say whether it came after waiting.
                let logged = self.log.by_token.get(&granted.token);
                let after_wait = logged.is_some_and(|logged| logged.after_wait);
                (granted.token, granted.after_wait || after_wait, answered)
            }
            Outcome::Held(by) => {
                self.answered(op, Act::Held { by: *by });
                return None;
            }
            Outcome::Refused(_) | Outcome::Failed(_) => return None,
            _ => {
                let Some(logged) = self.log.by_request.get(request_id.as_str()).copied() else {
                    self.place_without_grant(op, request_id, place, holder);
                    return None;
                };
                let to = self.timeline.not_after(logged.index);
                (logged.token, logged.after_wait, to.unwrap_or(Moment::MAX))
            }
        };
        let between = (op.sent, to);
        if after_wait {
            let lease = (*ttl).min(UNCLAIMED_MAX);
            self.push(Act::Join { place, holder }, between);
            let act = Act::Take {
                place,
                token,
                holder,
                lease,
            };
            self.push(act, between);
        } else {
            let lease = *ttl;
            let act = Act::Grant {
                token,
                holder,
                lease,
            };
            self.push(act, between);
        }
        Some(token)
    }

    /// A place that the log tells of, which ended without a grant, or not at all.
    fn place_without_grant(
        &mut self,
        op: &Operation,
        request: &str,
        place: Number,
        holder: Number,
    ) {
        let Some(queued) = self.log.queued.get(request) else {
            return;
        };
        let to = self.timeline.not_after(*queued).unwrap_or(Moment::MAX);
        self.push(Act::Join { place, holder }, (op.sent, to));
        if let Some(left) = self.log.left.get(request) {
            let to = self.timeline.not_after(*left).unwrap_or(Moment::MAX);
            self.push(Act::Leave { place }, (op.sent, to));
        }
    }

    fn renew(&mut self, op: &'a Operation, token: u64, lease: Duration, asked: &mut Asked<'a>) {
        match op.outcome {
            Outcome::Renewed => {
                asked.renewed += 1;
                self.answered(op, Act::Renew { token, lease });
            }
            Outcome::Refused(_) => self.answered(op, Act::NotLive { token }),
            Outcome::Unknown(_) => asked.renewals_open.push(op),
            _ => {}
        }
    }

    fn end(&mut self, op: &'a Operation, token: u64, act: Act, asked: &mut Asked<'a>) {
        match op.outcome {
            Outcome::Released | Outcome::Revoked => {
                asked.ended = true;
                self.answered(op, act);
            }
            Outcome::Refused(_) => self.answered(op, Act::NotLive { token }),
            Outcome::Unknown(_) => asked.ends_open.push(op),
            _ => {}
        }
    }

    /// Renewals whose callers do not know that they counted. All that are open counted, or it cannot be
    /// told which ones: then they are left out, which only lets a lease end sooner.
    fn renewals_from_log(&mut self, grant: &LoggedGrant, asked: &Asked) {
        let Some(logged) = self.applied.renewals.get(&grant.token) else {
            return;
        };
        let open = asked.renewals_open.len();
        if logged.len() == asked.renewed + open {
            let last = logged.last().map_or(0, |renewal| renewal.index);
            let to = self.timeline.not_after(last).unwrap_or(Moment::MAX);
            for op in &asked.renewals_open {
                if let Call::Renew { token, ttl: lease } = op.call {
                    self.push(Act::Renew { token, lease }, (op.sent, to));
                }
            }
        } else if logged.len() > asked.renewed + open {
            for renewal in logged {
                let (token, lease) = (grant.token, renewal.ttl);
                let between = self.bounds(renewal.index);
                self.push(Act::Renew { token, lease }, between);
            }
        }
    }

    /// A release or a revocation that took effect, and that no answer tells of.
    fn end_from_log(&mut self, token: u64, asked: &Asked) {
        let (act, index) = match self.applied.ends.get(&token) {
            Some((How::Released, index)) => (Act::Release { token }, *index),
            Some((How::Revoked, index)) => (Act::Revoke { token }, *index),
            _ => return,
        };
        let (from, to) = self.bounds(index);
        let by = |op: &&&Operation| {
            matches!(op.call, Call::Release { .. }) == matches!(act, Act::Release { .. })
        };
        for op in asked.ends_open.iter().filter(by) {
            let (act, must) = (act.clone(), false);
            self.items.push(Item {
                act,
                from: op.sent,
                to,
                must,
            });
        }
        if !asked.ended && asked.ends_open.iter().filter(by).count() == 0 {
            self.push(act, (from, to));
        }
    }

    /// A grant that the harness did not ask for itself.
    fn grant_of_others(&mut self, grant: &LoggedGrant) {
        let (holder, place) = (self.number(&grant.holder), self.number(&grant.request_id));
        let (token, lease) = (grant.token, grant.lease);
        let between = self.bounds(grant.index);
        if grant.after_wait {
            let queued = self.log.queued.get(grant.request_id.as_str());
            let joined = queued.map_or(between, |index| self.bounds(*index));
            self.push(Act::Join { place, holder }, joined);
            let act = Act::Take {
                place,
                token,
                holder,
                lease,
            };
            self.push(act, between);
        } else {
            let act = Act::Grant {
                token,
                holder,
                lease,
            };
            self.push(act, between);
        }
    }

    fn bounds(&self, index: u64) -> (Moment, Moment) {
        let to = self.timeline.not_after(index).unwrap_or(Moment::MAX);
        (self.timeline.not_before(index), to)
    }

    fn answered(&mut self, op: &Operation, act: Act) {
        self.push(act, (op.sent, op.returned.unwrap_or(Moment::MAX)));
    }

    fn push(&mut self, act: Act, (from, to): (Moment, Moment)) {
        self.items.push(Item {
            act,
            from,
            to,
            must: true,
        });
    }

    fn number(&mut self, name: &str) -> Number {
        let next = Number::try_from(self.numbers.len()).expect("a run is smaller than that");
        *self.numbers.entry(name.to_owned()).or_insert(next)
    }
}
