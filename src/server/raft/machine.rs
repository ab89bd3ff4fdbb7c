//! The state machine: committed entries go into the [`Replica`], in batches, under one lock.
//!
//! A batch is decoded first, then applied, then told to the sinks (audit log, watches), and only then
//! answered: nobody hears of a grant before it is on record. Readers wait for one batch at most.
//!
//! The first entry of a log, index 0, is the founding membership. The core counts entries from 1 and
//! takes its own beginning to be `0.0`, so that entry is kept here and not applied there.

use std::{
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, PoisonError, RwLock},
    time::Instant,
};

use futures_util::{Stream, StreamExt};
use openraft::{
    EntryPayload,
    storage::{ApplyResponder, EntryResponder, RaftStateMachine},
};
use tokio::sync::{Notify, watch};

use super::{
    Clock, FatalKind, Roster, SnapshotPolicy,
    encoding::{SnapshotHead, command_body},
    fate::Fate,
    log::failed,
    sink::{AppliedSink, Record, RecordKind},
    snapshot::{Builder, Content, joined, write_machine},
    types::{
        Entry, Membership, RaftId, Reply, SnapshotMeta, StoredMembership, Types, ours, theirs,
    },
};
use crate::{
    issuer::{Broken, Command, InstanceId, LogId, Machine, Replica, codec},
    resource::IssuerName,
    server::store::SharedStore,
};

pub(super) use super::snapshot::Content as SnapshotContent;

/// Entries applied under one lock: a few hundred microseconds.
const BATCH_ENTRIES: usize = 256;

/// A log may grow to so many times the policy's entries while a state that is larger than the log
/// waits for it.
const PATIENT_ENTRIES: u64 = 10;

/// The replicated state as the rest of the server reads it. Clones share it.
#[derive(Clone)]
pub struct StateView {
    replica: Arc<RwLock<Option<Replica>>>,
}

impl StateView {
    fn new() -> Self {
        Self {
            replica: Arc::new(RwLock::new(None)),
        }
    }

    /// Looks at the state. `None` before this node has applied anything. Writers wait meanwhile, so
    /// `look` is short.
    pub fn read<T>(&self, look: impl FnOnce(&Replica) -> T) -> Option<T> {
        let replica = self.replica.read().unwrap_or_else(PoisonError::into_inner);
        replica.as_ref().map(look)
    }
}

/// What the state machine is made of.
pub struct StateMachineParts {
    /// Where snapshots rest.
    pub store: SharedStore,
    /// The name of who issues, for a state that begins here.
    pub issuer: IssuerName,
    /// When a snapshot is worth its cost.
    pub snapshots: SnapshotPolicy,
    /// This node's monotonic clock.
    pub clock: Clock,
    /// Who is told about each applied entry, before its answer leaves.
    pub sinks: Vec<Arc<dyn AppliedSink>>,
}

/// The state machine, as openraft wants it.
pub struct StateMachine {
    parts: StateMachineParts,
    view: StateView,
    roster: watch::Sender<Arc<Roster>>,
    fate: Fate,
    /// Wakes the task that asks openraft for a snapshot.
    full: Arc<Notify>,
    applied: Option<LogId>,
    membership: StoredMembership,
    since: Since,
}

/// What came into the log since the last snapshot, and how large that one was.
#[derive(Debug, Default)]
struct Since {
    entries: u64,
    bytes: u64,
    snapshot_bytes: u64,
}

impl StateMachine {
    /// A state machine that has applied nothing. openraft gives it the last snapshot and the log.
    #[must_use]
    pub fn new(parts: StateMachineParts) -> Self {
        Self::with_fate(parts, Fate::new())
    }

    pub(super) fn with_fate(parts: StateMachineParts, fate: Fate) -> Self {
        Self {
            parts,
            view: StateView::new(),
            roster: watch::Sender::default(),
            fate,
            full: Arc::default(),
            applied: None,
            membership: StoredMembership::default(),
            since: Since::default(),
        }
    }

    pub(super) fn view(&self) -> StateView {
        self.view.clone()
    }

    pub(super) fn roster(&self) -> watch::Receiver<Arc<Roster>> {
        self.roster.subscribe()
    }

    pub(super) fn full(&self) -> Arc<Notify> {
        Arc::clone(&self.full)
    }

