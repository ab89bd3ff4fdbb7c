//! A calm cluster: nothing is done to it, and nobody loses anything.

use std::time::{Duration, Instant};

use fencepost::client::{Client, Options};

use crate::{
    chaos::number_from,
    history::recorder::Recorder,
    holding::{claim, held},
    judging::{ALWAYS, must_hold},
    nodes::Cluster,
    waiting::PATIENCE,
};

/// How long the short form lasts: several TTLs, each with its renewals.
const SHORT_SECS: u64 = 4;

/// hazelcast#14519: after half an hour in a calm cluster, an unlock found that its session had been
/// closed. `FENCEPOST_SOAK_SECS` says how long this one lasts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_loses_a_lease_in_a_calm_cluster() {
    let lasts = Duration::from_secs(number_from("FENCEPOST_SOAK_SECS").unwrap_or(SHORT_SECS));
    let mut cluster = Cluster::planned_alone(3).await;
    cluster.start_all();
    cluster.ready().await;
    let recorder = Recorder::new();
    let client = Client::connect(cluster.endpoints().split(','), Options::default()).unwrap();
    // Long enough for a machine that stands still for a second, short enough to be renewed often.
    let ttl = Duration::from_millis(2_400);
    let mut holders = Vec::new();
    for number in 1..=64 {
        holders.push((number, held(&client, &recorder, number, ttl).await));
    }
    let began = Instant::now();
    while began.elapsed() < lasts {
        for (number, held) in &holders {
            if let Err(lost) = held.check() {
                panic!(
                    "client {number} lost its lease after {:?}: {lost}",
                    began.elapsed()
                );
            }
            claim(&recorder, *number, held);
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
    }
    for (number, held) in holders {
        let released = tokio::time::timeout(PATIENCE, held.release()).await;
        let outcome = released.expect("a release in time").unwrap();
        assert_eq!(
            outcome,
            fencepost::client::ReleaseOutcome::Released,
            "client {number}"
        );
    }
    must_hold(&mut cluster, &recorder, &ALWAYS).await;
}
