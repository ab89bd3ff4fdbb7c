//! The lines of the audit log. A reader ignores fields that it does not know; `v` rises when one
//! changes its meaning. Numbers that may pass 2^53 and hashes are strings.

use std::time::{Duration, SystemTime};

use serde_json::{Map, Value, json};

use crate::{
    grant::ClusterId,
    issuer::{Command, Event, LogId, Machine, Outcome},
    server::raft::RecordKind,
    token::TokenValue,
};

/// The version of the format.
const VERSION: u32 = 1;

/// A snapshot's line lists its grants, and its marks, only while they are few.
const LISTED_MAX: usize = 1_000;

/// What every line begins with.
pub(super) struct Head {
    at: LogId,
    hash: String,
    written: String,
}

/// Which life of which process.
pub(super) struct Life {
    pub(super) cluster: Option<ClusterId>,
    pub(super) node_id: u64,
    pub(super) boot: u64,
}

impl Head {
    pub(super) fn new(at: LogId, hash: [u8; 32], now_ms: u64) -> Self {
        let now = SystemTime::UNIX_EPOCH + Duration::from_millis(now_ms);
        Head {
            at,
            hash: hash.iter().map(|byte| format!("{byte:02x}")).collect(),
            written: humantime::format_rfc3339_millis(now).to_string(),
        }
    }

    fn line(&self, kind: &str) -> Map<String, Value> {
        let fields = [
            ("v", json!(VERSION)),
            ("kind", json!(kind)),
            ("term", json!(self.at.term)),
            ("index", json!(self.at.index)),
            ("hash", json!(self.hash)),
            ("at", json!(self.written)),
        ];
        fields
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }
}

fn push(out: &mut Vec<u8>, line: &Map<String, Value>) {
    serde_json::to_writer(&mut *out, line).expect("a map of strings goes into memory");
    out.push(b'\n');
}

/// The process began here.
pub(super) fn start(out: &mut Vec<u8>, head: &Head, life: &Life) {
    let mut line = head.line("start");
    let cluster = life.cluster.map(|cluster| cluster.to_string());
    line.insert("cluster_id".to_owned(), json!(cluster));
    line.insert("node_id".to_owned(), json!(life.node_id));
    line.insert("boot".to_owned(), json!(life.boot));
    push(out, &line);
}

/// The leader's snapshot replaced the state; the entries up to here are not in this file.
pub(super) fn snapshot(out: &mut Vec<u8>, head: &Head, machine: &Machine) {
    let mut line = head.line("snapshot");
    if machine.live_grants() <= LISTED_MAX {
        let grants = machine.grants().map(|grant| {
            json!({
                "resource": grant.resource.as_str(),
                "holder": grant.holder.as_str(),
                "token": grant.token.to_string(),
            })
        });
        line.insert("grants".to_owned(), grants.collect());
    }
    if machine.high_water_marks() <= LISTED_MAX {
        let marks = machine.marks().map(
            |(resource, token)| json!({ "resource": resource.as_str(), "token": digits(token) }),
        );
        line.insert("marks".to_owned(), marks.collect());
    }
    push(out, &line);
}

/// One applied entry.
pub(super) fn entry(out: &mut Vec<u8>, head: &Head, kind: &RecordKind) {
    let line = match kind {
        RecordKind::Blank => head.line("blank"),
        RecordKind::Members(members) => {
            let mut line = head.line("membership");
            let ids: Vec<_> = members.iter().map(|(id, _)| id).collect();
            line.insert("members".to_owned(), json!(ids));
            line
        }
        RecordKind::Command {
            command,
            outcome,
            events,
        } => {
            let mut line = head.line("entry");
            line.insert("command".to_owned(), asked(command));
            line.insert("outcome".to_owned(), answered(outcome));
            line.insert("events".to_owned(), events.iter().map(happened).collect());
            line
        }
    };
    push(out, &line);
}

