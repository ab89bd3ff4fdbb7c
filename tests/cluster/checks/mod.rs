//! The checks: each a named property that a run's evidence must show, each in a file of its own with
//! a synthetic history that makes it fire and one that it lets pass.
//!
//! A check has three verdicts. One that could not be judged (a hole in the record, too little
//! happened) is *unknown*, and an unknown verdict fails a run like a broken one: a run that proves
//! nothing must not be green.

mod fenced_register;
mod fifo;
mod hash;
mod honest;
mod lin;
mod mutex_lease;
mod no_early;
mod no_late;
mod no_lost_grant;
mod recovery;
mod sometimes;
#[cfg(test)]
mod story;
mod timeline;
mod token_rt;
mod token_uniq;
mod watch;

use std::{collections::HashMap, fmt, time::Duration};

use self::timeline::Timeline;
use crate::history::{
    Call, Moment, Operation, applied::AppliedLog, audit::NodeAudit, watched::Watched,
};

/// Looks at all there is, and says what it found.
pub(crate) type Check = fn(&Evidence) -> Verdict;

/// Every check by the name that it prints.
pub(crate) const CHECKS: [(&str, Check); 14] = [
    ("TOKEN-RT", token_rt::check),
    ("TOKEN-UNIQ", token_uniq::check),
    ("LIN", lin::check),
    ("MUTEX-LEASE", mutex_lease::check),
    ("NO-EARLY", no_early::check),
    ("NO-LATE", no_late::check),
    ("NO-LOST-GRANT", no_lost_grant::check),
    ("FENCED-REGISTER", fenced_register::check),
    ("FIFO", fifo::check),
    ("HONEST", honest::check),
    ("HASH", hash::check),
    ("WATCH", watch::check),
    ("RECOVERY", recovery::check),
    ("SOMETIMES", sometimes::check),
];

/// What a check says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing against it was found in this many facts.
    Holds(usize),
    /// Each violation in a sentence.
    Broken(Vec<String>),
    /// Why it could not be judged.
    Unknown(String),
}

/// Everything that is known about a run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) operations: Vec<Operation>,
    pub(crate) audits: Vec<NodeAudit>,
    pub(crate) applied: AppliedLog,
    /// When its entries were applied, as far as the operations tell.
    pub(crate) timeline: Timeline,
    /// All grants: those that were answered, and those that only the applied log tells of.
    pub(crate) grants: Vec<Grant>,
    /// What watchers were told.
    pub(crate) watched: Vec<Watched>,
    pub(crate) facts: Facts,
}

/// What the harness itself knows about the run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// When the last fault was healed.
    pub(crate) healed: Option<Moment>,
    /// The resources that must be granted again after that.
    pub(crate) resources: Vec<String>,
    /// How long that may take, beside what is left of a live lease.
    pub(crate) recovery_bound: Duration,
    /// What needed a hand to come back, which nothing may.
    pub(crate) needed_a_hand: Vec<String>,
    /// What must have happened for the run to prove anything.
    pub(crate) sometimes: Vec<Sometime>,
}

/// Something that must have happened at least so often.
#[derive(Clone, Debug)]
pub(crate) struct Sometime {
    pub(crate) what: &'static str,
    pub(crate) times: u64,
    pub(crate) at_least: u64,
}

/// One grant, from both records.
#[derive(Clone, Debug)]
pub(crate) struct Grant {
    pub(crate) token: u64,
    pub(crate) resource: String,
    pub(crate) holder: String,
    pub(crate) request_id: String,
    /// The first send of its request id; `None` if the harness never asked for it.
    pub(crate) sent: Option<Moment>,
    /// When its answer was there; `None` for a grant that only the applied log tells of.
    pub(crate) returned: Option<Moment>,
    /// How long the holder may rely on the grant's own answer; `None` if it may not (after waiting,
    /// or replayed, or never answered).
    pub(crate) relied_on: Option<Duration>,
}

