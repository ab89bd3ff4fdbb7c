//! Snapshots fold the log, come back at a start, and carry a large state to a new node.

use std::time::{Duration, Instant};

use fencepost::server::{
    raft::SnapshotPolicy,
    store::{MemoryStore, Store},
};

use crate::harness::{Cluster, Node, Site, acquire, eventually, token};

const SMALL: SnapshotPolicy = SnapshotPolicy {
    entries: 100,
    bytes: 1 << 30,
};

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(10)
}

fn snapshot_index(node: &Node) -> u64 {
    node.status().snapshot.map_or(0, |at| at.index)
}

#[tokio::test]
async fn a_restarted_node_begins_from_its_snapshot_and_has_the_same_state() {
    let mut cluster = Cluster::with(3, |site| site.snapshots = SMALL).await;
    for n in 0..450 {
        cluster.propose(&acquire(&format!("r{n}"), "a")).await;
    }
    cluster.converge().await;
    eventually("all have folded and shortened their logs", || {
        cluster.nodes.values().all(|node| {
            snapshot_index(node) >= 300 && node.status().purged.is_some_and(|at| at.index >= 200)
        })
    })
    .await;
    let before = cluster.nodes[&1].hash();
    let sites: Vec<Site> = [1, 2, 3].map(|id| cluster.kill(id)).into();
    for site in &sites {
        cluster.restart(site).await;
    }
    let after = token(&cluster.propose(&acquire("after", "a")).await);
    cluster.converge().await;
    assert!(
        cluster.nodes[&1].hash() > before,
        "the state went on from where it was"
    );
    assert!(after.index() > 450);
    let live = cluster.nodes[&1]
        .raft
        .state()
        .read(|replica| replica.machine().live_grants());
    assert_eq!(live, Some(451));
}

#[tokio::test]
async fn a_node_that_was_away_for_long_gets_a_snapshot() {
    let mut cluster = Cluster::with(3, |site| site.snapshots = SMALL).await;
    let leader = cluster.leader().await.site.id;
    let away = cluster.kill(cluster.followers(leader)[0]);
    for n in 0..450 {
        cluster.propose(&acquire(&format!("r{n}"), "a")).await;
    }
    let leader = &cluster.nodes[&leader];
    eventually("the log is gone that it would need", || {
        leader.status().purged.is_some_and(|at| at.index >= 200)
    })
    .await;
    cluster.restart(&away).await;
    cluster.converge().await;
    assert!(
        snapshot_index(&cluster.nodes[&away.id]) >= 200,
        "it has the leader's"
    );
}

#[tokio::test]
async fn bytes_make_a_snapshot_due_as_entries_do() {
    let policy = SnapshotPolicy {
        entries: 1 << 30,
        bytes: 5_000,
    };
    let cluster = Cluster::with(1, |site| site.snapshots = policy).await;
    for n in 0..300 {
        cluster.propose(&acquire(&format!("r{n}"), "a")).await;
    }
    eventually("a snapshot is there", || {
        snapshot_index(&cluster.nodes[&1]) > 0
    })
    .await;
}

/// A name of 4-byte letters that is as long as a name may be.
fn wide(n: usize, letters: usize) -> String {
    let number = format!("{n:08}");
    let rest = letters - number.len();
    number + &"\u{1d11e}".repeat(rest)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_state_of_64_mib_reaches_a_new_node() {
    let policy = SnapshotPolicy {
        entries: 10_000,
        bytes: 1 << 30,
    };
    let cluster = Cluster::with(1, |site| site.snapshots = policy).await;
    let leader = &cluster.nodes[&1];
    let began = Instant::now();
    let grants = 80_000;
    for first in (0..grants).step_by(1_000) {
        let batch = (first..first + 1_000).map(|n| {
            let raft = leader.raft.clone();
            let command = acquire(&wide(n, 160), &wide(n, 80));
            tokio::spawn(async move {
                raft.propose(&command, Instant::now() + Duration::from_secs(30))
                    .await
            })
        });
        for one in batch.collect::<Vec<_>>() {
            token(&one.await.unwrap().unwrap());
        }
    }
    println!("{grants} grants after {:?}", began.elapsed());
    let last = leader.applied();
    eventually("the log is folded", || {
        snapshot_index(leader) + 12_000 > last && leader.status().purged.is_some()
    })
    .await;
    println!("folded after {:?}", began.elapsed());
    let mut site = Site::joining(2);
    site.snapshots = policy;
    let learner = site.start().await;
    let sent = Instant::now();
    leader
        .raft
        .add_node(2, &site.address, soon())
        .await
        .unwrap();
    eventually("the new node has the same state", || {
        learner.hash().is_some() && learner.hash() == leader.hash()
    })
    .await;
    println!("there after {:?}", sent.elapsed());
    assert!(snapshot_index(&learner) > 0, "it came as a snapshot");
    drop(learner.kill());
    let (store, _) = MemoryStore::open(&site.disk);
    let manifest = store.snapshot().expect("it is on the new node's disk");
    println!("the snapshot has {} MiB", manifest.bytes >> 20);
    assert!(manifest.bytes >= 64 << 20);
}
