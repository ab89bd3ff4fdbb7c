//! A cluster of real processes: planned, started, hurt and healed by a test.
//!
//! Whatever a test does to a cluster ends with it: dropping a [`Cluster`] kills every process, stopped
//! ones included. If the test failed, the nodes' logs are shown and their directories are kept; with
//! `FENCEPOST_KEEP_CLUSTERS` set, the directories are kept anyway.

pub(crate) mod calls;
pub(crate) mod pages;
pub(crate) mod place;
pub(crate) mod process;

use std::{collections::BTreeMap, fs, process::Output, time::Duration};

use fencepost::wire::v1::{Role, StatusResponse};
use tokio::sync::{Semaphore, SemaphorePermit};

use self::{
    calls::Calls,
    place::Place,
    process::{FENCEPOST, NodeProcess, bare},
};
use crate::waiting::{PATIENCE, eventually};

/// Two clusters at once on two cores; one that needs the machine for itself takes both.
const TURNS: u32 = 2;
static TURN: Semaphore = Semaphore::const_new(TURNS as usize);

/// The deadline of the calls that the harness itself makes.
const CALL_DEADLINE: Duration = Duration::from_secs(2);

pub(crate) struct Cluster {
    pub(crate) place: Place,
    /// The founding list, for `--peers`.
    founders: Vec<u64>,
    /// Settings of every node beyond the addresses, as arguments.
    settings: Vec<String>,
    running: BTreeMap<u64, NodeProcess>,
    _turn: SemaphorePermit<'static>,
}

impl Cluster {
    /// A cluster of `size` nodes, numbered from 1, of which none runs yet.
    pub(crate) async fn planned(size: u64) -> Self {
        Self::with_turns(size, 1).await
    }

    /// One that has the machine for itself.
    pub(crate) async fn planned_alone(size: u64) -> Self {
        Self::with_turns(size, TURNS).await
    }

    async fn with_turns(size: u64, turns: u32) -> Self {
        let turn = TURN.acquire_many(turns).await.unwrap();
        Self {
            place: Place::new(),
            founders: (1..=size).collect(),
            settings: Vec::new(),
            running: BTreeMap::new(),
            _turn: turn,
        }
    }

    /// A cluster of three that is ready.
    pub(crate) async fn of_three() -> Self {
        let mut cluster = Self::planned(3).await;
        cluster.start_all();
        cluster.ready().await;
        cluster
    }

