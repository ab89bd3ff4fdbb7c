//! From the leader's end to the next grant: ten trials of `kill -9`, ten of SIGSTOP, default timing.
//!
//! Clients of both survivors ask again and again, each time for a resource of its own, with a deadline
//! of 100 ms. The time runs from just before the signal to the return of the first grant that was asked
//! for after it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use crate::{
    granted,
    nodes::{Cluster, calls::Calls},
};

const TRIALS: usize = 10;

/// How long one ask may take. A survivor that still believes in the old leader holds a call for as long
/// as it may.
const ASK_MAX: Duration = Duration::from_millis(100);

/// How a leader ends.
#[derive(Clone, Copy)]
enum End {
    Killed,
    Stopped,
}

pub(crate) async fn measure() {
    println!("failover: from the leader's end to the next grant, {TRIALS} trials each, ms");
    for (name, end) in [("kill -9", End::Killed), ("SIGSTOP", End::Stopped)] {
        let mut cluster = Cluster::of_three().await;
        let mut times = Vec::new();
        for _ in 0..TRIALS {
            times.push(trial(&mut cluster, end).await.as_millis());
        }
        times.sort_unstable();
        let median = (times[TRIALS / 2 - 1] + times[TRIALS / 2]) / 2;
        println!("  {name:8} median {median:5}   of {times:?}");
    }
}

async fn trial(cluster: &mut Cluster, end: End) -> Duration {
    let leader = cluster.ready().await;
    let survivors: Vec<_> = cluster.founders().filter(|node| *node != leader).collect();
    let begun = Instant::now();
    match end {
        End::Killed => cluster.kill(leader),
        End::Stopped => cluster.process(leader).pause(),
    }
    let asked = Arc::new(AtomicU64::new(0));
    let mut clients = JoinSet::new();
    for node in survivors {
        let calls = Calls::to(cluster.place.client(node), ASK_MAX);
        clients.spawn(first_grant(calls, node, begun, Arc::clone(&asked)));
    }
    let took = clients.join_next().await.unwrap().unwrap();
    clients.shutdown().await;
    match end {
        End::Killed => cluster.start(leader),
        End::Stopped => cluster.process(leader).resume(),
    }
    cluster.ready().await;
    cluster.caught_up().await;
    took
}

async fn first_grant(calls: Calls, node: u64, begun: Instant, asked: Arc<AtomicU64>) -> Duration {
    loop {
        let count = asked.fetch_add(1, Ordering::Relaxed);
        let resource = format!("failover/{node}/{count}");
        if granted(&calls, resource, 1_000).await.is_some() {
            return begun.elapsed();
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