impl Evidence {
    pub(crate) fn new(
        mut operations: Vec<Operation>,
        audits: Vec<NodeAudit>,
        facts: Facts,
    ) -> Self {
        let applied = AppliedLog::merge(&audits);
        name_requests(&mut operations, &applied);
        let grants = all_grants(&operations, &applied);
        let timeline = Timeline::of(&operations, &applied);
        Self {
            operations,
            audits,
            applied,
            timeline,
            grants,
            watched: Vec::new(),
            facts,
        }
    }

    /// What one check says.
    pub(crate) fn verdict(&self, name: &str) -> Verdict {
        let found = CHECKS.iter().find(|(one, _)| *one == name);
        let (_, check) = found.unwrap_or_else(|| panic!("there is no check {name}"));
        check(self)
    }

    /// Runs every check, prints its verdict, and says whether all of them hold.
    pub(crate) fn judge(&self) -> bool {
        CHECKS.iter().fold(true, |green, (name, check)| {
            let verdict = check(self);
            println!("{name:<16} {verdict}");
            green && matches!(verdict, Verdict::Holds(_))
        })
    }
}

impl Verdict {
    /// Broken if there is anything in `violations`, else it holds in `judged` facts.
    fn of(judged: usize, violations: Vec<String>) -> Self {
        if violations.is_empty() {
            Self::Holds(judged)
        } else {
            Self::Broken(violations)
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Holds(judged) => write!(f, "none violated in {judged}"),
            Self::Unknown(why) => write!(f, "UNKNOWN: {why}"),
            Self::Broken(violations) => {
                write!(f, "BROKEN {} times:", violations.len())?;
                violations
                    .iter()
                    .take(20)
                    .try_for_each(|one| write!(f, "\n    {one}"))
            }
        }
    }
}

/// The client library makes its request ids itself. Those who use it here ask each time in another
/// holder's name, by which the log tells the id; one that the log does not know had no effect.
fn name_requests(operations: &mut [Operation], applied: &AppliedLog) {
    let mut known: HashMap<(&str, &str), &str> = HashMap::new();
    for (_, event) in &applied.events {
        if matches!(event.event.as_str(), "queued" | "granted") {
            known.insert((&event.resource, &event.holder), &event.request_id);
        }
    }
    for op in operations {
        let resource = op.resource.as_str();
        if let Call::Acquire {
            holder, request_id, ..
        } = &mut op.call
            && request_id.is_empty()
        {
            let found = known.get(&(resource, holder.as_str()));
            *request_id =
                found.map_or_else(|| format!("{holder} for {resource}"), |id| (*id).to_owned());
        }
    }
}

/// Answered grants first, then what the log knows beyond them. An operation that stayed unknown and
/// stands in the log after all is a grant with a known send and no return.
fn all_grants(operations: &[Operation], applied: &AppliedLog) -> Vec<Grant> {
    let asked: HashMap<&str, &Operation> = operations
        .iter()
        .filter_map(|op| Some((op.request_id()?, op)))
        .collect();
    let answered = operations.iter().filter_map(|op| {
        let (
            granted,
            Call::Acquire {
                holder,
                request_id,
                ttl,
                ..
            },
        ) = (op.granted()?, &op.call)
        else {
            return None;
        };
        Some(Grant {
            token: granted.token,
            resource: op.resource.clone(),
            holder: holder.clone(),
            request_id: request_id.clone(),
            sent: Some(op.sent),
            returned: op.returned,
            relied_on: (!granted.start_unknown).then_some(*ttl),
        })
    });
    let logged = applied.grants.iter().filter_map(|logged| {
        let asked = asked.get(logged.request_id.as_str());
        let answered =
            asked.is_some_and(|op| op.granted().is_some_and(|g| g.token == logged.token));
        (!answered).then(|| Grant {
            token: logged.token,
            resource: logged.resource.clone(),
            holder: logged.holder.clone(),
            request_id: logged.request_id.clone(),
            sent: asked.map(|op| op.sent),
            returned: None,
            relied_on: None,
        })
    });
    answered.chain(logged).collect()
}