fn digits(token: TokenValue) -> String {
    token.to_string()
}

/// A command, by its name and parameters.
fn asked(command: &Command) -> Value {
    let mut value = match command {
        Command::Acquire(acquire) => json!({
            "resource": acquire.resource.as_str(),
            "holder": acquire.holder.as_str(),
            "ttl_ms": acquire.ttl.as_ms(),
            "request_id": acquire.request.to_string(),
            "attempt": acquire.attempt,
            "wait_ms": acquire.wait_ms,
        }),
        Command::Renew(renew) => {
            let renewals = renew.renewals.iter().map(|renewal| match renewal.ttl {
                Some(ttl) => json!({ "token": digits(renewal.token), "ttl_ms": ttl.as_ms() }),
                None => json!({ "token": digits(renewal.token) }),
            });
            json!({ "renewals": renewals.collect::<Vec<_>>() })
        }
        Command::Release(release) => json!({ "token": digits(release.token) }),
        Command::Expire(expire) => {
            let leases = expire
                .leases
                .iter()
                .map(|lease| json!({ "token": digits(lease.token), "renewals": lease.renewals }));
            json!({ "leases": leases.collect::<Vec<_>>() })
        }
        Command::Revoke(revoke) => json!({
            "resource": revoke.resource.as_str(),
            "token": digits(revoke.token),
            "reason": revoke.reason.as_ref().map(|reason| reason.as_str()),
        }),
        Command::RaiseFloor(raise) => json!({ "above": raise.above.to_string() }),
        Command::Withdraw(withdraw) => {
            let places = withdraw.places.iter().map(|leaving| {
                json!({
                    "request_id": leaving.request.to_string(),
                    "attempt": leaving.attempt,
                })
            });
            json!({
                "how": withdraw.how.as_str(),
                "places": places.collect::<Vec<_>>(),
            })
        }
        Command::Promote(promote) => json!({ "resource": promote.resource.as_str() }),
        Command::Admit(admit) => json!({
            "resource": admit.resource.as_str(),
            "token": digits(admit.token),
            "once": admit.once,
        }),
    };
    value["op"] = json!(command.name());
    value
}

/// An outcome, by its name; a withdrawal has one more word for each of its places.
fn answered(outcome: &Outcome) -> Value {
    match outcome {
        Outcome::Withdraw(each) => {
            let places: Vec<_> = each.iter().map(|place| place.name()).collect();
            json!({ "result": outcome.name(), "places": places })
        }
        _ => json!({ "result": outcome.name() }),
    }
}

