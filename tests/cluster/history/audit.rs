//! The nodes' own record: the audit log that `fencepost serve --audit-log` writes, one JSON object a
//! line for each applied entry.
//!
//! A node that restarts applies entries again, and writes them again after a `start` line. A node
//! that receives a snapshot skips to its index, with a `snapshot` line. A process that was killed may
//! leave half a line, which stands alone and is skipped, since nothing in it was acknowledged.

use std::{fs, io, path::Path};

use serde::Deserialize;

/// All that one node wrote, over all its lives.
#[derive(Clone, Debug, Default)]
pub(crate) struct NodeAudit {
    pub(crate) node: u64,
    pub(crate) lines: Vec<Line>,
    /// Lines that are not JSON: at most one for each kill of the process.
    pub(crate) torn: usize,
}

/// One line. Fields that only people read are not looked at.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Line {
    pub(crate) kind: Kind,
    pub(crate) term: u64,
    pub(crate) index: u64,
    /// The chained hash after this entry.
    pub(crate) hash: String,
    #[serde(default)]
    pub(crate) command: Command,
    #[serde(default)]
    pub(crate) events: Vec<Event>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// A process began; the state is as loaded from its disk, before it applied anything again.
    Start,
    /// The leader's snapshot replaced the state.
    Snapshot,
    Blank,
    Membership,
    Entry,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Command {
    /// Of an expiry: what the leader asked to end, and on which knowledge.
    #[serde(default)]
    leases: Vec<DueLease>,
}

#[derive(Clone, Debug, Deserialize)]
struct DueLease {
    token: String,
    /// The number of renewals that the deadline was computed for.
    renewals: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Event {
    pub(crate) event: String,
    pub(crate) resource: String,
    pub(crate) holder: String,
    pub(crate) token: String,
    pub(crate) request_id: String,
    pub(crate) ttl_ms: u64,
    /// Of a grant: what it starts with.
    pub(crate) lease_ms: u64,
    /// Of a grant: it came from the queue.
    pub(crate) after_wait: bool,
    /// Of a new place in a queue: where, counted from 1.
    pub(crate) position: u32,
    /// Of a place that ended without a grant.
    pub(crate) how: String,
}

impl NodeAudit {
    /// Reads a node's file. A file that is not there is an error: a node that wrote no audit log
    /// must not pass for one that agrees with the others.
    pub(crate) fn read(node: u64, path: &Path) -> io::Result<Self> {
        Ok(Self::parse(node, &fs::read_to_string(path)?))
    }

    pub(crate) fn parse(node: u64, text: &str) -> Self {
        let mut audit = Self {
            node,
            ..Self::default()
        };
        for line in text.lines().filter(|line| !line.is_empty()) {
            match serde_json::from_str::<Line>(line) {
                Ok(line) => audit.lines.push(line),
                Err(_) => audit.torn += 1,
            }
        }
        audit
    }
}

impl Command {
    /// The number of renewals that an expiry of this token was computed for; 0 if it names none,
    /// which any renewal contradicts.
    pub(crate) fn renewals_of(&self, token: u64) -> u64 {
        let due = self
            .leases
            .iter()
            .find(|due| due.token == token.to_string());
        due.map_or(0, |due| due.renewals)
    }
}

impl Event {
    /// The token as a number; 0, which no grant carries, for events without one.
    pub(crate) fn token(&self) -> u64 {
        self.token.parse().unwrap_or(0)
    }
}

#[test]
fn reads_what_a_node_writes_and_skips_a_torn_line() {
    let text = r#"
{"v":1,"kind":"start","term":0,"index":0,"hash":"00","at":"2026-01-01T00:00:00Z","cluster_id":"c","node_id":1,"boot":1}
{"v":1,"kind":"blank","term":1,"index":1,"hash":"00"}
{"v":1,"kind":"entry","term":1,"index":2,"hash":"a1","command":{"op":"acquire","resource":"r","holder":"h","ttl_ms":900,"request_id":"07","attempt":1,"wait_ms":0},"outcome":{"result":"granted"},"events":[{"event":"granted","resource":"r","holder":"h","token":"65538","ttl_ms":900,"request_id":"07","after_wait":false}]}
{"v":1,"kind":"entry","term":1,"ind
{"v":1,"kind":"entry","term":1,"index":3,"hash":"a2","command":{"op":"expire","leases":[{"token":"65538","renewals":2}]},"outcome":{"result":"expire"},"events":[{"event":"expired","resource":"r","holder":"h","token":"65538","renewals":3}]}
"#;
    let audit = NodeAudit::parse(1, text);
    assert_eq!((audit.lines.len(), audit.torn), (4, 1));
    assert_eq!(audit.lines[2].events[0].token(), 65_538);
    assert_eq!(audit.lines[3].command.renewals_of(65_538), 2);
    assert_eq!(audit.lines[3].command.renewals_of(65_539), 0);
}
