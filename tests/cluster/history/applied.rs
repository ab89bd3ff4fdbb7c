//! The applied log of the whole cluster, put together from all nodes' audit logs.
//!
//! Each index counts once, whichever node wrote it and however often. That all copies of an index
//! are the same is not taken for granted: the HASH check compares them.

use std::collections::{BTreeMap, HashMap};

use super::audit::{Kind, Line, NodeAudit};

/// A grant as it stands in the applied log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoggedGrant {
    pub(crate) token: u64,
    pub(crate) index: u64,
    pub(crate) resource: String,
    pub(crate) holder: String,
    pub(crate) request_id: String,
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

/// What the log did, entry by entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct AppliedLog {
    pub(crate) grants: Vec<LoggedGrant>,
    pub(crate) expiries: Vec<LoggedExpiry>,
    /// By token: how many renewals took effect.
    pub(crate) renewals: HashMap<u64, u64>,
    /// By token: how many releases took effect.
    pub(crate) releases: HashMap<u64, u64>,
    /// How many grants ended because their holder was granted the resource again.
    pub(crate) superseded: u64,
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
            log.take_events(line);
        }
        log
    }

    fn take_events(&mut self, line: &Line) {
        for event in &line.events {
            let token = event.token();
            match event.event.as_str() {
                "granted" => self.grants.push(LoggedGrant {
                    token,
                    index: line.index,
                    resource: event.resource.clone(),
                    holder: event.holder.clone(),
                    request_id: event.request_id.clone(),
                }),
                "renewed" => *self.renewals.entry(token).or_default() += 1,
                "superseded" => self.superseded += 1,
                "released" => *self.releases.entry(token).or_default() += 1,
                "expired" => self.expiries.push(LoggedExpiry {
                    token,
                    index: line.index,
                    renewals_seen: line.command.renewals_of(token),
                    renewals_applied: self.renewals.get(&token).copied().unwrap_or(0),
                }),
                _ => {}
            }
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
    assert_eq!((log.holes, log.last_index, log.entries), (vec![2, 3], 4, 2));
}
