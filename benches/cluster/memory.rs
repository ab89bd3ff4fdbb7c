//! Memory of each node: with 100,000 live leases, and under a million acquire/release pairs.

use std::fs;

use fencepost::wire::v1::ReleaseRequest;
use tokio::task::JoinSet;

use crate::{
    granted,
    nodes::{Cluster, calls::Calls},
};

const LEASES: u64 = 100_000;
const PAIRS: u64 = 1_000_000;
const ROUNDS: u64 = 10;
const CLIENTS: usize = 128;
const DEADLINE: std::time::Duration = std::time::Duration::from_secs(10);
const HOUR_MS: u64 = 3_600_000;

pub(crate) async fn measure() {
    let mut cluster = quiet_cluster().await;
    println!("memory: resident MiB of nodes 1, 2 and 3");
    println!("  ready, nothing held          {}", resident(&mut cluster));
    spread(&cluster, LEASES, Work::Hold).await;
    cluster.caught_up().await;
    println!("  {LEASES} live leases          {}", resident(&mut cluster));
    drop(cluster);

    let mut cluster = quiet_cluster().await;
    for round in 1..=ROUNDS {
        spread(&cluster, PAIRS / ROUNDS, Work::Pair).await;
        let pairs = PAIRS / ROUNDS * round;
        println!("  after {pairs:8} pairs         {}", resident(&mut cluster));
    }
}

/// Three nodes without audit logs, which would outgrow everything else here.
async fn quiet_cluster() -> Cluster {
    let mut cluster = Cluster::planned(3).await;
    for node in cluster.founders() {
        let mut arguments = cluster.founding(node);
        let audit = arguments
            .iter()
            .position(|argument| argument == "--audit-log");
        arguments.drain(audit.unwrap()..audit.unwrap() + 2);
        cluster.start_with(node, &arguments);
    }
    cluster.ready().await;
    cluster
}

fn resident(cluster: &mut Cluster) -> String {
    let of = |node| {
        let pid = cluster.process(node).pid().as_raw_nonzero();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:"));
        let kib: u64 = line
            .unwrap()
            .split_whitespace()
            .nth(1)
            .unwrap()
            .parse()
            .unwrap();
        format!("{:4}", kib / 1024)
    };
    [1, 2, 3].map(of).join(" ")
}

#[derive(Clone, Copy)]
enum Work {
    /// Acquire, and keep.
    Hold,
    /// Acquire, and release.
    Pair,
}

/// Spreads `count` operations over the clients, all of which ask the leader.
async fn spread(cluster: &Cluster, count: u64, work: Work) {
    let leader = cluster.leader().await;
    let calls = Calls::to(cluster.place.client(leader), DEADLINE);
    let mut clients = JoinSet::new();
    for first in (0..count).take(CLIENTS) {
        let calls = calls.clone();
        clients.spawn(async move {
            for number in (first..count).step_by(CLIENTS) {
                once(&calls, number, work).await;
            }
        });
    }
    while let Some(client) = clients.join_next().await {
        client.unwrap();
    }
}

async fn once(calls: &Calls, number: u64, work: Work) {
    let resource = format!("tenant-{}/resource-{number:08}", number % 100);
    let token = granted(calls, resource.clone(), HOUR_MS).await;
    let token = token.expect("nobody else asks for it");
    if let Work::Pair = work {
        let message = ReleaseRequest {
            resource,
            holder: "bench".into(),
            token,
        };
        calls.release(message).await.unwrap();
    }
}