    /// Applies a batch; a panic in it ends the node as a broken invariant does. Nobody may go on with
    /// a state that is half changed, and openraft would only stop answering.
    fn guarded(&mut self, batch: &mut Vec<Item>) -> io::Result<()> {
        let applied = catch_unwind(AssertUnwindSafe(|| self.apply_batch(batch)));
        let applied = applied.unwrap_or_else(|_| Err(Stop::state("the state machine panicked")));
        applied.map_err(|stop| self.stop(stop))
    }

    /// Applies entries that follow each other, then lets their answers go.
    fn apply_batch(&mut self, batch: &mut Vec<Item>) -> Result<(), Stop> {
        let now = (self.parts.clock)();
        let wanted = !self.parts.sinks.is_empty();
        let mut records = Vec::with_capacity(if wanted { batch.len() } else { 0 });
        let mut replies = Vec::new();
        let mut members_changed = false;
        {
            let shared = Arc::clone(&self.view.replica);
            let mut replica = shared.write().unwrap_or_else(PoisonError::into_inner);
            if replica.is_none() {
                *replica = Some(self.beginning(now)?);
            }
            let replica = replica.as_mut().expect("it was just put there");
            for item in batch.drain(..) {
                members_changed |= matches!(item.body, Body::Members(_));
                let kind = self.apply_one(replica, item.at, item.body, now)?;
                self.since.entries += 1;
                self.since.bytes += item.bytes;
                let outcome = kind.outcome().cloned();
                if wanted {
                    records.push(Arc::new(Record {
                        at: item.at,
                        hash: replica.machine().chain(),
                        kind,
                    }));
                }
                if let Some(responder) = item.responder {
                    replies.push((responder, Reply(outcome)));
                }
            }
            if members_changed {
                self.publish_roster(replica);
            }
        }
        for sink in &self.parts.sinks {
            sink.applied(&records);
        }
        for (responder, reply) in replies {
            responder.send(reply);
        }
        if self.since.bytes >= self.parts.snapshots.bytes.max(self.since.snapshot_bytes) {
            self.full.notify_one();
        }
        Ok(())
    }

    fn apply_one(
        &mut self,
        replica: &mut Replica,
        at: LogId,
        body: Body,
        now: Instant,
    ) -> Result<RecordKind, Stop> {
        let kind = match body {
            Body::Blank => {
                if at.index > 0 {
                    replica.apply_blank(at)?;
                }
                RecordKind::Blank
            }
            Body::Members(membership) => {
                let members = members_of(&membership);
                if at.index > 0 {
                    replica.apply_members(at, &members)?;
                }
                self.membership = StoredMembership::new(Some(theirs(at)), membership);
                RecordKind::Members(members)
            }
            Body::Command(command) => {
                let applied = replica.apply(at, &command, now)?;
                RecordKind::Command {
                    command,
                    outcome: applied.outcome,
                    events: applied.events,
                }
            }
        };
        self.applied = Some(at);
        Ok(kind)
    }

    /// The state before the first entry.
    fn beginning(&self, now: Instant) -> Result<Replica, Stop> {
        let identity = self.parts.store.identity();
        let Some(ready) = identity.ready() else {
            return Err(Stop::state(
                "an entry is to be applied on a node that belongs to no cluster",
            ));
        };
        Ok(Replica::new(
            Machine::new(self.parts.issuer.clone(), ready.cluster),
            now,
        ))
    }

    fn publish_roster(&self, replica: &Replica) {
        let used = replica.machine().used_node_ids().map(|(id, _)| id);
        let roster = Arc::new(Roster::new(&self.membership, used));
        self.roster.send_replace(roster);
    }

    /// Ends the node, because this entry cannot be applied or this snapshot not be taken over.
    fn stop(&self, stop: Stop) -> io::Error {
        self.fate.seal(FatalKind::Raft, stop.0.clone());
        io::Error::other(stop.0)
    }

    fn head(&self) -> SnapshotHead {
        SnapshotHead {
            last: self.applied,
            membership: self.membership.clone(),
        }
    }

    /// Whether a snapshot is worth its cost now: a large state waits until the log has grown by as
    /// much, but not for ever.
    fn is_due(&self) -> bool {
        let patience = self.parts.snapshots.entries.saturating_mul(PATIENT_ENTRIES);
        self.since.bytes >= self.since.snapshot_bytes || self.since.entries >= patience
    }
}

/// An entry, ready to be applied.
struct Item {
    at: LogId,
    body: Body,
    bytes: u64,
    responder: Option<ApplyResponder<Types>>,
}

enum Body {
    Blank,
    Members(Membership),
    Command(Command),
}

