//! openraft's own suite for storage, over both stores.
//!
//! The suite begins some logs at entry 1 and applies entries with holes between them. A log of this
//! node begins at entry 0 and has no holes, and both the store and the core refuse anything else. So
//! both are wrapped: a log that begins later gets a purge first, which the wrapper keeps to itself, and
//! holes are filled with blank entries before they are applied.

use std::{fmt::Debug, io, ops::RangeBounds, sync::Arc, time::Instant};

use fencepost::{
    grant::ClusterId,
    resource::IssuerName,
    server::{
        raft::{
            NodeRecord, SnapshotPolicy,
            adapter::{LogStore, StateMachine, StateMachineParts, Types},
        },
        store::{DiskStore, InstanceId, MemoryStore, Options, Ready, SharedStore, Store},
    },
};
use futures_util::{Stream, StreamExt, stream};
use openraft::{
    LogId, LogState, RaftLogReader, StorageError,
    alias::{EntryOf, LogIdOf, SnapshotMetaOf, SnapshotOf, StoredMembershipOf, VoteOf},
    entry::RaftEntry,
    storage::{EntryResponder, IOFlushed, RaftLogStorage, RaftStateMachine},
    testing::log::{StoreBuilder, Suite},
};

use crate::harness::{blank_disk, fresh_bits};

/// A log that may begin anywhere.
struct Anywhere {
    log: LogStore,
    /// The purge that only the suite needed.
    hidden: Option<LogIdOf<Types>>,
}

impl RaftLogReader<Types> for Anywhere {
    async fn try_get_log_entries<R>(&mut self, range: R) -> io::Result<Vec<EntryOf<Types>>>
    where
        R: RangeBounds<u64> + Clone + Debug + Send,
    {
        self.log.try_get_log_entries(range).await
    }

    async fn read_vote(&mut self) -> io::Result<Option<VoteOf<Types>>> {
        self.log.read_vote().await
    }

    async fn limited_get_log_entries(
        &mut self,
        from: u64,
        to: u64,
    ) -> io::Result<Vec<EntryOf<Types>>> {
        self.log.limited_get_log_entries(from, to).await
    }
}

impl RaftLogStorage<Types> for Anywhere {
    type LogReader = LogStore;

    async fn get_log_state(&mut self) -> io::Result<LogState<Types>> {
        let state = self.log.get_log_state().await?;
        let shown = |id: Option<LogIdOf<Types>>| id.filter(|_| id != self.hidden);
        Ok(LogState {
            last_purged_log_id: shown(state.last_purged_log_id),
            last_log_id: shown(state.last_log_id),
        })
    }

    async fn get_log_reader(&mut self) -> LogStore {
        self.log.get_log_reader().await
    }

    async fn save_vote(&mut self, vote: &VoteOf<Types>) -> io::Result<()> {
        self.log.save_vote(vote).await
    }

    async fn save_committed(&mut self, committed: Option<LogIdOf<Types>>) -> io::Result<()> {
        self.log.save_committed(committed).await
    }

    async fn read_committed(&mut self) -> io::Result<Option<LogIdOf<Types>>> {
        self.log.read_committed().await
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> io::Result<()>
    where
        I: IntoIterator<Item = EntryOf<Types>> + Send,
        I::IntoIter: Send,
    {
        let entries: Vec<_> = entries.into_iter().collect();
        let empty = self.log.get_log_state().await?.last_log_id.is_none();
        if let Some(first) = entries
            .first()
            .filter(|first| empty && first.log_id.index > 0)
        {
            let before = LogId::new(first.log_id.leader_id, first.log_id.index - 1);
            self.log.purge(before).await?;
            self.hidden = Some(before);
        }
        self.log.append(entries, callback).await
    }

    async fn truncate_after(&mut self, last: Option<LogIdOf<Types>>) -> io::Result<()> {
        self.log.truncate_after(last.or(self.hidden)).await
    }

    async fn purge(&mut self, upto: LogIdOf<Types>) -> io::Result<()> {
        // From here on a purge is what the suite asked for.
        self.hidden = None;
        self.log.purge(upto).await
    }
}

/// A state machine that fills holes before it applies.
struct Filled(StateMachine);

impl RaftStateMachine<Types> for Filled {
    type SnapshotData = <StateMachine as RaftStateMachine<Types>>::SnapshotData;
    type SnapshotBuilder = <StateMachine as RaftStateMachine<Types>>::SnapshotBuilder;

