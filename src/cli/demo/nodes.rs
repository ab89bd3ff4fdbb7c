//! Three nodes, each a `fencepost serve` process of its own with a directory of its own.

use std::{
    fs::{self, File},
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use tokio::process::Child;

use super::{
    super::{
        exit::{Failure, UNEXPECTED},
        ports,
    },
    leash,
};

/// How many nodes the story has.
pub(super) const COUNT: usize = 3;

/// Lines of a node's log that are shown when it ends by itself.
const LOG_LINES: usize = 8;

/// One node: where it is, and its process while it runs.
struct Node {
    id: u64,
    client: SocketAddr,
    peer: SocketAddr,
    http: SocketAddr,
    process: Option<Child>,
}

/// The nodes of the story. Dropping it kills their processes.
pub(super) struct Nodes {
    directory: PathBuf,
    issuer: String,
    nodes: Vec<Node>,
}

impl Nodes {
    /// Chooses free ports; starts nothing yet.
    pub(super) fn plan(directory: &Path, issuer: &str) -> Result<Self, Failure> {
        let free = ports::free(COUNT * 3, std::process::id()).ok_or_else(|| {
            Failure::new(
                UNEXPECTED,
                "no nine free ports between 20000 and 32000 on 127.0.0.1",
            )
        })?;
        let nodes = (1..).zip(free.chunks_exact(3)).map(|(id, addresses)| Node {
            id,
            client: addresses[0],
            peer: addresses[1],
            http: addresses[2],
            process: None,
        });
        Ok(Self {
            directory: directory.to_owned(),
            issuer: issuer.to_owned(),
            nodes: nodes.collect(),
        })
    }

    /// Where clients call, in the order of the ids.
    pub(super) fn endpoints(&self) -> Vec<String> {
        self.nodes
            .iter()
            .map(|node| node.client.to_string())
            .collect()
    }

    /// The ids, from 1.
    pub(super) fn ids(&self) -> impl Iterator<Item = u64> + use<> {
        let ids: Vec<_> = self.nodes.iter().map(|node| node.id).collect();
        ids.into_iter()
    }

    /// Where clients call this node.
    pub(super) fn endpoint(&self, id: u64) -> Option<SocketAddr> {
        self.nodes
            .iter()
            .find(|node| node.id == id)
            .map(|node| node.client)
    }

    /// The process id of a node that runs.
    pub(super) fn pid(&self, id: u64) -> Option<u32> {
        let node = self.nodes.iter().find(|node| node.id == id)?;
        node.process.as_ref()?.id()
    }

    /// Starts the processes of all nodes that are not running, on what their directories hold.
    pub(super) fn start_all(&mut self) -> Result<(), Failure> {
        let peers: Vec<_> = self
            .nodes
            .iter()
            .map(|node| format!("{}={}", node.id, node.peer))
            .collect();
        let peers = peers.join(",");
        for node in self.nodes.iter_mut().filter(|node| node.process.is_none()) {
            let started = node.start(&self.directory, &self.issuer, &peers);
            started.map_err(|error| {
                Failure::new(
                    UNEXPECTED,
                    format_args!("node {} cannot be started: {error}", node.id),
                )
            })?;
        }
        Ok(())
    }

    /// Ends a node's process by SIGKILL, and waits until it is gone. It gets no chance to save anything.
    pub(super) async fn sigkill(&mut self, id: u64) -> io::Result<()> {
        for node in self.nodes.iter_mut().filter(|node| node.id == id) {
            if let Some(mut process) = node.process.take() {
                process.kill().await?;
            }
        }
        Ok(())
    }

    /// Ends all of them, as fast as it goes: none is waited for before the last has been told.
    pub(super) async fn sigkill_all(&mut self) -> io::Result<()> {
        let running = self.nodes.iter_mut().filter_map(|node| node.process.take());
        let mut processes: Vec<_> = running.collect();
        for process in &mut processes {
            process.start_kill()?;
        }
        for process in &mut processes {
            process.wait().await?;
        }
        Ok(())
    }

    /// Fails if a node that should run has ended by itself, with the end of its log.
    pub(super) fn all_run(&mut self) -> Result<(), Failure> {
        for node in &mut self.nodes {
            let Some(process) = &mut node.process else {
                continue;
            };
            let Some(status) = process.try_wait()? else {
                continue;
            };
            let log = log_file(&self.directory, node.id);
            let mut failure = Failure::new(
                UNEXPECTED,
                format_args!(
                    "node {} ended by itself ({status}); its log ends with:",
                    node.id
                ),
            );
            for line in last_lines(&log) {
                failure = failure.hint(line);
            }
            return Err(failure);
        }
        Ok(())
    }
}

impl Node {
    fn start(&mut self, directory: &Path, issuer: &str, peers: &str) -> io::Result<()> {
        let data = directory.join(format!("node-{}", self.id));
        let flags = [
            ("--node-id", self.id.to_string()),
            ("--data-dir", data.display().to_string()),
            ("--issuer", issuer.to_owned()),
            ("--listen", self.client.to_string()),
            ("--peer-listen", self.peer.to_string()),
            ("--http-listen", self.http.to_string()),
            ("--peers", peers.to_owned()),
            // A few megabytes are written; a nearly full disk is no reason to refuse a demonstration.
            ("--free-space-floor", "0".to_owned()),
        ];
        let mut arguments = vec!["serve".into()];
        for (flag, value) in flags {
            arguments.extend([flag.into(), value.into()]);
        }
        let log = File::options()
            .append(true)
            .create(true)
            .open(log_file(directory, self.id))?;
        let child = leash::command(&arguments)?
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        self.process = Some(child);
        Ok(())
    }
}

fn log_file(directory: &Path, id: u64) -> PathBuf {
    directory.join(format!("node-{id}.log"))
}

fn last_lines(log: &Path) -> Vec<String> {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].to_vec()
}