    /// A setting for every node that is started from now on.
    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.settings.extend([format!("--{name}"), value.into()]);
    }

    /// The arguments of `fencepost serve` for a founder.
    pub(crate) fn founding(&self, node: u64) -> Vec<String> {
        let mut arguments = self.addressed(node);
        arguments.extend([
            "--peers".into(),
            self.place.peers(self.founders.iter().copied()),
        ]);
        arguments
    }

    /// The arguments of `fencepost serve` for a node that is to be added.
    pub(crate) fn joining(&self, node: u64) -> Vec<String> {
        let mut arguments = self.addressed(node);
        arguments.push("--join".into());
        arguments
    }

    fn addressed(&self, node: u64) -> Vec<String> {
        let place = &self.place;
        let mut arguments = vec!["serve".to_owned()];
        let mut set = |name: &str, value: String| arguments.extend([format!("--{name}"), value]);
        set("node-id", node.to_string());
        set("data-dir", place.data(node).display().to_string());
        set("listen", place.client(node).to_string());
        set("peer-listen", place.peer(node).to_string());
        set("http-listen", place.http(node).to_string());
        set("audit-log", place.audit(node).display().to_string());
        // The machine that runs the tests may be fuller than a server should be.
        set("free-space-floor", "0".into());
        arguments.extend(self.settings.iter().cloned());
        arguments
    }

    pub(crate) fn start(&mut self, node: u64) {
        self.start_with(node, &self.founding(node));
    }

    /// Starts a node with arguments of the test's own.
    pub(crate) fn start_with(&mut self, node: u64, arguments: &[String]) {
        let process = NodeProcess::spawn(node, arguments, &self.place.log(node));
        assert!(
            self.running.insert(node, process).is_none(),
            "node {node} runs already"
        );
    }

    /// Starts the founders that do not run.
    pub(crate) fn start_all(&mut self) {
        for node in self.founders.clone() {
            if !self.running.contains_key(&node) {
                self.start(node);
            }
        }
    }

    pub(crate) fn founders(&self) -> impl Iterator<Item = u64> + use<> {
        self.founders.clone().into_iter()
    }

    pub(crate) fn process(&mut self, node: u64) -> &mut NodeProcess {
        self.running
            .get_mut(&node)
            .unwrap_or_else(|| panic!("node {node} does not run"))
    }

    pub(crate) fn kill(&mut self, node: u64) {
        self.running
            .remove(&node)
            .unwrap_or_else(|| panic!("node {node} does not run"))
            .kill();
    }

    /// Kills all at once: first the signals, then the waiting.
    pub(crate) fn kill_all(&mut self) {
        self.running.values().for_each(NodeProcess::pause);
        self.running.clear();
    }

    /// SIGTERM, and the exit code.
    pub(crate) async fn terminate(&mut self, node: u64) -> i32 {
        self.process(node).terminate();
        self.exit(node).await
    }

    /// Waits for a node to end by itself, and gives its exit code.
    pub(crate) async fn exit(&mut self, node: u64) -> i32 {
        let code = self.process(node).exit(PATIENCE).await;
        self.running.remove(&node);
        code
    }

    /// The first node that has ended by itself, with its exit code.
    pub(crate) fn any_exit(&mut self) -> Option<(u64, i32)> {
        let mut ended = self
            .running
            .iter_mut()
            .filter_map(|(node, process)| Some((*node, process.try_exit()?.code()?)));
        let first = ended.next()?;
        self.running.remove(&first.0);
        Some(first)
    }

    /// Calls on one node, with the harness' own deadline.
    pub(crate) fn calls(&self, node: u64) -> Calls {
        Calls::to(self.place.client(node), CALL_DEADLINE)
    }

    pub(crate) async fn status(&self, node: u64) -> Option<StatusResponse> {
        self.calls(node).status().await.ok()
    }

    /// Waits until every running node is a member, and all of them name one leader; gives its id.
    pub(crate) async fn ready(&self) -> u64 {
        eventually("the cluster is ready", PATIENCE, async || {
            self.agreed_leader().await
        })
        .await
    }

    /// The leader in whom all running nodes agree, and who says so itself.
    pub(crate) async fn agreed_leader(&self) -> Option<u64> {
        let mut agreed = None;
        for node in self.running.keys() {
            let status = self.status(*node).await?;
            let leader = status.header.as_ref()?.leader.as_ref()?.node_id;
            let role = status.role();
            let own_role = if leader == *node {
                role == Role::Leader
            } else {
                role != Role::Leader
            };
            if !own_role || *agreed.get_or_insert(leader) != leader {
                return None;
            }
        }
        agreed
    }

    /// The leader that any running node names in answer to the first who answers.
    pub(crate) async fn leader(&self) -> u64 {
        eventually("somebody leads", PATIENCE, async || {
            for node in self.running.keys() {
                if self
                    .status(*node)
                    .await
                    .is_some_and(|status| status.role() == Role::Leader)
                {
                    return Some(*node);
                }
            }
            None
        })
        .await
    }

    /// Waits until all running nodes have applied the same entries, with the same hash.
    pub(crate) async fn caught_up(&self) -> u64 {
        eventually("all nodes have applied the same", PATIENCE, async || {
            let mut seen: Option<(u64, String)> = None;
            for node in self.running.keys() {
                let status = self.status(*node).await?;
                let applied = (status.applied_index, status.state_hash);
                if *seen.get_or_insert_with(|| applied.clone()) != applied {
                    return None;
                }
            }
            seen.map(|(index, _)| index)
        })
        .await
    }

    /// Runs a command of the binary against the cluster, with all endpoints in its environment.
    pub(crate) async fn command(&self, arguments: &[&str]) -> Output {
        let mut command = bare(FENCEPOST);
        command
            .args(arguments)
            .env("FENCEPOST_ENDPOINTS", self.endpoints());
        let ran = tokio::task::spawn_blocking(move || command.output());
        tokio::time::timeout(PATIENCE, ran)
            .await
            .expect("the command ends in time")
            .unwrap()
            .unwrap()
    }

    /// Every founder's client address, as the command line takes them.
    pub(crate) fn endpoints(&self) -> String {
        let address = |node: &u64| self.place.client(*node).to_string();
        self.founders
            .iter()
            .map(address)
            .collect::<Vec<_>>()
            .join(",")
    }

    /// What a node has logged so far.
    pub(crate) fn logged(&self, node: u64) -> String {
        fs::read_to_string(self.place.log(node)).unwrap_or_default()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.running.clear();
        let failed = std::thread::panicking();
        if failed || std::env::var_os("FENCEPOST_KEEP_CLUSTERS").is_some() {
            self.place.keep();
            println!("kept: {}", self.place.dir().display());
        }
        if !failed {
            return;
        }
        for node in self
            .founders
            .iter()
            .copied()
            .chain(self.founders.len() as u64 + 1..9)
        {
            let text = self.logged(node);
            let lines: Vec<&str> = text.lines().collect();
            let tail = &lines[lines.len().saturating_sub(40)..];
            if !tail.is_empty() {
                println!(
                    "--- node {node}, the end of {}:\n{}",
                    self.place.log(node).display(),
                    tail.join("\n")
                );
            }
        }
    }
}