/// An event, by its name and what it is about.
fn happened(event: &Event) -> Value {
    let mut value = match event {
        Event::Granted {
            token,
            ttl,
            lease,
            request,
            after_wait,
            ..
        } => json!({
            "token": token.to_string(),
            "ttl_ms": ttl.as_ms(),
            "lease_ms": lease.as_ms(),
            "request_id": request.to_string(),
            "after_wait": after_wait,
        }),
        Event::Renewed {
            token,
            ttl,
            renewals,
            ..
        } => json!({
            "token": token.to_string(),
            "ttl_ms": ttl.as_ms(),
            "renewals": renewals,
        }),
        Event::Ended {
            token, renewals, ..
        } => json!({
            "token": token.to_string(),
            "renewals": renewals,
        }),
        Event::Queued {
            request,
            attempt,
            position,
            ttl,
            wait_ms,
            ..
        } => json!({
            "request_id": request.to_string(),
            "attempt": attempt,
            "position": position,
            "ttl_ms": ttl.as_ms(),
            "wait_ms": wait_ms,
        }),
        Event::Left { request, how, .. } => json!({
            "request_id": request.to_string(),
            "how": how.as_str(),
        }),
        Event::FloorRaised { floor } => json!({ "floor": floor.to_string() }),
        Event::Admitted { token, .. } => json!({ "token": digits(*token) }),
    };
    if let Some(resource) = event.resource() {
        value["resource"] = json!(resource.as_str());
    }
    if let Some(holder) = event.holder() {
        value["holder"] = json!(holder.as_str());
    }
    value["event"] = json!(event.name());
    value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        grant::Ttl,
        issuer::{Acquire, AcquireOutcome, Admit, AdmitOutcome, RequestKey},
        resource::{Holder, ResourceName},
        token::Token,
    };

    fn granted() -> RecordKind {
        let resource = ResourceName::new("jobs/1").unwrap();
        let holder = Holder::new("h").unwrap();
        let token = Token::new(TokenValue::new((1 << 60) + 1).unwrap(), 3, 4);
        let request = RequestKey::from_bytes([0xab; 16]);
        RecordKind::Command {
            command: Command::Acquire(Acquire {
                resource: resource.clone(),
                holder: holder.clone(),
                ttl: Ttl::default(),
                request,
                attempt: 1,
                asked_at: None,
                wait_ms: 0,
                stamped_at_ms: 5,
            }),
            outcome: Outcome::Acquire(AcquireOutcome::Granted {
                token,
                lease: Ttl::default(),
                replayed: false,
                after_wait: false,
            }),
            events: vec![Event::Granted {
                resource,
                holder,
                token,
                ttl: Ttl::default(),
                lease: Ttl::default(),
                request,
                after_wait: false,
            }],
        }
    }

    #[test]
    fn a_grant_is_one_line_with_its_token_as_a_string() {
        let mut out = Vec::new();
        let head = Head::new(LogId::new(3, 4), [0x0f; 32], 1_000);
        entry(&mut out, &head, &granted());
        assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1);
        let line: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(line["v"], 1);
        assert_eq!(line["kind"], "entry");
        assert_eq!((&line["term"], &line["index"]), (&json!(3), &json!(4)));
        assert_eq!(line["hash"], "0f".repeat(32));
        assert_eq!(line["at"], "1970-01-01T00:00:01.000Z");
        assert_eq!(line["command"]["op"], "acquire");
        assert_eq!(line["command"]["request_id"], "ab".repeat(16));
        assert_eq!(line["outcome"]["result"], "granted");
        assert_eq!(line["events"][0]["event"], "granted");
        assert_eq!(line["events"][0]["token"], "1152921504606846977");
    }

    #[test]
    fn an_admission_names_its_resource_and_no_holder() {
        let resource = ResourceName::new("door").unwrap();
        let token = TokenValue::new(70_000).unwrap();
        let admitted = RecordKind::Command {
            command: Command::Admit(Admit {
                resource: resource.clone(),
                token,
                once: true,
                stamped_at_ms: 5,
            }),
            outcome: Outcome::Admit(AdmitOutcome::Admitted),
            events: vec![Event::Admitted { resource, token }],
        };
        let mut out = Vec::new();
        let head = Head::new(LogId::new(3, 4), [0x0f; 32], 1_000);
        entry(&mut out, &head, &admitted);
        let line: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(
            line["command"],
            json!({ "op": "admit", "resource": "door", "token": "70000", "once": true })
        );
        assert_eq!(line["outcome"]["result"], "admitted");
        let events = json!([{ "event": "admitted", "resource": "door", "token": "70000" }]);
        assert_eq!(line["events"], events);
    }

    #[test]
    fn a_start_says_whose_life_it_is() {
        let mut out = Vec::new();
        let life = Life {
            cluster: Some(ClusterId::new(7)),
            node_id: 2,
            boot: 9,
        };
        start(&mut out, &Head::new(LogId::default(), [0; 32], 0), &life);
        let line: Value = serde_json::from_slice(&out).unwrap();
        assert_eq!(line["kind"], "start");
        assert_eq!(line["cluster_id"], ClusterId::new(7).to_string());
        assert_eq!((&line["node_id"], &line["boot"]), (&json!(2), &json!(9)));
    }
}
