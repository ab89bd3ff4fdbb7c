//! A cluster of real processes, started by the binary itself.

use crate::binary;
use crate::ports;
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::Child;

/// Three nodes on loopback; killed when dropped.
pub(crate) struct Cluster {
    directory: TempDir,
    clients: Vec<String>,
    peers: Vec<String>,
    http: Vec<String>,
    nodes: Vec<Option<Child>>,
}

impl Cluster {
    /// Starts three nodes and returns once they have a leader.
    pub(crate) async fn start() -> Self {
        let address = |_| format!("127.0.0.1:{}", ports::free());
        let mut cluster = Self {
            directory: tempfile::tempdir().unwrap(),
            clients: (0..4).map(address).collect(),
            peers: (0..4).map(address).collect(),
            http: (0..4).map(address).collect(),
            nodes: Vec::new(),
        };
        let founders: Vec<_> = (0..3)
            .map(|n| format!("{}={}", n + 1, cluster.peers[n]))
            .collect();
        for number in 0..3 {
            let node = cluster.spawn(number, &["--peers", &founders.join(",")]);
            cluster.nodes.push(Some(node));
        }
        cluster.leader().await;
        cluster
    }

    /// Starts a fourth node, blank, to be added; returns its peer address.
    pub(crate) fn join(&mut self) -> String {
        let node = self.spawn(3, &["--join"]);
        self.nodes.push(Some(node));
        self.peers[3].clone()
    }

    fn spawn(&self, number: usize, more: &[&str]) -> Child {
        let id = (number + 1).to_string();
        let mut command = binary();
        command
            .args(["serve", "--node-id", &id, "--listen", &self.clients[number]])
            .args([
                "--peer-listen",
                &self.peers[number],
                "--http-listen",
                &self.http[number],
            ])
            .arg("--data-dir")
            .arg(self.directory.path().join(&id))
            .args(more)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.spawn().unwrap()
    }

    /// All client addresses, as `--endpoints` takes them.
    pub(crate) fn endpoints(&self) -> String {
        self.clients[..self.nodes.len()].join(",")
    }

    /// All HTTP addresses, as `bench --metrics` takes them.
    pub(crate) fn metrics(&self) -> String {
        self.http[..self.nodes.len()].join(",")
    }

    /// Which node leads, once one does.
    pub(crate) async fn leader(&self) -> usize {
        let wait = async {
            loop {
                let run =
                    crate::fencepost(&["status", "-o", "json", "--endpoints", &self.endpoints()])
                        .await;
                let leader = (run.code == Some(0)).then(|| run.json()["leader"]["address"].clone());
                let address = leader.as_ref().and_then(|leader| leader.as_str());
                let up = |n: &usize| {
                    self.nodes[*n].is_some() && Some(self.clients[*n].as_str()) == address
                };
                if let Some(number) = (0..self.nodes.len()).find(up) {
                    return number;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), wait)
            .await
            .expect("a leader is elected")
    }

    pub(crate) async fn kill(&mut self, number: usize) {
        let mut node = self.nodes[number].take().unwrap();
        node.kill().await.unwrap();
    }

    /// Stops a node without ending it: it keeps its connections, and answers nothing.
    pub(crate) async fn freeze(&self, number: usize) {
        self.signal(number, "STOP").await;
    }

    /// Lets a stopped node go on.
    pub(crate) async fn thaw(&self, number: usize) {
        self.signal(number, "CONT").await;
    }

    async fn signal(&self, number: usize, signal: &str) {
        let node = self.nodes[number].as_ref().unwrap();
        let pid = node.id().unwrap().to_string();
        let kill = tokio::process::Command::new("kill")
            .args(["-s", signal, &pid])
            .status()
            .await;
        assert!(kill.unwrap().success());
    }
}