impl Item {
    fn read((entry, responder): EntryResponder<Types>) -> Result<Self, Stop> {
        let Entry { log_id, payload } = entry;
        let at = ours(log_id);
        let mut bytes = 1;
        let body = match payload {
            EntryPayload::Blank => Body::Blank,
            EntryPayload::Membership(membership) => Body::Members(membership),
            EntryPayload::Normal(proposal) => {
                let body = command_body(&proposal);
                bytes += body.len() as u64;
                let command = codec::decode_command(body);
                Body::Command(command.map_err(|error| {
                    Stop(format!("the committed entry {at} cannot be read: {error}"))
                })?)
            }
        };
        Ok(Self {
            at,
            body,
            bytes,
            responder,
        })
    }
}

/// Why the node must stop: what was committed cannot be followed.
struct Stop(String);

impl Stop {
    fn state(what: &str) -> Self {
        Self(what.to_owned())
    }
}

impl From<Broken> for Stop {
    fn from(broken: Broken) -> Self {
        Self(format!("the state machine stopped: {broken}"))
    }
}

fn members_of(membership: &Membership) -> Vec<(u64, InstanceId)> {
    let nodes = membership.nodes();
    nodes.map(|(id, node)| (*id, node.instance)).collect()
}

impl RaftStateMachine<Types> for StateMachine {
    type SnapshotData = Content;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> io::Result<(Option<RaftId>, StoredMembership)> {
        Ok((self.applied.map(theirs), self.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<Types>>> + Unpin + Send,
    {
        let mut batch = Vec::with_capacity(BATCH_ENTRIES);
        while let Some(entry) = entries.next().await {
            let item = Item::read(entry?).map_err(|stop| self.stop(stop))?;
            batch.push(item);
            if batch.len() == BATCH_ENTRIES {
                self.guarded(&mut batch)?;
            }
        }
        if batch.is_empty() {
            return Ok(());
        }
        self.guarded(&mut batch)
    }

    async fn try_create_snapshot_builder(&mut self, force: bool) -> Option<Builder> {
        if !force && !self.is_due() {
            return None;
        }
        Some(self.get_snapshot_builder().await)
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        // Written out at once, off the async threads: that takes no longer than a copy of the state
        // would (20 ms for 100,000 leases), and less memory. Nothing is applied meanwhile, because
        // openraft waits for this call.
        let view = self.view.clone();
        let write = move || view.read(|replica| write_machine(replica.machine()));
        let written = joined(
            tokio::task::spawn_blocking(write)
                .await
                .map(Option::transpose),
        );
        let size = self.since.bytes;
        self.since.entries = 0;
        self.since.bytes = 0;
        tracing::debug!(log_bytes = size, "folding the log into a snapshot");
        let pieces = written.map(Option::unwrap_or_default);
        Builder::new(self.head(), pieces, Arc::clone(&self.parts.store))
    }

    async fn install_snapshot(&mut self, _: &SnapshotMeta, content: Content) -> io::Result<()> {
        let head = content.head.clone();
        let (machine, bytes) = match content.install(&self.parts.store).await {
            Ok(installed) => installed,
            Err(error) => {
                return Err(self.stop(Stop(format!("a snapshot cannot be read: {error}"))));
            }
        };
        self.since = Since {
            snapshot_bytes: bytes,
            ..Since::default()
        };
        self.applied = head.last;
        self.membership = head.membership;
        let now = (self.parts.clock)();
        let shared = Arc::clone(&self.view.replica);
        let mut replica = shared.write().unwrap_or_else(PoisonError::into_inner);
        *replica = machine.map(|machine| Replica::new(machine, now));
        if let Some(replica) = replica.as_ref() {
            self.publish_roster(replica);
            for sink in &self.parts.sinks {
                sink.replaced(self.applied.unwrap_or_default(), replica);
            }
        }
        Ok(())
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> io::Result<Option<openraft::alias::SnapshotOf<Types, Content>>> {
        let reader = self.parts.store.read_snapshot().map_err(failed)?;
        let Some(reader) = reader else {
            return Ok(None);
        };
        self.since.snapshot_bytes = reader.manifest.bytes;
        let content = Content::stored(reader)?;
        Ok(Some(openraft::Snapshot {
            meta: content.head.meta(),
            snapshot: content,
        }))
    }
}

impl std::fmt::Debug for StateMachine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StateMachine")
            .field("applied", &self.applied)
            .finish_non_exhaustive()
    }
}
