//! The nodes of a development cluster, all in this process.

use std::time::Duration;

use fencepost::{
    client::{Client, Options},
    server::{
        config::{Config, Sources},
        node::{Listeners, Node, NodeError},
    },
};
use tokio::{sync::mpsc, task::JoinSet};
use tokio_util::sync::CancellationToken;

use super::{
    super::{
        exit::{Failure, UNEXPECTED},
        serve,
    },
    place::{Place, Seat},
};

/// Who issues in a development cluster. No guard that is told its issuer will take these tokens for
/// those of another cluster.
const ISSUER: &str = "dev";

/// How long the nodes may take until they are all ready.
const FORMING_MAX: Duration = Duration::from_secs(30);

/// How often a node is asked whether it is ready.
const LOOK: Duration = Duration::from_millis(20);

/// All nodes.
pub(super) struct Cluster {
    bound: Vec<(Config, Listeners)>,
    running: JoinSet<Result<(), NodeError>>,
    stop: CancellationToken,
    /// One message for each node that has become ready.
    ready: (mpsc::Sender<()>, mpsc::Receiver<()>),
    count: usize,
}

impl Cluster {
    /// Judges the configuration of all nodes and binds all their ports, before any is started.
    pub(super) async fn bind(place: &Place) -> Result<Self, Failure> {
        let mut bound = Vec::new();
        for seat in &place.seats {
            let config = configuration(place, seat).map_err(|error| serve::failure(&error))?;
            let listeners = Listeners::bind(&config).await;
            let listeners = listeners.map_err(|error| serve::failure(&error))?;
            bound.push((config, listeners));
        }
        Ok(Self {
            count: bound.len(),
            bound,
            running: JoinSet::new(),
            stop: CancellationToken::new(),
            ready: mpsc::channel(place.seats.len()),
        })
    }

    /// Starts them, each in a task of its own.
    pub(super) fn start(&mut self) {
        for (config, listeners) in self.bound.drain(..) {
            let (stop, ready) = (self.stop.clone(), self.ready.0.clone());
            self.running.spawn(live(config, listeners, stop, ready));
        }
    }

    /// Waits until all nodes are ready. Gives the id of the leader.
    pub(super) async fn formed(&mut self, place: &Place) -> Result<u64, Failure> {
        let forming = async {
            for _ in 0..self.count {
                tokio::select! {
                    _ = self.ready.1.recv() => {}
                    ended = ended(&mut self.running) => return Err(ended),
                }
            }
            leader(place).await
        };
        tokio::time::timeout(FORMING_MAX, forming)
            .await
            .unwrap_or_else(|_| {
                let waited = FORMING_MAX.as_secs();
                let message = format!("the nodes were not ready within {waited} s");
                Err(Failure::new(UNEXPECTED, message)
                    .hint("--log-level info shows what they wait for"))
            })
    }

    /// Waits until a node has to end by itself, and says why.
    pub(super) async fn ended(&mut self) -> Failure {
        ended(&mut self.running).await
    }

    /// Stops all nodes, and waits until they have let go of their directories.
    pub(super) async fn close(&mut self) {
        self.stop.cancel();
        while self.running.join_next().await.is_some() {}
    }
}

async fn ended(running: &mut JoinSet<Result<(), NodeError>>) -> Failure {
    match running.join_next().await {
        Some(Ok(Err(error))) => serve::failure(&error),
        Some(Err(error)) => Failure::new(UNEXPECTED, format_args!("a node ended: {error}")),
        Some(Ok(Ok(()))) | None => Failure::new(UNEXPECTED, "a node ended without a reason"),
    }
}

/// The life of one node.
async fn live(
    config: Config,
    listeners: Listeners,
    stop: CancellationToken,
    ready: mpsc::Sender<()>,
) -> Result<(), NodeError> {
    let mut node = Node::start(&config, listeners).await?;
    let mut told = false;
    let ended = loop {
        tokio::select! {
            error = node.ended() => break Err(error),
            () = stop.cancelled() => break Ok(()),
            () = tokio::time::sleep(LOOK), if !told => {
                if node.ready().is_ok() {
                    // Nobody may be waiting any more.
                    let _ = ready.send(()).await;
                    told = true;
                }
            }
        }
    };
    // All nodes stop at once, so there is nobody to hand leadership over to.
    node.close().await;
    ended
}

fn configuration(place: &Place, seat: &Seat) -> Result<Config, NodeError> {
    let peers: Vec<_> = place
        .seats
        .iter()
        .map(|seat| format!("{}={}", seat.id, seat.peer))
        .collect();
    let sources = Sources::from_flags([
        ("node-id", seat.id.to_string()),
        ("data-dir", place.data(seat).display().to_string()),
        ("issuer", ISSUER.to_owned()),
        ("listen", seat.client.to_string()),
        ("peer-listen", seat.peer.to_string()),
        ("http-listen", seat.http.to_string()),
        ("peers", peers.join(",")),
    ]);
    Ok(Config::from_sources(&sources)?)
}

async fn leader(place: &Place) -> Result<u64, Failure> {
    let endpoints = place.seats.iter().map(|seat| seat.client.to_string());
    let failed = |error: &dyn std::fmt::Display| Failure::new(UNEXPECTED, error);
    let client = Client::connect(endpoints, Options::default()).map_err(|error| failed(&error))?;
    loop {
        let status = client.status().await.map_err(|error| failed(&error))?;
        if let Some(leader) = status.leader {
            return Ok(leader.node_id);
        }
        tokio::time::sleep(LOOK).await;
    }
}
