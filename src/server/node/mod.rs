//! A whole node: ports, store, Raft, services, put together and taken apart again.
//!
//! [`run`] is what a process does; [`Node`] is for those who embed one or several, and for tests. What
//! starts here stops here: a stop hands leadership over, lets the calls under way end, and gives the
//! data directory back.

mod descriptors;
mod error;
mod listeners;
mod observer;
mod watchdog;

use std::{
    future::Future,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic_health::server::{HealthReporter, HealthService};

use crate::limits::WAITERS_PER_RESOURCE_MAX;

use super::{
    api::{self, Api, Foundation, Inward, PipelineLimits},
    audit::AuditLog,
    clock,
    config::{Config, Membership},
    expiry,
    history::{self, History},
    port::Entrance,
    raft::{
        AppliedSink, Bootstrap, FatalError, FatalKind, ForwardHandler, FoundingList, Handlers,
        RaftConfig, RaftNode, SnapshotPolicy, Timing, VouchHandler,
    },
    store::{ClusterId, DiskStore, Identity, InstanceId, Options, SharedStore},
    telemetry::{self, Metrics},
    waits::{self, Waits},
};
use observer::Observer;
use watchdog::Watchdog;

pub use error::{EndKind, NodeError};
pub use listeners::{Addresses, Listeners};

/// How long a stopping leader tries to hand its office over.
const HAND_OVER_MAX: Duration = Duration::from_secs(2);

/// How long the calls under way may take to end once a node stops.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// How long a stopping node waits for its last tasks to let go of the store.
const LET_GO_MAX: Duration = Duration::from_secs(2);

/// Connections at the HTTP port: scrapers and probes, of which there are a few.
const HTTP_CONNECTIONS_MAX: usize = 64;

/// Runs a node until `shutdown`, or until it has to end by itself. `started` is told the bound
/// addresses, once all ports answer.
///
/// # Errors
///
/// Why it did not start, or had to end. Nothing is acknowledged after that.
pub async fn run(
    config: &Config,
    listeners: Listeners,
    shutdown: impl Future<Output = ()>,
    started: impl FnOnce(&Addresses),
) -> Result<(), NodeError> {
    descriptors::raise();
    let mut node = Node::start(config, listeners).await?;
    started(&node.addresses());
    let ended = tokio::select! {
        () = shutdown => None,
        error = node.ended() => Some(error),
    };
    match ended {
        None => {
            node.stop().await;
            Ok(())
        }
        Some(error) => {
            node.close().await;
            Err(error)
        }
    }
}

/// A node that runs. Dropping it without [`Node::stop`] is what a crash looks like to the others.
pub struct Node {
    addresses: Addresses,
    raft: RaftNode,
    store: SharedStore,
    watchdog: Arc<Watchdog>,
    history: Arc<History>,
    inward: Arc<Inward>,
    waits: Arc<Waits>,
    health: HealthReporter,
    /// Stops the client port, softly.
    drain: CancellationToken,
    /// The client port.
    clients: JoinSet<Result<(), NodeError>>,
    /// Everything else.
    tasks: JoinSet<Result<(), NodeError>>,
}

impl Node {
    /// Starts a node. It forms, joins or rejoins its cluster in the background, and answers with
    /// `NO_LEADER` until there is one.
    ///
    /// # Errors
    ///
    /// Why it did not start.
    pub async fn start(config: &Config, listeners: Listeners) -> Result<Self, NodeError> {
        let began = clock::now();
        let addresses = listeners.addresses().map_err(|error| NodeError::Serve {
            port: "client",
            why: error.to_string(),
        })?;
        let metrics = Arc::new(Metrics::new(config.issuer.as_str(), config.node_id));
        let store = open_store(config, &metrics).await?;
        let waits = Arc::new(Waits::new(&metrics));
        let mut sinks: Vec<Arc<dyn AppliedSink>> = Vec::new();
        let history = Arc::new(History::new(
            usize::try_from(config.history_bytes).unwrap_or(usize::MAX),
            config.watchers_max,
        ));
        sinks.push(Arc::clone(&history) as Arc<dyn AppliedSink>);
        // Before those who wait hear of it, it is on record.
        sinks.extend(open_audit_log(config, &store, &metrics)?);
        sinks.push(Arc::clone(&waits) as Arc<dyn AppliedSink>);
        let inward = Arc::new(Inward::default());
        let handlers = Handlers {
            forward: Arc::clone(&inward) as Arc<dyn ForwardHandler>,
            vouch: Arc::clone(&waits) as Arc<dyn VouchHandler>,
        };
        let raft_config = raft_config(config, &addresses)?;
        let raft = RaftNode::start(raft_config, Arc::clone(&store), sinks, handlers).await?;
        let drain = CancellationToken::new();
        let client_entrance = Entrance::new("client", descriptors::connections_max(config));
        let api = Api::new(Foundation {
            issuer: config.issuer.clone(),
            raft: raft.clone(),
            store: Arc::clone(&store),
            history: Arc::clone(&history),
            waits: Arc::clone(&waits),
            metrics: Arc::clone(&metrics),
            calls_max: config.calls_max,
            entrance: client_entrance.clone(),
            pipeline_limits: pipeline_limits(config),
            draining: drain.clone(),
            started: began,
        });
        inward.open(api.clone());
        let watchdog = Arc::new(Watchdog {
            raft: raft.clone(),
            store: Arc::clone(&store),
            history: Arc::clone(&history),
            metrics: Arc::clone(&metrics),
            waits: Arc::clone(&waits),
            api: api.clone(),
            client_entrance,
            http_entrance: Entrance::new("http", HTTP_CONNECTIONS_MAX),
            started: began,
            stopping: AtomicBool::new(false),
        });
        let mut node = Node {
            addresses,
            raft,
            store,
            watchdog,
            history,
            inward,
            waits,
            health: HealthReporter::new(),
            drain,
            clients: JoinSet::new(),
            tasks: JoinSet::new(),
        };
        node.serve(listeners, api, metrics);
        Ok(node)
    }

    /// Opens the ports to the outside and starts what works in the background.
    fn serve(&mut self, listeners: Listeners, api: Api, metrics: Arc<Metrics>) {
        let failed = |port| move |why: String| NodeError::Serve { port, why };
        let reporter = self.health.clone();
        let health = HealthService::from_health_reporter(reporter.clone());
        let drain = self.drain.clone();
        self.clients.spawn(async move {
            let served = api::serve(listeners.client, api, health, drain.cancelled_owned()).await;
            served.map_err(|error| failed("client")(error.to_string()))
        });
        let raft = self.raft.clone();
        self.tasks.spawn(async move {
            let served = raft.serve_peers(listeners.peer).await;
            served.map_err(|error| failed("peer")(error.to_string()))
        });
        let probe = Arc::clone(&self.watchdog);
        let entrance = probe.http_entrance.clone();
        self.tasks.spawn(async move {
            let served =
                telemetry::serve(listeners.http, entrance, probe, std::future::pending()).await;
            served.map_err(|error| failed("HTTP")(error.to_string()))
        });
        self.look_after_time(&metrics);
        let (history, raft) = (Arc::clone(&self.history), self.raft.clone());
        self.tasks.spawn(async move {
            history::run(history, raft).await;
            Ok(())
        });
        let watchdog = Arc::clone(&self.watchdog);
        self.tasks.spawn(async move {
            watchdog.run(reporter).await;
            Ok(())
        });
    }

    /// Ends leases that ran out, and looks after those who wait.
    fn look_after_time(&mut self, metrics: &Arc<Metrics>) {
        let (raft, counts) = (self.raft.clone(), Arc::clone(metrics));
        self.tasks.spawn(async move {
            expiry::run(raft, counts).await;
            Ok(())
        });
        let (raft, waits) = (self.raft.clone(), Arc::clone(&self.waits));
        self.tasks.spawn(async move {
            waits::vouch(raft, waits).await;
            Ok(())
        });
        let (raft, waits) = (self.raft.clone(), Arc::clone(&self.waits));
        let counts = Arc::clone(metrics);
        self.tasks.spawn(async move {
            waits::lead(raft, waits, counts).await;
            Ok(())
        });
    }

    /// Where it listens.
    #[must_use]
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// What it knows about itself and its cluster.
    #[must_use]
    pub fn raft(&self) -> &RaftNode {
        &self.raft
    }

    /// Whether calls should be sent here; `Err` says what is missing.
    ///
    /// # Errors
    ///
    /// A sentence, as `/readyz` gives it.
    pub fn ready(&self) -> Result<(), String> {
        telemetry::Probe::ready(&*self.watchdog)
    }

    /// Waits until the node has to end by itself, and says why.
    pub async fn ended(&mut self) -> NodeError {
        loop {
            let done = tokio::select! {
                fatal = self.raft.fatal() => return self.fatal(fatal),
                Some(done) = self.clients.join_next() => done,
                Some(done) = self.tasks.join_next() => done,
            };
            match done {
                Ok(Ok(())) => {}
                Ok(Err(error)) => return error,
                Err(gone) => {
                    return FatalError {
                        kind: FatalKind::Raft,
                        message: format!("a task of this node panicked: {gone}"),
                    }
                    .into();
                }
            }
        }
    }

    /// The store knows best what it was.
    fn fatal(&self, fatal: FatalError) -> NodeError {
        match self.store.failure().borrow().clone() {
            Some(failure) => NodeError::Storage(failure),
            None => fatal.into(),
        }
    }

    /// Hands leadership over, stops taking calls, lets those under way end, and gives the data
    /// directory back.
    pub async fn stop(mut self) {
        tracing::info!("stopping");
        self.watchdog.stop();
        self.hand_over().await;
        watchdog::hang_up(&self.health).await;
        // Watches would last as long as the node, too.
        self.history.stop();
        // Now the others know who leads next, and those who wait come back there in time.
        self.waits.calls().stop();
        self.drain.cancel();
        let drained = async { while self.clients.join_next().await.is_some() {} };
        if tokio::time::timeout(DRAIN_MAX, drained).await.is_err() {
            tracing::warn!("calls were still under way when this node stopped");
        }
        self.close().await;
        tracing::info!("stopped");
    }

    /// Gives the office away, if this node leads and somebody else can.
    async fn hand_over(&self) {
        let leads = self.raft.leadership().borrow().role == super::raft::Role::Leader;
        let status = self.raft.status();
        let voters = status.members.iter().filter(|member| member.voter).count();
        if !leads || voters < 2 {
            return;
        }
        let deadline = clock::now() + HAND_OVER_MAX;
        match self.raft.transfer_leader(None, deadline).await {
            Ok(leader) => tracing::info!(leader = leader.node_id, "handed leadership over"),
            Err(error) => tracing::warn!(%error, "could not hand leadership over"),
        }
    }

    /// Ends everything at once, and gives the data directory back.
    pub async fn close(mut self) {
        self.waits.calls().stop();
        self.history.stop();
        self.drain.cancel();
        self.clients.shutdown().await;
        self.inward.close();
        self.raft.shutdown().await;
        self.tasks.shutdown().await;
        let Node {
            store,
            raft,
            watchdog,
            inward,
            waits,
            ..
        } = self;
        drop((raft, watchdog, inward, waits));
        let deadline = clock::now() + LET_GO_MAX;
        while Arc::strong_count(&store) > 1 && clock::now() < deadline {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        // It waits for the storage thread.
        let closed = tokio::task::spawn_blocking(move || drop(store));
        if closed.await.is_err() {
            tracing::error!("the store panicked while it was closed");
        }
    }
}

/// What one stream of operations may have in flight: as many may wait on it as in one queue.
fn pipeline_limits(config: &Config) -> PipelineLimits {
    PipelineLimits {
        operations: config.pipelined_max,
        waits: usize::try_from(WAITERS_PER_RESOURCE_MAX).unwrap_or(usize::MAX),
    }
}

/// Opens the data directory, off the async threads: it reads and checks all of it.
async fn open_store(config: &Config, metrics: &Arc<Metrics>) -> Result<SharedStore, NodeError> {
    let mut options = Options::new(config.node_id, InstanceId::from_bytes(random_id()));
    options.cache_bytes = config.cache_bytes;
    options.space_floor_bytes = config.free_bytes_min;
    options.observer = Arc::new(Observer(Arc::clone(metrics)));
    let dir = config.data_dir.clone();
    let opened = tokio::task::spawn_blocking(move || DiskStore::open(&dir, &options));
    let (store, recovered) = match opened.await {
        Ok(opened) => opened?,
        Err(panic) => std::panic::resume_unwind(panic.into_panic()),
    };
    same_issuer(config, &recovered.identity)?;
    for repair in &recovered.repairs {
        tracing::warn!(%repair, "repaired the data directory");
    }
    tracing::info!(
        node_id = recovered.identity.node_id,
        instance = %recovered.identity.instance,
        boots = recovered.boots,
        last_log_index = recovered.log.last.map(|id| id.index),
        "opened the data directory"
    );
    Ok(Arc::new(store))
}

/// The issuer is part of every token's scope: under another name, guards would refuse all tokens as
/// foreign, or compare what must not be compared.
fn same_issuer(config: &Config, identity: &Identity) -> Result<(), NodeError> {
    match identity.ready() {
        Some(ready) if ready.issuer != config.issuer => Err(FatalError {
            kind: FatalKind::Identity,
            message: format!(
                "this data directory issues tokens as {:?}, but --issuer says {:?}: a cluster keeps its \
                 issuer for good. Start it with --issuer {:?}, or found another cluster with empty data \
                 directories",
                ready.issuer.as_str(),
                config.issuer.as_str(),
                ready.issuer.as_str()
            ),
        }
        .into()),
        Some(_) | None => Ok(()),
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a data directory, a cluster and a process are named by chance; nothing is decided by it"
)]
fn random_id() -> [u8; 16] {
    rand::random()
}

/// Half of an id, for what is compared among the starts of one directory only.
fn random_life() -> u64 {
    let [_, half] = *random_id().as_chunks::<8>().0 else {
        unreachable!("16 bytes are two times 8")
    };
    u64::from_be_bytes(half)
}

fn open_audit_log(
    config: &Config,
    store: &SharedStore,
    metrics: &Arc<Metrics>,
) -> Result<Option<Arc<dyn AppliedSink>>, NodeError> {
    let Some(path) = &config.audit_log else {
        return Ok(None);
    };
    let (store, metrics) = (Arc::clone(store), Arc::clone(metrics));
    let log = AuditLog::open(path, config.issuer.clone(), store, metrics);
    let log = log.map_err(|source| NodeError::Audit {
        path: path.clone(),
        source,
    })?;
    Ok(Some(Arc::new(log)))
}

fn raft_config(config: &Config, addresses: &Addresses) -> Result<RaftConfig, NodeError> {
    let (bootstrap, listed) = match &config.membership {
        Membership::Join => (Bootstrap::Join, None),
        Membership::Founding(peers) => {
            let list = FoundingList::new(peers.clone()).map_err(|error| FatalError {
                kind: FatalKind::Identity,
                message: error.to_string(),
            })?;
            let own = peers.get(&config.node_id).cloned();
            (Bootstrap::Found(list), own)
        }
    };
    let peer_address = config.peer_advertise.clone().or(listed);
    let client_address = config.advertise.clone();
    Ok(RaftConfig {
        issuer: config.issuer.clone(),
        peer_address: peer_address.unwrap_or_else(|| addresses.peer.to_string()),
        client_address: client_address.unwrap_or_else(|| addresses.client.to_string()),
        new_cluster: ClusterId::from_bytes(random_id()),
        life: random_life(),
        bootstrap,
        timing: Timing {
            heartbeat: config.heartbeat,
            election_min: config.election_min,
            election_max: config.election_max,
        },
        snapshots: SnapshotPolicy {
            entries: config.snapshot_entries,
            bytes: config.snapshot_bytes,
        },
        in_flight_max: config.in_flight_max,
        clock: Arc::new(clock::now as fn() -> Instant),
    })
}
