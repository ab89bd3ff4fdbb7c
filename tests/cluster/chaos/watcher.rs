//! A watcher of the run: it follows a prefix from the cursor where it began, over all nodes, and goes on
//! at another one whenever a stream ends, and now and then without a reason.

use std::{sync::atomic::Ordering, time::Duration};

use fencepost::wire::v1::{
    Cursor, WatchEventKind, WatchRequest, WatchResponse, watch_request::What,
};
use tonic::{Code, Status, Streaming};

use super::client::Shared;
use crate::{
    dice::Dice,
    history::watched::{Fact, Told, Watched},
    nodes::calls::Calls,
};

/// How long nothing may be heard, marks of progress included, before another node is asked: a stopped
/// node says nothing at all.
const SILENCE: Duration = Duration::from_millis(900);

/// How often to mark progress.
const PROGRESS_MS: u32 = 200;

/// How long a stream is read before the watcher goes on elsewhere anyway.
const MOVES_ON_MS: (u64, u64) = (500, 6_000);

pub(crate) struct Watcher {
    pub(crate) nodes: Vec<Calls>,
    pub(crate) dice: Dice,
    pub(crate) cluster_id: String,
    pub(crate) watched: Watched,
    streams: u32,
}

impl Watcher {
    /// A watcher of `prefix` from entry `after` on.
    pub(crate) fn new(
        watcher: u32,
        nodes: Vec<Calls>,
        dice: Dice,
        prefix: &str,
        (cluster_id, after): (String, u64),
    ) -> Self {
        let watched = Watched {
            watcher,
            prefix: prefix.into(),
            renewals: watcher.is_multiple_of(2),
            after,
            ..Watched::default()
        };
        Self {
            nodes,
            dice,
            cluster_id,
            watched,
            streams: 0,
        }
    }

    /// Watches until the run is over and it has reached its last entry, or has been told that the
    /// history is lost.
    pub(crate) async fn follow(mut self, shared: Shared) -> Watched {
        let mut node = usize::try_from(self.watched.watcher).unwrap() % self.nodes.len();
        while !self.is_done(&shared) {
            let Ok(stream) = self.open(node).await else {
                node = self.elsewhere(node).await;
                continue;
            };
            self.streams += 1;
            if let Err(status) = self.read(node, stream, &shared).await
                && status.code() == Code::OutOfRange
            {
                self.watched.lost = true;
            }
            node = self.elsewhere(node).await;
        }
        self.watched
    }

    fn is_done(&self, shared: &Shared) -> bool {
        let last = shared.watch_until.load(Ordering::Relaxed);
        self.watched.lost || (last > 0 && self.watched.reached() >= last)
    }

    async fn open(&self, node: usize) -> Result<Streaming<WatchResponse>, Status> {
        let request = WatchRequest {
            what: Some(What::Prefix(self.watched.prefix.clone())),
            after: Some(Cursor {
                cluster_id: self.cluster_id.clone(),
                index: self.watched.reached(),
            }),
            renewals: self.watched.renewals,
            progress_ms: PROGRESS_MS,
        };
        self.nodes[node].watch(request).await
    }

    /// Reads a stream until it ends, falls silent, or is read for long enough.
    async fn read(
        &mut self,
        node: usize,
        mut stream: Streaming<WatchResponse>,
        shared: &Shared,
    ) -> Result<(), Status> {
        let moves_on = self.dice.millis(MOVES_ON_MS.0, MOVES_ON_MS.1);
        let moves_on = tokio::time::Instant::now() + moves_on;
        while tokio::time::Instant::now() < moves_on && !self.is_done(shared) {
            let Ok(message) = tokio::time::timeout(SILENCE, stream.message()).await else {
                return Ok(());
            };
            let Some(message) = message? else {
                return Ok(());
            };
            let told = Told {
                node: node as u64 + 1,
                stream: self.streams,
                cursor: message.cursor.map_or(0, |cursor| cursor.index),
                facts: message.events.into_iter().map(fact).collect(),
            };
            self.watched.told.push(told);
        }
        Ok(())
    }

    async fn elsewhere(&mut self, node: usize) -> usize {
        tokio::time::sleep(self.dice.millis(10, 60)).await;
        (node + 1) % self.nodes.len()
    }
}

/// An event of the wire, in the words of the audit log.
fn fact(event: fencepost::wire::v1::WatchEvent) -> Fact {
    use WatchEventKind as Kind;
    let kind = match event.kind() {
        Kind::Granted => "granted",
        Kind::Renewed => "renewed",
        Kind::Released => "released",
        Kind::Expired => "expired",
        Kind::Revoked => "revoked",
        Kind::Superseded => "superseded",
        Kind::Queued => "queued",
        Kind::Withdrawn => "left: withdrawn",
        Kind::WaitedOut => "left: waited_out",
        Kind::PlaceSuperseded => "left: superseded",
        Kind::Detached => "left: detached",
        Kind::Unspecified => "unspecified",
    };
    Fact {
        kind: kind.into(),
        resource: event.resource,
        holder: event.holder,
        token: event.token.map_or(0, |token| token.value),
        position: event.position,
        lease_ms: event.lease_ms,
        after_wait: event.after_wait,
    }
}
