//! Standing in line at a cluster of real processes: what outlasts a node, and what is left behind.

use crate::cluster::Cluster;
use fencepost::client::{AcquireOutcome, Acquired, Client, Inspection, Options};
use fencepost::grant::Ttl;
use fencepost::resource::{Holder, ResourceName};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::time::Duration;

use tokio::task::{JoinHandle, JoinSet};

const PATIENCE: Duration = Duration::from_secs(60);

fn client(cluster: &Cluster) -> Client {
    let endpoints = cluster.endpoints();
    Client::connect(endpoints.split(','), Options::default().timeout(PATIENCE)).unwrap()
}

fn jobs() -> ResourceName {
    "jobs".parse().unwrap()
}

/// An hour: nothing here ends because its time is up.
fn ttl() -> Ttl {
    Ttl::from_ms(3_600_000).unwrap()
}

/// Stands in line for "jobs", with connections of its own.
fn wait(cluster: &Cluster, holder: &str) -> JoinHandle<Acquired> {
    let (client, holder) = (client(cluster), holder.parse().unwrap());
    tokio::spawn(async move {
        let mut ask = client.ask(jobs(), holder, ttl()).wait(PATIENCE);
        match client.acquire_with(&mut ask).await.unwrap() {
            AcquireOutcome::Granted(acquired) => {
                client.renew(&[acquired.renewal()]).await.unwrap();
                acquired
            }
            other => panic!("expected a grant, got {other:?}"),
        }
    })
}

/// Waits until "jobs" stands as wanted, asked for the place of `holder`.
async fn until(client: &Client, holder: &str, wanted: impl Fn(&Inspection) -> bool) {
    let holder: Holder = holder.parse().unwrap();
    let looks = async {
        while !wanted(&client.position(&jobs(), &holder).await.unwrap()) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, looks).await.unwrap();
}

/// Two stand in line, the first one longer; then `loss` comes over the node that they stand at, which leads.
async fn places_outlast(loss: impl AsyncFnOnce(&mut Cluster, usize)) {
    let mut cluster = Cluster::start().await;
    let client = client(&cluster);
    let me: Holder = "me".parse().unwrap();
    let AcquireOutcome::Granted(mine) = client.acquire(&jobs(), &me, ttl()).await.unwrap() else {
        panic!("it was free")
    };
    let first = wait(&cluster, "first");
    until(&client, "first", |found| found.position == Some(1)).await;
    let second = wait(&cluster, "second");
    until(&client, "second", |found| found.position == Some(2)).await;

    let leader = cluster.leader().await;
    loss(&mut cluster, leader).await;
    until(&client, "second", |found| found.position == Some(2)).await;
    assert!(!first.is_finished() && !second.is_finished());
    let token = mine.token.value();
    client.release(&jobs(), &me, token).await.unwrap();
    let first = first.await.unwrap();
    assert!(first.after_wait && first.token > mine.token);
    assert!(!second.is_finished());
    let (holder, token) = (&first.holder, first.token.value());
    client.release(&jobs(), holder, token).await.unwrap();
    assert!(second.await.unwrap().token > first.token);
}

#[tokio::test]
async fn places_outlast_a_leader_that_is_killed() {
    places_outlast(async |cluster, leader| cluster.kill(leader).await).await;
}

#[tokio::test]
async fn places_outlast_a_leader_that_stands_still() {
    // Its connections stay open, and nothing comes from them any more.
    places_outlast(async |cluster, leader| cluster.freeze(leader).await).await;
}

#[tokio::test]
async fn acquires_that_are_dropped_at_any_moment_leave_nothing_in_the_cluster() {
    // The kind of redisson#7272. Were it left to the TTL to end what was granted, this would take an hour.
    let cluster = Cluster::start().await;
    let client = client(&cluster);
    let mut dice = StdRng::seed_from_u64(7_272);
    let mut calls = JoinSet::new();
    for number in 0..2_000 {
        let client = client.clone();
        let patience = Duration::from_micros(dice.random_range(0..60_000));
        calls.spawn(async move {
            let resource = format!("jobs/{}", number % 20).parse().unwrap();
            let holder = format!("holder-{number}").parse().unwrap();
            let wait = PATIENCE * (number % 2);
            let mut ask = client.ask(resource, holder, ttl()).wait(wait);
            let call = tokio::time::timeout(patience, client.acquire_with(&mut ask));
            let Ok(outcome) = call.await else {
                return;
            };
            if let AcquireOutcome::Granted(acquired) = outcome.unwrap() {
                let (resource, holder) = (&acquired.resource, &acquired.holder);
                let token = acquired.token.value();
                client.release(resource, holder, token).await.unwrap();
            }
        });
        if calls.len() > 200 {
            calls.join_next().await.unwrap().unwrap();
        }
    }
    while let Some(call) = calls.join_next().await {
        call.unwrap();
    }
    let settled = tokio::time::timeout(PATIENCE, client.settled()).await;
    settled.expect("what goes on in the background comes to an end");
    for number in 0..20 {
        let resource = format!("jobs/{number}").parse().unwrap();
        let found = client.inspect(&resource).await.unwrap();
        assert_eq!((&found.grant, found.queue), (&None, 0), "{resource}");
    }
}
