//! Nodes and clusters in one process.

use std::{
    collections::BTreeMap,
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use fencepost::{
    grant::{ClusterId, Ttl},
    issuer::{Acquire, AcquireOutcome, Command, Outcome, RequestKey},
    resource::{Holder, IssuerName, ResourceName},
    server::{
        raft::{
            Attached, Bootstrap, Committed, FatalError, ForwardHandler, Forwarded, FoundingList,
            Handlers, ProposeError, RaftConfig, RaftNode, Role, SnapshotPolicy, Status, Timing,
            VouchHandler,
        },
        store::{InstanceId, MemoryDisk, MemoryStore},
    },
    token::Token,
};
use tokio::{net::TcpListener, runtime::Runtime};

/// How long anything may take on a machine that is busy with other tests.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

static NEXT: AtomicU64 = AtomicU64::new(1);

/// A number that no other node of this process has.
fn fresh() -> u64 {
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// 128 bits that no other node of this process has.
pub(crate) fn fresh_bits() -> u128 {
    u128::from(fresh()) << 64 | u128::from(std::process::id())
}

/// Waits until `holds`, and says what did not hold otherwise.
pub(crate) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < end, "not within {LIMIT:?}: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Watches that something stays as it is for a while.
pub(crate) async fn stays(what: &str, time: Duration, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + time;
    while Instant::now() < end {
        assert!(holds(), "it did not stay so: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Answers forwarded calls with what it was sent, so that a test sees where they arrived, and keeps what
/// it was vouched for.
pub(crate) struct Echo {
    id: u64,
    /// What came last.
    pub(crate) attached: Mutex<Vec<Attached>>,
    /// Whether it takes note.
    pub(crate) notes: AtomicBool,
}

impl Echo {
    fn new(id: u64) -> Arc<Self> {
        Arc::new(Self {
            id,
            attached: Mutex::default(),
            notes: AtomicBool::new(true),
        })
    }
}

impl VouchHandler for Echo {
    fn vouched(&self, places: &[Attached]) -> bool {
        *self.attached.lock().unwrap() = places.to_vec();
        self.notes.load(Ordering::Relaxed)
    }
}

impl ForwardHandler for Echo {
    fn handle<'a>(
        &'a self,
        method: String,
        body: Bytes,
        _: Duration,
    ) -> Pin<Box<dyn Future<Output = Forwarded> + Send + 'a>> {
        let answer = format!("node {} did {method} with {} bytes", self.id, body.len());
        Box::pin(async move { Forwarded::Done(Bytes::from(answer)) })
    }
}

/// A port of this machine that is free, and stays this node's across restarts.
pub(crate) fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

/// What a node keeps when it is not running: its disk, and its configuration.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) id: u64,
    pub(crate) disk: MemoryDisk,
    /// Where others reach it.
    pub(crate) address: String,
    /// Where it listens, if something stands in between.
    pub(crate) listen: Option<String>,
    pub(crate) bootstrap: Bootstrap,
    pub(crate) issuer: String,
    pub(crate) snapshots: SnapshotPolicy,
    pub(crate) in_flight_max: usize,
}

impl Site {
    /// A new node that founds with `list`.
    pub(crate) fn founding(id: u64, list: &BTreeMap<u64, String>) -> Self {
        let bootstrap = Bootstrap::Found(FoundingList::new(list.clone()).unwrap());
        Self::new(id, list[&id].clone(), bootstrap)
    }

    /// A new node that waits to be added.
    pub(crate) fn joining(id: u64) -> Self {
        Self::new(id, free_address(), Bootstrap::Join)
    }

    fn new(id: u64, address: String, bootstrap: Bootstrap) -> Self {
        Self {
            id,
            disk: blank_disk(id),
            address,
            listen: None,
            bootstrap,
            issuer: "test".into(),
            snapshots: SnapshotPolicy::default(),
            in_flight_max: 4_096,
        }
    }

    fn config(&self) -> RaftConfig {
        RaftConfig {
            issuer: IssuerName::new(self.issuer.as_str()).unwrap(),
            peer_address: self.address.clone(),
            client_address: format!("client-of-{}", self.id),
            new_cluster: ClusterId::new(fresh_bits()),
            life: fresh(),
            bootstrap: self.bootstrap.clone(),
            timing: Timing::default(),
            snapshots: self.snapshots,
            in_flight_max: self.in_flight_max,
            clock: Arc::new(Instant::now),
        }
    }

    /// Starts the node. It forms, joins or rejoins in the background.
    pub(crate) async fn start(&self) -> Node {
        self.try_start().await.expect("the node starts")
    }

    pub(crate) async fn try_start(&self) -> Result<Node, FatalError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let listen = self.listen.as_ref().unwrap_or(&self.address);
        let address: SocketAddr = listen.parse().unwrap();
        let (store, _) = MemoryStore::open(&self.disk);
        let (config, echo) = (self.config(), Echo::new(self.id));
        let handlers = Handlers {
            forward: Arc::clone(&echo) as Arc<dyn ForwardHandler>,
            vouch: Arc::clone(&echo) as Arc<dyn VouchHandler>,
        };
        let starting = runtime.spawn(async move {
            let listener = bind(address).await;
            let node = RaftNode::start(config, Arc::new(store), Vec::new(), handlers).await?;
            let serving = node.clone();
            tokio::spawn(async move { serving.serve_peers(listener).await });
            Ok(node)
        });
        let raft = starting.await.unwrap();
        raft.map(|raft| Node {
            raft,
            echo,
            site: self.clone(),
            runtime: Some(runtime),
        })
    }
}

/// A port may be busy for a moment after its node was killed.
async fn bind(address: SocketAddr) -> TcpListener {
    let end = Instant::now() + LIMIT;
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(error) => assert!(Instant::now() < end, "{address}: {error}"),
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

pub(crate) fn blank_disk(id: u64) -> MemoryDisk {
    MemoryDisk::new(id, InstanceId::new(fresh_bits()))
}

/// A running node.
pub(crate) struct Node {
    pub(crate) raft: RaftNode,
    pub(crate) echo: Arc<Echo>,
    pub(crate) site: Site,
    runtime: Option<Runtime>,
}

impl Node {
    /// Ends it like kill -9: nothing is said to anybody.
    pub(crate) fn kill(mut self) -> Site {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
        self.site.clone()
    }

    /// Stands still for a while, like a stopped process: its connections stay open.
    pub(crate) fn pause(&self, time: Duration) {
        let runtime = self.runtime.as_ref().expect("the node runs");
        // Its one worker thread does nothing else meanwhile.
        runtime.spawn(async move { std::thread::sleep(time) });
    }

    pub(crate) fn status(&self) -> Status {
        self.raft.status()
    }

    pub(crate) fn leads(&self) -> bool {
        self.status().leadership.role == Role::Leader
    }

    pub(crate) fn applied(&self) -> u64 {
        self.status().applied.map_or(0, |at| at.index)
    }

    pub(crate) async fn propose(&self, command: &Command) -> Result<Committed, ProposeError> {
        self.raft.propose(command, Instant::now() + LIMIT).await
    }

    /// The chained hash of the state, and where it stands.
    pub(crate) fn hash(&self) -> Option<(u64, [u8; 32])> {
        self.raft.state().read(|replica| {
            let machine = replica.machine();
            (machine.applied().index, machine.chain())
        })
    }

    /// Waits until the node must end, and says why.
    pub(crate) async fn fatal(&self) -> FatalError {
        let fatal = tokio::time::timeout(LIMIT, self.raft.fatal()).await;
        fatal.expect("the node ends")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

/// An acquire with a request id of its own.
pub(crate) fn acquire(resource: &str, holder: &str) -> Command {
    Command::Acquire(Acquire {
        resource: ResourceName::new(resource).unwrap(),
        holder: Holder::new(holder).unwrap(),
        ttl: Ttl::from_ms(60_000).unwrap(),
        request: RequestKey::from_bytes(fresh_bits().to_be_bytes()),
        attempt: 1,
        asked_at: None,
        wait_ms: 0,
        stamped_at_ms: 0,
    })
}

/// The token that an acquire was granted.
pub(crate) fn token(committed: &Committed) -> Token {
    match &committed.outcome {
        Outcome::Acquire(AcquireOutcome::Granted { token, .. }) => *token,
        other => panic!("not a grant: {other:?}"),
    }
}

/// Nodes of one cluster, by id.
pub(crate) struct Cluster {
    pub(crate) nodes: BTreeMap<u64, Node>,
}

impl Cluster {
    /// Founds a cluster of so many nodes, and waits until one leads.
    pub(crate) async fn of(count: u64) -> Self {
        Self::with(count, |_| {}).await
    }

    pub(crate) async fn with(count: u64, adjust: impl Fn(&mut Site)) -> Self {
        let mut nodes = BTreeMap::new();
        for mut site in sites(count) {
            adjust(&mut site);
            nodes.insert(site.id, site.start().await);
        }
        let cluster = Self { nodes };
        cluster.leader().await;
        cluster
    }

    /// Waits until one node leads and all others that run know it.
    pub(crate) async fn leader(&self) -> &Node {
        eventually("one node leads and all know it", || self.agreed().is_some()).await;
        &self.nodes[&self
            .agreed()
            .unwrap_or_else(|| *self.nodes.keys().next().unwrap())]
    }

    fn agreed(&self) -> Option<u64> {
        let mut all = self.nodes.values().map(|node| node.status().leadership);
        let first = all.next()?;
        let leader = first.leader?.node_id;
        let same = all.all(|other| {
            other.term == first.term && other.leader.is_some_and(|other| other.node_id == leader)
        });
        (same && self.nodes.get(&leader)?.leads()).then_some(leader)
    }

    pub(crate) fn followers(&self, leader: u64) -> Vec<u64> {
        self.nodes
            .keys()
            .copied()
            .filter(|id| *id != leader)
            .collect()
    }

    /// Proposes through whoever leads, as often as leadership moves.
    pub(crate) async fn propose(&self, command: &Command) -> Committed {
        let end = Instant::now() + LIMIT;
        loop {
            let leader = self.nodes.values().find(|node| node.leads());
            if let Some(leader) = leader
                && let Ok(committed) = leader.propose(command).await
            {
                return committed;
            }
            assert!(Instant::now() < end, "no leader took the proposal");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Waits until all nodes have applied the same, and compares their states.
    pub(crate) async fn converge(&self) {
        eventually("all nodes have applied the same", || {
            let mut hashes = self.nodes.values().map(Node::hash);
            let first = hashes.next().flatten();
            first.is_some() && hashes.all(|hash| hash == first)
        })
        .await;
    }

    pub(crate) fn kill(&mut self, id: u64) -> Site {
        self.nodes.remove(&id).expect("the node runs").kill()
    }

    pub(crate) async fn restart(&mut self, site: &Site) {
        self.nodes.insert(site.id, site.start().await);
    }
}

/// New nodes that have each other in their lists.
pub(crate) fn sites(count: u64) -> Vec<Site> {
    let list = addresses(count);
    (1..=count).map(|id| Site::founding(id, &list)).collect()
}

pub(crate) fn addresses(count: u64) -> BTreeMap<u64, String> {
    // Bound together, so that no two get the same port.
    let bound: Vec<_> = (0..count)
        .map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    let addresses = bound
        .iter()
        .map(|one| one.local_addr().unwrap().to_string());
    (1..=count).zip(addresses).collect()
}
