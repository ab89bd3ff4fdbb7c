//! Whole nodes in this process, each with its data directory and its ports.

use std::{
    future::Future,
    path::PathBuf,
    time::{Duration, Instant},
};

use fencepost::{
    server::{
        config::{Config, Sources},
        node::{Listeners, Node, NodeError},
        raft::Role,
    },
    wire::v1::{self, cluster_client::ClusterClient, issuer_client::IssuerClient},
};
use tempfile::TempDir;
use tonic::{Code, Status, transport::Channel};

use crate::ports;

/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(30);

/// Waits until `look` finds something.
pub(crate) async fn eventually<T, F>(what: &str, mut look: impl FnMut() -> F) -> T
where
    F: Future<Output = Option<T>>,
{
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// One place for a node, whether one runs there or not.
pub(crate) struct Place {
    pub(crate) flags: Vec<(String, String)>,
    node: Option<Node>,
}

/// The nodes of one cluster, by index from 0; node ids are one higher.
pub(crate) struct Nodes {
    pub(crate) dir: TempDir,
    pub(crate) places: Vec<Place>,
}

impl Nodes {
    /// Starts so many nodes, and waits until one of them leads and all of them know it.
    pub(crate) async fn start(count: usize) -> Self {
        let mut nodes = Self::prepare(count);
        for n in 0..count {
            nodes.run(n).await.unwrap();
        }
        nodes.leader().await;
        nodes
    }

    /// Places without nodes.
    pub(crate) fn prepare(count: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let peer_ports: Vec<u16> = (0..count).map(|_| ports::free()).collect();
        let peers = peer_ports
            .iter()
            .enumerate()
            .map(|(n, port)| format!("{}=127.0.0.1:{port}", n + 1));
        let peers = peers.collect::<Vec<_>>().join(",");
        let places = peer_ports.iter().enumerate().map(|(n, port)| {
            let data_dir: PathBuf = dir.path().join(format!("node-{}", n + 1));
            let flags = [
                ("node-id", (n + 1).to_string()),
                ("data-dir", data_dir.display().to_string()),
                ("peers", peers.clone()),
                ("listen", format!("127.0.0.1:{}", ports::free())),
                ("peer-listen", format!("127.0.0.1:{port}")),
                ("http-listen", format!("127.0.0.1:{}", ports::free())),
                // The machine's disk may be fuller than a node would like it.
                ("free-space-floor", "0".to_owned()),
            ];
            Place {
                flags: flags.map(|(name, value)| (name.to_owned(), value)).to_vec(),
                node: None,
            }
        });
        let places = places.collect();
        Nodes { dir, places }
    }

    /// Sets a flag of a node for its next start.
    pub(crate) fn set(&mut self, n: usize, name: &str, value: &str) {
        let flags = &mut self.places[n].flags;
        flags.retain(|(known, _)| known != name);
        flags.push((name.to_owned(), value.to_owned()));
    }

    pub(crate) fn flag(&self, n: usize, name: &str) -> &str {
        let flags = &self.places[n].flags;
        &flags.iter().find(|(known, _)| known == name).unwrap().1
    }

    pub(crate) fn config(&self, n: usize) -> Config {
        Config::from_sources(&Sources::from_flags(self.places[n].flags.clone())).unwrap()
    }

    /// Starts the node of a place.
    pub(crate) async fn run(&mut self, n: usize) -> Result<(), NodeError> {
        let config = self.config(n);
        let listeners = Listeners::bind(&config).await?;
        self.places[n].node = Some(Node::start(&config, listeners).await?);
        Ok(())
    }

    /// The node of a place that has one.
    pub(crate) fn node(&self, n: usize) -> &Node {
        self.places[n].node.as_ref().unwrap()
    }

    pub(crate) fn node_mut(&mut self, n: usize) -> &mut Node {
        self.places[n].node.as_mut().unwrap()
    }

    /// Stops a node as SIGTERM would.
    pub(crate) async fn stop(&mut self, n: usize) {
        self.places[n].node.take().unwrap().stop().await;
    }

    /// Takes a node away without a word to the others.
    pub(crate) async fn crash(&mut self, n: usize) {
        self.places[n].node.take().unwrap().close().await;
    }

    fn running(&self) -> impl Iterator<Item = (usize, &Node)> {
        let places = self.places.iter().enumerate();
        places.filter_map(|(n, place)| Some((n, place.node.as_ref()?)))
    }

    /// Waits until all nodes that run are ready and agree on a leader that runs.
    pub(crate) async fn leader(&self) -> usize {
        eventually("all nodes agree on a leader", || async {
            let mut leader = None;
            for (n, node) in self.running() {
                node.ready().ok()?;
                let leadership = node.raft().leadership().borrow().clone();
                let known = leadership.leader?.node_id;
                if leadership.role == Role::Leader {
                    leader = Some((n, known));
                }
                if leader.is_some_and(|(_, id)| id != known) {
                    return None;
                }
            }
            let (n, id) = leader?;
            (u64::try_from(n).unwrap() + 1 == id).then_some(n)
        })
        .await
    }

    /// A node that does not lead.
    pub(crate) async fn follower(&self) -> usize {
        let leader = self.leader().await;
        self.running()
            .map(|(n, _)| n)
            .find(|n| *n != leader)
            .unwrap()
    }

    fn channel(&self, n: usize) -> Channel {
        let address = self.node(n).addresses().client;
        Channel::from_shared(format!("http://{address}"))
            .unwrap()
            .connect_lazy()
    }

    pub(crate) fn raw(&self, n: usize) -> Channel {
        self.channel(n)
    }

    pub(crate) fn issuer(&self, n: usize) -> IssuerClient<Channel> {
        IssuerClient::new(self.channel(n))
    }

    pub(crate) fn cluster(&self, n: usize) -> ClusterClient<Channel> {
        ClusterClient::new(self.channel(n))
    }
}

/// An acquire with a request id of its own.
pub(crate) fn acquire(resource: &str, holder: &str, ttl_ms: u64) -> v1::AcquireRequest {
    v1::AcquireRequest {
        resource: resource.to_owned(),
        holder: holder.to_owned(),
        ttl_ms,
        ..v1::AcquireRequest::default()
    }
}

/// A release by the holder of `token`.
pub(crate) fn release(resource: &str, holder: &str, token: u64) -> v1::ReleaseRequest {
    v1::ReleaseRequest {
        resource: resource.to_owned(),
        holder: holder.to_owned(),
        token,
    }
}

/// One renewal among those of a call, with the TTL that the grant has.
pub(crate) fn renew(resource: &str, holder: &str, token: u64) -> v1::RenewItem {
    v1::RenewItem {
        resource: resource.to_owned(),
        holder: holder.to_owned(),
        token,
        ttl_ms: 0,
    }
}

/// A question who holds `resource`.
pub(crate) fn inspect(resource: &str) -> v1::InspectRequest {
    v1::InspectRequest {
        resource: resource.to_owned(),
        ..v1::InspectRequest::default()
    }
}

/// Acquires, and insists on a grant.
pub(crate) async fn granted(
    issuer: &mut IssuerClient<Channel>,
    request: v1::AcquireRequest,
) -> v1::Granted {
    let response = issuer.acquire(request).await.unwrap().into_inner();
    match response.outcome.unwrap() {
        v1::acquire_response::Outcome::Granted(granted) => granted,
        other => panic!("not granted: {other:?}"),
    }
}

/// The value of a token that must be there.
pub(crate) fn value(token: Option<&v1::Token>) -> u64 {
    token.unwrap().value
}

/// Reason and metadata of a status, as its `google.rpc.ErrorInfo` has them.
pub(crate) fn error_info(
    status: &Status,
) -> (Code, String, std::collections::HashMap<String, String>) {
    use tonic_types::StatusExt;
    let info = status
        .get_details_error_info()
        .unwrap_or_else(|| panic!("no ErrorInfo: {status:?}"));
    assert_eq!(info.domain, "fencepost");
    (status.code(), info.reason, info.metadata)
}