    async fn applied_state(
        &mut self,
    ) -> io::Result<(Option<LogIdOf<Types>>, StoredMembershipOf<Types>)> {
        self.0.applied_state().await
    }

    async fn apply<S>(&mut self, mut entries: S) -> io::Result<()>
    where
        S: Stream<Item = io::Result<EntryResponder<Types>>> + Unpin + Send,
    {
        let (applied, _) = self.0.applied_state().await?;
        let mut next = applied.map_or(1, |at| at.index + 1);
        let mut whole = Vec::new();
        while let Some(item) = entries.next().await {
            let (entry, responder) = item?;
            let at = entry.log_id;
            for index in next..at.index {
                let blank = EntryOf::<Types>::new_blank(LogId::new(at.leader_id, index));
                whole.push(Ok((blank, None)));
            }
            next = at.index + 1;
            whole.push(Ok((entry, responder)));
        }
        self.0.apply(stream::iter(whole)).await
    }

    async fn try_create_snapshot_builder(&mut self, force: bool) -> Option<Self::SnapshotBuilder> {
        self.0.try_create_snapshot_builder(force).await
    }

    async fn get_snapshot_builder(&mut self) -> Self::SnapshotBuilder {
        self.0.get_snapshot_builder().await
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMetaOf<Types>,
        snapshot: Self::SnapshotData,
    ) -> io::Result<()> {
        self.0.install_snapshot(meta, snapshot).await
    }

    async fn get_current_snapshot(
        &mut self,
    ) -> io::Result<Option<SnapshotOf<Types, Self::SnapshotData>>> {
        self.0.get_current_snapshot().await
    }
}

/// A log and a machine on a store that belongs to a cluster.
fn built(store: impl Store) -> (Anywhere, Filled) {
    let cluster = ClusterId::new(fresh_bits());
    let ready = Ready {
        cluster,
        issuer: IssuerName::new("conformance").unwrap(),
        founders: Vec::new(),
    };
    store.make_ready(ready).unwrap();
    let store: SharedStore = Arc::new(store);
    let machine = StateMachine::new(StateMachineParts {
        store: Arc::clone(&store),
        issuer: IssuerName::new("suite").unwrap(),
        snapshots: SnapshotPolicy::default(),
        clock: Arc::new(Instant::now),
        sinks: Vec::new(),
    });
    let log = LogStore::new(store);
    (Anywhere { log, hidden: None }, Filled(machine))
}

struct InMemory;

impl StoreBuilder<Types, Anywhere, Filled> for InMemory {
    async fn build(&self) -> Result<((), Anywhere, Filled), StorageError<Types>> {
        let (store, _) = MemoryStore::open(&blank_disk(1));
        let (log, machine) = built(store);
        Ok(((), log, machine))
    }
}

struct OnDisk;

impl StoreBuilder<Types, Anywhere, Filled, tempfile::TempDir> for OnDisk {
    async fn build(&self) -> Result<(tempfile::TempDir, Anywhere, Filled), StorageError<Types>> {
        let dir = tempfile::tempdir().unwrap();
        let instance = InstanceId::new(fresh_bits());
        let (store, _) = DiskStore::open(dir.path(), &Options::new(1, instance)).unwrap();
        let (log, machine) = built(store);
        Ok((dir, log, machine))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_store_passes_openrafts_suite() {
    Suite::test_all(InMemory).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_disk_store_passes_openrafts_suite() {
    Suite::test_all(OnDisk).await.unwrap();
}

#[test]
fn the_suite_makes_members_of_nobody() {
    assert_eq!(
        NodeRecord::default().instance,
        InstanceId::from_bytes([0; 16])
    );
}
