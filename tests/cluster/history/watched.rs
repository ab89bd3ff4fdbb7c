//! What watchers of a run were told, message by message, over however many nodes and connections.

use std::fmt;

use super::audit::Event;

/// One watch, from its cursor to its end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    pub(crate) watcher: u32,
    /// What names begin with.
    pub(crate) prefix: String,
    /// Renewals are told, too.
    pub(crate) renewals: bool,
    /// It asked for what came after this index.
    pub(crate) after: u64,
    pub(crate) told: Vec<Told>,
    /// It was told that the history it asked for is lost, which is an honest end.
    pub(crate) lost: bool,
}

/// One message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    /// By which node, and on which of the watcher's streams, counted from 1.
    pub(crate) node: u64,
    pub(crate) stream: u32,
    /// Everything up to here has been delivered.
    pub(crate) cursor: u64,
    pub(crate) facts: Vec<Fact>,
}

/// An event as both records have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fact {
    /// In the words of the audit log; a place's end says how.
    pub(crate) kind: String,
    pub(crate) resource: String,
    pub(crate) holder: String,
    /// 0 for events of the queue.
    pub(crate) token: u64,
    /// Of a new place; 0 for everything else.
    pub(crate) position: u32,
    /// Of a grant or a renewal.
    pub(crate) lease_ms: u64,
    pub(crate) after_wait: bool,
}

impl Watched {
    /// Up to which index it was told everything.
    pub(crate) fn reached(&self) -> u64 {
        self.told.last().map_or(self.after, |told| told.cursor)
    }

    /// How often it went on with another stream.
    pub(crate) fn resumes(&self) -> u64 {
        let streams: std::collections::BTreeSet<u32> =
            self.told.iter().map(|told| told.stream).collect();
        (streams.len() as u64).saturating_sub(1)
    }
}

impl Fact {
    /// The fact of an applied event; `None` for events that no watch tells.
    pub(crate) fn of(event: &Event) -> Option<Self> {
        let (kind, lease_ms) = match event.event.as_str() {
            "granted" => ("granted".to_owned(), event.lease_ms),
            "renewed" => ("renewed".to_owned(), event.ttl_ms),
            "left" => (format!("left: {}", event.how), 0),
            "queued" | "released" | "expired" | "revoked" | "superseded" => {
                (event.event.clone(), 0)
            }
            _ => return None,
        };
        Some(Self {
            kind,
            resource: event.resource.clone(),
            holder: event.holder.clone(),
            token: event.token(),
            position: event.position,
            lease_ms,
            after_wait: event.after_wait,
        })
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.kind, self.resource, self.holder)?;
        if self.token > 0 {
            write!(f, " token {}", self.token)?;
        }
        Ok(())
    }
}
