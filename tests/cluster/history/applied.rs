//! The applied log of the whole cluster, put together from all nodes' audit logs.
//!
//! Each index counts once, whichever node wrote it and however often. That all copies of an index
//! are the same is not taken for granted: the HASH check compares them.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use super::audit::{Event, Kind, Line, NodeAudit};

/// A grant as it stands in the applied log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LoggedGrant {
    pub(crate) token: u64,
    pub(crate) index: u64,
    pub(crate) resource: String,
    pub(crate) holder: String,
    pub(crate) request_id: String,
    /// What it starts with; after waiting it is less than the TTL.
    pub(crate) lease: Duration,
    pub(crate) after_wait: bool,
}

/// A renewal that took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoggedRenewal {
    pub(crate) index: u64,
    pub(crate) ttl: Duration,
}

/// A lease that ran out, with what was applied to it before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoggedExpiry {
    pub(crate) token: u64,
    pub(crate) index: u64,
    /// The number of renewals that the expiry was computed for.
    pub(crate) renewals_seen: u64,
    /// The number of renewals that the log holds before it.
    pub(crate) renewals_applied: u64,
}

/// How a grant ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Released,
    Revoked,
    Expired,
    Superseded,
}

/// What the log did, entry by entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct AppliedLog {
    pub(crate) grants: Vec<LoggedGrant>,
    pub(crate) expiries: Vec<LoggedExpiry>,
    /// By token: the renewals that took effect, in their order.
    pub(crate) renewals: HashMap<u64, Vec<LoggedRenewal>>,
    /// By token: how the grant ended, and in which entry.
    pub(crate) ends: HashMap<u64, (How, u64)>,
    /// By token: how many releases took effect.
    pub(crate) releases: HashMap<u64, u64>,
    /// How many grants ended because their holder was granted the resource again.
    pub(crate) superseded: u64,
    /// Every event of every entry, in order, with the entry's index.
    pub(crate) events: Vec<(u64, Event)>,
    /// The first index of each term in which something was applied.
    pub(crate) terms: BTreeMap<u64, u64>,
    pub(crate) entries: usize,
    /// Indexes that no node wrote down (all of them skipped it with a snapshot): what happened there
    /// cannot be judged, and the verdicts must say so.
    pub(crate) holes: Vec<u64>,
    pub(crate) last_index: u64,
}

impl AppliedLog {
    pub(crate) fn merge(audits: &[NodeAudit]) -> Self {
        let mut by_index: BTreeMap<u64, &Line> = BTreeMap::new();
        for line in audits.iter().flat_map(|audit| &audit.lines) {
            if !matches!(line.kind, Kind::Start | Kind::Snapshot) {
                by_index.entry(line.index).or_insert(line);
            }
        }
        let mut log = Self::default();
        for (index, line) in by_index {
            log.holes.extend(log.last_index + 1..index);
            log.last_index = index;
            log.entries += 1;
            log.terms.entry(line.term).or_insert(index);
            for event in &line.events {
                log.take(line, event);
                log.events.push((index, event.clone()));
            }
        }
        log
    }

    /// The term whose leader made an entry.
    pub(crate) fn term_at(&self, index: u64) -> u64 {
        let of_or_before = self.terms.iter().rev().find(|(_, first)| **first <= index);
        of_or_before.map_or(0, |(term, _)| *term)
    }

    fn take(&mut self, line: &Line, event: &Event) {
        let (token, index) = (event.token(), line.index);
        match event.event.as_str() {
            "granted" => self.grants.push(LoggedGrant {
                token,
                index,
                resource: event.resource.clone(),
                holder: event.holder.clone(),
                request_id: event.request_id.clone(),
                lease: Duration::from_millis(event.lease_ms),
                after_wait: event.after_wait,
            }),
            "renewed" => {
                let ttl = Duration::from_millis(event.ttl_ms);
                let renewals = self.renewals.entry(token).or_default();
                renewals.push(LoggedRenewal { index, ttl });
            }
            "superseded" => {
                self.superseded += 1;
                self.ends.insert(token, (How::Superseded, index));
            }
            "released" => {
                *self.releases.entry(token).or_default() += 1;
                self.ends.insert(token, (How::Released, index));
            }
            "revoked" => {
                self.ends.insert(token, (How::Revoked, index));
            }
            "expired" => {
                let applied = self.renewals.get(&token).map_or(0, Vec::len);
                self.expiries.push(LoggedExpiry {
                    token,
                    index,
                    renewals_seen: line.command.renewals_of(token),
                    renewals_applied: applied as u64,
                });
                self.ends.insert(token, (How::Expired, index));
            }
            _ => {}
        }
    }
}

#[test]
fn an_index_counts_once_and_a_hole_is_seen() {
    let entry = |index: u64, events: &str| {
        format!(
            r#"{{"kind":"entry","term":1,"index":{index},"hash":"h{index}","events":[{events}]}}"#
        )
    };
    let granted =
        r#"{"event":"granted","resource":"r","holder":"h","token":"65537","request_id":"1"}"#;
    let first = NodeAudit::parse(1, &[entry(1, granted), entry(1, granted)].join("\n"));
    let second = NodeAudit::parse(2, &[entry(1, granted), entry(4, "")].join("\n"));
    let log = AppliedLog::merge(&[first, second]);
    assert_eq!(log.grants.len(), 1);
    assert_eq!((log.holes.len(), log.last_index, log.entries), (2, 4, 2));
    assert_eq!((log.term_at(1), log.term_at(9)), (1, 1));
}
