//! Stopping and restarting as an operator does: SIGTERM hands leadership over, and a rolling restart
//! under load costs callers next to nothing.

use std::{sync::atomic::Ordering, time::Duration};

use crate::{
    asking::Asker,
    chaos::client::{self, Shared},
    dice::Dice,
    history::{Call, Outcome, recorder::Recorder},
    nodes::{Cluster, calls::Calls, pages},
    waiting::{PATIENCE, eventually},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_hands_leadership_over_and_exits_with_0() {
    let mut cluster = Cluster::of_three().await;
    let leader = cluster.ready().await;
    let term = cluster.status(leader).await.unwrap().term;
    assert_eq!(cluster.terminate(leader).await, 0);
    let next = cluster.ready().await;
    assert_ne!(next, leader);
    let after = cluster.status(next).await.unwrap().term;
    assert_eq!(
        after,
        term + 1,
        "a hand-over is one election that is won at once"
    );

    // And it comes back by itself.
    cluster.start(leader);
    cluster.ready().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_restart_under_load_fails_next_to_no_call() {
    let mut cluster = Cluster::of_three().await;
    let (recorder, shared, dice) = (Recorder::new(), Shared::default(), Dice::new(1));
    let clients: Vec<_> = (1..=8)
        .map(|number| {
            let call = |node| Calls::to(cluster.place.client(node), Duration::from_secs(2));
            let nodes = cluster.founders().map(call).collect();
            let asker = Asker::new(
                number,
                nodes,
                recorder.clone(),
                dice.fork(u64::from(number)),
            );
            tokio::spawn(client::work(asker, shared.clone()))
        })
        .collect();

    // The leader is among them once at least, whoever leads when.
    for node in [3, 2, 1] {
        grants(&shared, 50).await;
        assert_eq!(cluster.terminate(node).await, 0, "{}", cluster.logged(node));
        cluster.start(node);
        eventually("the node is ready", PATIENCE, async || {
            let page = pages::get(cluster.place.http(node), "/readyz").await;
            page.is_ok_and(|(code, _)| code == 200).then_some(())
        })
        .await;
        cluster.ready().await;
    }
    grants(&shared, 50).await;
    shared.stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }

    let acquires = recorder.history();
    let acquires = acquires
        .iter()
        // Some clients give up by themselves while they stand in line: nobody failed those.
        .filter(|op| matches!(op.call, Call::Acquire { .. }) && op.returned.is_some());
    let (settled, open): (Vec<_>, Vec<_>) = acquires.partition(|op| {
        let said = &op.outcome;
        matches!(
            said,
            Outcome::Granted(_) | Outcome::Held(_) | Outcome::Left(_)
        )
    });
    println!(
        "{} calls settled, {} did not, over three restarts",
        settled.len(),
        open.len()
    );
    assert!(
        open.is_empty(),
        "callers with 4 s of patience were failed: {open:?}"
    );
}

async fn grants(shared: &Shared, more: u64) {
    let enough = shared.grants.load(Ordering::Relaxed) + more;
    eventually("grants go on", PATIENCE, async || {
        (shared.grants.load(Ordering::Relaxed) >= enough).then_some(())
    })
    .await;
}
