//! The cluster's own guard register: what an answer costs, by what it takes.
//!
//! A lower token is answered from any node's state, an equal one after a linearizable read, a higher one by a
//! log entry. A linearizable `inspect` stands beside them.

use std::time::{Duration, Instant};

use fencepost::{
    client::{AdmitOutcome, Client, Options},
    fence::EqualTokens,
    resource::{Holder, ResourceName},
    sequencer::Sequencer,
    token::TokenValue,
};
use tokio::task::JoinSet;

use crate::nodes::Cluster;

const WRITERS: [u64; 2] = [1, 16];
const RUN: Duration = Duration::from_secs(4);

/// What is asked of the register.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Inspect,
    Lower,
    Equal,
    Higher,
}

pub(crate) async fn measure() {
    let cluster = Cluster::of_three().await;
    let endpoints = cluster.endpoints();
    let client = Client::connect(endpoints.split(','), Options::default()).unwrap();
    // Tokens below the floor count as issued, so that there are as many as the bench wants.
    let floor = client.raise_floor(FLOOR).await.unwrap();
    assert!(floor > 0, "the floor rises in a new cluster");
    let held = client.hold(&name(0, "floor"), &holder()).await.unwrap();
    held.held().unwrap().release().await.unwrap();
    println!("register: three durable nodes, asked through the client library");
    println!(
        "{:<34} {:>7} {:>10} {:>9} {:>9}",
        "asked", "callers", "answers/s", "p50 us", "p99 us"
    );
    for writers in WRITERS {
        for (kind, what) in [
            (Kind::Inspect, "inspect, linearizable"),
            (Kind::Lower, "admit, lower token: refused"),
            (Kind::Equal, "admit, equal token"),
            (Kind::Higher, "admit, higher token: a log entry"),
        ] {
            let mut took = ask(&client, writers, kind).await;
            took.sort_unstable();
            let at = |share: usize| took[took.len() * share / 100].as_micros();
            let rate = took.len() as f64 / RUN.as_secs_f64();
            println!(
                "{what:<34} {writers:>7} {rate:>10.0} {:>9} {:>9}",
                at(50),
                at(99)
            );
        }
    }
}

const FLOOR: u64 = 1_000_000_000_000;
/// The mark that the first question of each caller leaves.
const MARK: u64 = 1_000_000;

async fn ask(client: &Client, writers: u64, kind: Kind) -> Vec<Duration> {
    let begun = Instant::now();
    let mut tasks = JoinSet::new();
    for writer in 0..writers {
        let client = client.clone();
        tasks.spawn(async move { caller(&client, writer, kind, begun).await });
    }
    tasks.join_all().await.into_iter().flatten().collect()
}

async fn caller(client: &Client, writer: u64, kind: Kind, begun: Instant) -> Vec<Duration> {
    let resource = name(writer, "register");
    let sequencer = |token: u64| Sequencer {
        issuer: "fencepost".parse().unwrap(),
        resource: resource.clone(),
        token: TokenValue::new(token).unwrap(),
    };
    let mark = client.high_water(&resource).await.unwrap();
    let mark = mark.map_or(MARK, |mark| mark.token.get());
    let again = EqualTokens::MayWriteAgain;
    let first = client.admit(&sequencer(mark), again).await.unwrap();
    assert_eq!(first, AdmitOutcome::Admitted);
    let mut took = Vec::new();
    let mut higher = mark;
    while begun.elapsed() < RUN {
        let asked = Instant::now();
        let admitted = match kind {
            Kind::Inspect => {
                client.inspect(&resource).await.unwrap();
                true
            }
            Kind::Lower | Kind::Equal | Kind::Higher => {
                higher += u64::from(kind == Kind::Higher);
                let token = if kind == Kind::Lower { 1 } else { higher };
                let outcome = client.admit(&sequencer(token), again).await.unwrap();
                outcome == AdmitOutcome::Admitted
            }
        };
        took.push(asked.elapsed());
        assert_eq!(admitted, kind != Kind::Lower);
    }
    took
}

fn name(writer: u64, what: &str) -> ResourceName {
    ResourceName::new(format!("{what}/{writer}")).unwrap()
}

fn holder() -> Holder {
    "bench".parse().unwrap()
}
