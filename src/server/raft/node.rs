//! The node: openraft, put together with its storage, its state machine and its network.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::{BufMut, Bytes};
use openraft::{
    async_runtime::watch::WatchReceiver,
    errors::{ClientWriteError, ForwardReason, ForwardToLeader},
};
use tokio::{
    net::TcpListener,
    sync::watch::{Receiver, channel},
    time::timeout_at,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tonic::transport::Server;

use super::{
    AppliedSink, FatalError, ForwardError, ForwardHandler, LeaderHint, Leadership, ProposeError,
    RaftConfig, ReadError, Roster, StateMachine, StateMachineParts, StateView, Status,
    VouchHandler,
    admission::{Admission, Permit, RETRY_AFTER},
    encoding::command_head,
    fate::Fate,
    forming, forward,
    log::LogStore,
    network::{Dialer, Local, PeerService, Switchboard},
    reach,
    reads::{self, Barrier},
    settings,
    touch::Heard,
    types::{Answer, Proposal, Types, ours},
    vigil, watch,
};
use crate::{
    issuer::{Command, LogId, Outcome, codec},
    limits::COMMAND_BYTES_MAX,
    server::{
        port::{Entrance, EntranceCounts},
        store::SharedStore,
    },
};

/// How long the calls of other nodes may still take once this one stops.
const PEERS_END_MAX: Duration = Duration::from_secs(1);

pub(super) type Raft = openraft::Raft<Types, StateMachine>;

/// How long a new leader's first proposals wait between two looks whether a quorum answered it.
const FIRST_QUORUM: Duration = Duration::from_millis(2);

/// One node of the cluster. Clones are the same node.
#[derive(Clone)]
pub struct RaftNode {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    pub(super) raft: Raft,
    pub(super) local: Arc<Local>,
    pub(super) store: SharedStore,
    pub(super) switchboard: Arc<Switchboard>,
    pub(super) view: StateView,
    pub(super) roster: Receiver<Arc<Roster>>,
    pub(super) fate: Fate,
    pub(super) admission: Admission,
    pub(super) elections: Arc<AtomicU64>,
    /// What a forming node waits for.
    pub(super) waits_for: Mutex<String>,
    barrier: Barrier,
    pub(super) leadership: Receiver<Leadership>,
    pub(super) service: PeerService,
    /// At the peer port.
    peers: Entrance,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// Who carries out what other nodes ask beyond Raft.
#[derive(Clone)]
pub struct Handlers {
    /// Clients' calls that were passed on.
    pub forward: Arc<dyn ForwardHandler>,
    /// Who is attached to other nodes.
    pub vouch: Arc<dyn VouchHandler>,
}

/// An entry that was committed and applied here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    /// Its place in the log.
    pub at: LogId,
    /// What the state machine answered.
    pub outcome: Outcome,
}

impl RaftNode {
    /// Starts a node on an open store. It forms, joins or rejoins its cluster in the background: see
    /// [`RaftNode::ready`]. Its peers must be able to reach it meanwhile: see
    /// [`RaftNode::serve_peers`].
    pub async fn start(
        config: RaftConfig,
        store: SharedStore,
        sinks: Vec<Arc<dyn AppliedSink>>,
        handlers: Handlers,
    ) -> Result<Self, FatalError> {
        let fate = Fate::new();
        let machine = StateMachine::with_fate(
            StateMachineParts {
                store: Arc::clone(&store),
                issuer: config.issuer.clone(),
                snapshots: config.snapshots,
                clock: Arc::clone(&config.clock),
                sinks,
            },
            fate.clone(),
        );
        let (view, roster, full) = (machine.view(), machine.roster(), machine.full());
        let local = Arc::new(Local::new(config, Arc::clone(&store)));
        let switchboard = Arc::new(Switchboard::default());
        let dialer = Dialer {
            local: Arc::clone(&local),
            switchboard: Arc::clone(&switchboard),
            fate: fate.clone(),
            seen: Arc::default(),
        };
        let settings = Arc::new(settings::openraft(&local.config)?);
        let log = LogStore::new(Arc::clone(&store));
        let raft = Raft::new(local.node_id, settings, dialer.clone(), log, machine).await;
        let raft = raft.map_err(|fatal| watch::why(&fatal, &fate, &store))?;

        let gate = Arc::new(dialer.gate(roster.clone()));
        let (barrier, reads) = Barrier::new();
        let elections = Arc::new(AtomicU64::new(0));
        let (leadership, led) = channel(watch::leadership(&raft));
        let stop = CancellationToken::new();
        let service = PeerService {
            raft: raft.clone(),
            local: Arc::clone(&local),
            gate,
            handlers,
            fate: fate.clone(),
            heard: Heard::default(),
            stop: stop.clone(),
        };
        let node = Self {
            inner: Arc::new(Inner {
                raft: raft.clone(),
                admission: Admission::new(local.config.in_flight_max),
                local,
                store,
                switchboard,
                view,
                roster,
                fate,
                elections: Arc::clone(&elections),
                waits_for: Mutex::default(),
                barrier,
                leadership: led,
                service,
                peers: Entrance::new("peer", settings::PEER_CONNECTIONS_MAX),
                tasks: TaskTracker::new(),
                stop,
            }),
        };
        node.spawn(vigil::watch(raft.clone(), dialer, node.leadership()));
        node.spawn(reads::run(raft.clone(), reads));
        node.spawn(watch::follow(raft.clone(), leadership, elections));
        node.spawn(watch::fold(raft, full));
        node.spawn_watchers();
        Ok(node)
    }

    /// Starts what looks after the whole node: it ends it when it must, tells who falls silent, and forms
    /// or joins the cluster.
    fn spawn_watchers(&self) {
        let inner = &self.inner;
        self.spawn(watch::guard(
            inner.raft.clone(),
            inner.fate.clone(),
            Arc::clone(&inner.store),
            inner.roster.clone(),
        ));
        self.spawn(reach::watch(self.clone()));
        self.spawn(forming::run(self.clone()));
    }

    /// Runs a task for as long as the node does.
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let stop = self.inner.stop.clone();
        self.inner.tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = task => {}
            }
        });
    }

    /// Answers the other nodes on `listener`, until [`RaftNode::shutdown`].
    pub async fn serve_peers(&self, listener: TcpListener) -> Result<(), tonic::transport::Error> {
        let incoming = self
            .inner
            .peers
            .clone()
            .stream(listener, settings::PEER_BEGIN);
        let stop = self.inner.stop.clone();
        let service = self.inner.service.clone().into_server();
        let mut server = settings::peer_server(Server::builder());
        let serving = server
            .add_service(service)
            .serve_with_incoming_shutdown(incoming, stop.cancelled());
        let overdue = async {
            stop.cancelled().await;
            tokio::time::sleep(PEERS_END_MAX).await;
        };
        tokio::select! {
            served = serving => served,
            () = overdue => Ok(()),
        }
    }

    /// What went through the peer port.
    #[must_use]
    pub fn peer_connections(&self) -> EntranceCounts {
        self.inner.peers.counts()
    }

    /// Proposes a command, and waits until it is applied here, or until `deadline`.
    ///
    /// A leader that has just been elected waits for its first quorum before it takes anything; that
    /// moment is waited for here, and not told to the caller.
    pub async fn propose(
        &self,
        command: &Command,
        deadline: Instant,
    ) -> Result<Committed, ProposeError> {
        let inner = &self.inner;
        if inner.fate.now().is_some() || inner.stop.is_cancelled() {
            return Err(ProposeError::Stopped);
        }
        let Some(permit) = inner.admission.admit(command) else {
            return Err(ProposeError::Overloaded {
                retry_after: RETRY_AFTER,
            });
        };
        let proposal = encode(command)?;
        let deadline = tokio::time::Instant::from_std(deadline);
        let patience = deadline.min(inner.local.now() + inner.local.config.timing.election_max);
        loop {
            match self
                .write(proposal.clone(), permit.clone(), deadline)
                .await?
            {
                Ok(committed) => return Ok(committed),
                Err(ClientWriteError::ForwardToLeader(forward))
                    if forward.reason == ForwardReason::LeaseExpired
                        && inner.local.now() < patience =>
                {
                    tokio::time::sleep(FIRST_QUORUM).await;
                }
                Err(error) => return Err(self.not_written(error)),
            }
        }
    }

    /// Hands an entry to Raft once. The inner error is what Raft says to it.
    async fn write(
        &self,
        proposal: Proposal,
        permit: Permit,
        deadline: tokio::time::Instant,
    ) -> Result<Result<Committed, ClientWriteError<Types>>, ProposeError> {
        let (answer, applied) = Answer::pair(permit);
        let sent = self.inner.raft.client_write_ff(proposal, Some(answer));
        match timeout_at(deadline, sent).await {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(ProposeError::Stopped),
            Err(_) => return Err(ProposeError::TooLate),
        }
        match timeout_at(deadline, applied).await {
            Ok(Ok(Ok(response))) => {
                let at = ours(response.log_id);
                let outcome = response
                    .data
                    .0
                    .expect("a command's entry answers with an outcome");
                Ok(Ok(Committed { at, outcome }))
            }
            Ok(Ok(Err(error))) => Ok(Err(error)),
            Ok(Err(_)) => Err(ProposeError::Unknown {
                why: "this node stopped meanwhile",
            }),
            Err(_) => Err(ProposeError::Unknown {
                why: "the deadline passed",
            }),
        }
    }

    fn not_written(&self, error: ClientWriteError<Types>) -> ProposeError {
        match error {
            ClientWriteError::ForwardToLeader(forward) => ProposeError::NotLeader {
                hint: self.hint(&forward),
            },
            ClientWriteError::LogEntryDiscarded(_) => ProposeError::Unknown {
                why: "another leader took over meanwhile",
            },
            ClientWriteError::ChangeMembershipError(_)
            | ClientWriteError::PreconditionFailed(_) => ProposeError::Unknown {
                why: "Raft answered what does not belong to a command",
            },
        }
    }

    /// Waits until reads here reflect everything that was acknowledged before this call, or until
    /// `deadline`.
    pub async fn read_barrier(&self, deadline: Instant) -> Result<(), ReadError> {
        let deadline = tokio::time::Instant::from_std(deadline);
        match timeout_at(deadline, self.inner.barrier.pass()).await {
            Ok(verdict) => verdict.into_result(|leader| self.hint_of(leader?)),
            Err(_) => Err(ReadError::NoQuorum),
        }
    }

    /// The state, to read from. Pass [`RaftNode::read_barrier`] first where it must be current.
    #[must_use]
    pub fn state(&self) -> &StateView {
        &self.inner.view
    }

    /// Who leads, now and whenever it changes.
    #[must_use]
    pub fn leadership(&self) -> Receiver<Leadership> {
        self.inner.leadership.clone()
    }

    /// Everything that this node knows about itself and its cluster.
    #[must_use]
    pub fn status(&self) -> Status {
        watch::collect(&self.inner)
    }

    /// Passes a call to the leader, and waits for the answer until `deadline`.
    pub async fn forward(
        &self,
        method: &str,
        body: Bytes,
        deadline: Instant,
    ) -> Result<Bytes, ForwardError> {
        let inner = &self.inner;
        let leader = inner.leadership.borrow().leader.clone();
        let Some(hint) = leader else {
            return Err(ForwardError::NotLeader { hint: None });
        };
        if hint.node_id == inner.local.node_id {
            return Err(ForwardError::IsLeader);
        }
        let Some(instance) = self.record(hint.node_id, |record| record.instance) else {
            return Err(ForwardError::NotLeader { hint: None });
        };
        let deadline = tokio::time::Instant::from_std(deadline);
        let leader = forward::Leader { hint, instance };
        forward::send(
            &inner.local,
            &inner.switchboard,
            &leader,
            (method, body),
            deadline,
        )
        .await
    }

    /// What this node waits for while it belongs to no cluster, in words.
    #[must_use]
    pub fn waits_for(&self) -> Option<String> {
        if self.leadership().borrow().role != super::Role::Forming {
            return None;
        }
        let said = &self.inner.waits_for;
        Some(said.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    /// Says what this node waits for.
    pub(super) fn wait_for(&self, what: String) {
        let said = &self.inner.waits_for;
        *said.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    /// Waits until this node belongs to a cluster and knows its members, or until it has to end.
    pub async fn ready(&self) -> Result<(), FatalError> {
        let mut metrics = self.inner.raft.metrics();
        let known = async {
            loop {
                if metrics
                    .borrow_watched()
                    .membership_config
                    .log_id()
                    .is_some()
                {
                    return;
                }
                if metrics.changed().await.is_err() {
                    // Raft is gone; the fate says why.
                    std::future::pending::<()>().await;
                }
            }
        };
        tokio::select! {
            () = known => Ok(()),
            fatal = self.inner.fate.sealed() => Err(fatal),
        }
    }

    /// Waits until the node has to end, and says why. The process then exits.
    pub async fn fatal(&self) -> FatalError {
        self.inner.fate.sealed().await
    }

    /// Stops Raft and everything around it. The store stays open; whoever opened it closes it.
    pub async fn shutdown(&self) {
        self.inner.stop.cancel();
        // The only error is that Raft's task panicked, and it is gone either way.
        drop(self.inner.raft.shutdown().await);
        self.inner.tasks.close();
        self.inner.tasks.wait().await;
    }

    /// What the membership says about a node, as Raft follows it here.
    pub(super) fn record<T>(
        &self,
        id: u64,
        look: impl FnOnce(&super::NodeRecord) -> T,
    ) -> Option<T> {
        let metrics = self.inner.raft.metrics();
        let metrics = metrics.borrow_watched();
        metrics
            .membership_config
            .membership()
            .get_node(&id)
            .map(look)
    }

    pub(super) fn hint_of(&self, id: u64) -> Option<LeaderHint> {
        let hint = self.record(id, |record| LeaderHint::new(id, record));
        Some(hint.unwrap_or_else(|| LeaderHint::unknown(id)))
    }

    /// Whom to ask instead. Raft may name this node itself while it hands its office over, or has lost
    /// its quorum: then nobody is named.
    pub(super) fn hint(&self, forward: &ForwardToLeader<Types>) -> Option<LeaderHint> {
        let own = self.inner.local.node_id;
        let named = forward.leader_id.and_then(|id| self.hint_of(id));
        let known = || self.inner.leadership.borrow().leader.clone();
        named.or_else(known).filter(|leader| leader.node_id != own)
    }

    /// The members as this node has applied them.
    #[must_use]
    pub fn roster(&self) -> Arc<Roster> {
        Arc::clone(&self.inner.roster.borrow())
    }

    /// How often this node saw a new term begin since it started.
    #[must_use]
    pub fn elections(&self) -> u64 {
        self.inner.elections.load(Ordering::Relaxed)
    }
}

/// Encodes a command once and for all.
fn encode(command: &Command) -> Result<Proposal, ProposeError> {
    let body = codec::encode_command(command).map_err(|long| ProposeError::TooLarge {
        bytes: long.bytes,
        max: COMMAND_BYTES_MAX,
    })?;
    let mut payload = command_head(body.len());
    payload.put_slice(&body);
    Ok(Proposal(payload.freeze()))
}

pub(super) type Records = BTreeMap<u64, super::NodeRecord>;
