//! The queue over real processes: who stands in line is served in turn, whatever becomes of the
//! connections, the callers and the holders in front.
//!
//! Every history is held to the checks in the end; what a test asserts beyond them is its own case.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use fencepost::wire::v1::RenewItem;
use tokio::task::JoinHandle;

use crate::{
    asking::{Asked, Asker, Sent},
    dice::Dice,
    history::{Outcome, recorder::Recorder},
    judging::{ALWAYS, must_hold},
    link::Link,
    nodes::{Cluster, calls::Calls},
    waiting::{PATIENCE, eventually},
};

const RESOURCE: &str = "ledger";

/// Longer than any test waits: a lease of this length never runs out here.
const FOREVER: Duration = Duration::from_secs(600);

fn asker(cluster: &Cluster, recorder: &Recorder, client: u32) -> Asker {
    let call = |node| Calls::to(cluster.place.client(node), Duration::from_secs(5));
    let nodes = cluster.founders().map(call).collect();
    let mut asker = Asker::new(client, nodes, recorder.clone(), Dice::new(client.into()));
    asker.open_for = Some(2 * PATIENCE);
    asker
}

async fn granted(asker: &mut Asker, asked: &mut Asked) -> u64 {
    match asker.acquire(asked, 2 * PATIENCE).await {
        Outcome::Granted(granted) => granted.token,
        other => panic!("client {} was not granted: {other:?}", asker.client),
    }
}

/// Where a holder stands in line, and how many do; waits until it stands there at all.
async fn place(cluster: &Cluster, holder: &str) -> (u32, u32) {
    eventually("it stands in line", PATIENCE, async || {
        let leader = cluster.agreed_leader().await?;
        let place = cluster.calls(leader).place(RESOURCE, holder).await.ok()?;
        (place.0 > 0).then_some(place)
    })
    .await
}

/// Stands in line through a wire that the test has its hand on.
async fn stand_on(link: &Link, asker: &mut Asker, asked: &mut Asked) -> JoinHandle<Sent> {
    let waiting = asker.send_aside(asked, Calls::to(link.address(), 2 * PATIENCE));
    link.carries(RESOURCE.as_bytes()).await;
    waiting
}

/// curator#835, #566: a lost connection left an orphan entry in the queue, behind which the caller
/// queued again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_waiter_whose_connection_is_cut_comes_back_to_its_place_at_another_node() {
    let mut cluster = Cluster::of_three().await;
    let recorder = Recorder::new();
    let mut holder = asker(&cluster, &recorder, 1);
    let mut held = holder.request(RESOURCE, "A", FOREVER);
    let first = granted(&mut holder, &mut held).await;

    let link = Link::to(cluster.place.client(2), false).await;
    let mut waiter = asker(&cluster, &recorder, 2);
    let mut asked = waiter.request_in_line(RESOURCE, "B", FOREVER, FOREVER);
    let cut = stand_on(&link, &mut waiter, &mut asked).await;
    assert_eq!(place(&cluster, "B").await, (1, 1));
    let mut behind = asker(&cluster, &recorder, 3);
    let mut asked_behind = behind.request_in_line(RESOURCE, "C", FOREVER, FOREVER);
    let behind = tokio::spawn(async move { granted(&mut behind, &mut asked_behind).await });
    assert_eq!(place(&cluster, "C").await, (2, 2));

    link.cut();
    let lost = cut.await.unwrap();
    assert!(lost.is_err(), "the cut ended the call: {lost:?}");
    // The same id again, at another node.
    waiter.favourite = 2;
    let back = tokio::spawn(async move {
        let token = granted(&mut waiter, &mut asked).await;
        (waiter, asked, token)
    });
    // For longer than a place is kept for somebody who does not come back.
    let patience = Duration::from_millis(2_600);
    let until = std::time::Instant::now() + patience;
    while std::time::Instant::now() < until {
        assert_eq!(place(&cluster, "B").await, (1, 2), "the same place, once");
        assert_eq!(place(&cluster, "C").await, (2, 2));
    }
    assert_eq!(
        holder.release(&held, first, PATIENCE).await,
        Outcome::Released
    );
    let (mut waiter, asked, token) = back.await.unwrap();
    assert_eq!(waiter.renew(&asked, token).await, Outcome::Renewed);
    assert_eq!(
        waiter.release(&asked, token, PATIENCE).await,
        Outcome::Released
    );
    assert!(behind.await.unwrap() > token);
    must_hold(&mut cluster, &recorder, &ALWAYS).await;
}

/// redisson#4595, #1353: a waiter that died at the head of the queue blocked everyone behind it.
async fn the_one_behind_a_dead_head_is_served(released_at_once: bool) {
    let mut cluster = Cluster::of_three().await;
    let recorder = Recorder::new();
    let mut holder = asker(&cluster, &recorder, 1);
    let mut held = holder.request(RESOURCE, "A", FOREVER);
    let first = granted(&mut holder, &mut held).await;

    let link = Link::to(cluster.place.client(1), false).await;
    let mut dying = asker(&cluster, &recorder, 2);
    // With a TTL for ever: nobody would see the end of it if a hand-over gave it whole.
    let mut asked = dying.request_in_line(RESOURCE, "dying", FOREVER, FOREVER);
    let died = stand_on(&link, &mut dying, &mut asked).await;
    assert_eq!(place(&cluster, "dying").await, (1, 1));
    let mut behind = asker(&cluster, &recorder, 3);
    let mut asked_behind = behind.request_in_line(RESOURCE, "behind", FOREVER, FOREVER);
    let behind = tokio::spawn(async move { granted(&mut behind, &mut asked_behind).await });
    assert_eq!(place(&cluster, "behind").await, (2, 2));

    link.cut();
    assert!(died.await.unwrap().is_err());
    if !released_at_once {
        eventually("the dead one's place is gone", PATIENCE, async || {
            (place(&cluster, "behind").await == (1, 1)).then_some(())
        })
        .await;
    }
    assert_eq!(
        holder.release(&held, first, PATIENCE).await,
        Outcome::Released
    );
    let second = tokio::time::timeout(PATIENCE, behind).await;
    assert!(second.expect("the next one is served").unwrap() > first);
    must_hold(&mut cluster, &recorder, &ALWAYS).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_waiter_at_the_head_loses_its_place() {
    the_one_behind_a_dead_head_is_served(false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hand_over_to_a_dead_waiter_ends_by_itself() {
    the_one_behind_a_dead_head_is_served(true).await;
}

/// matrixone#10283: no fairness, one client starved.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_clients_in_a_loop_are_served_in_turn() {
    const CLIENTS: u32 = 50;
    const TURNS: u64 = 12;
    let mut cluster = Cluster::of_three().await;
    let recorder = Recorder::new();
    let stop = Arc::new(AtomicBool::new(false));
    let clients: Vec<_> = (1..=CLIENTS)
        .map(|client| {
            let (mut asker, stop) = (asker(&cluster, &recorder, client), Arc::clone(&stop));
            tokio::spawn(async move {
                let (holder, mut turns) = (format!("client-{client}"), 0);
                while !stop.load(Ordering::Relaxed) {
                    let mut asked = asker.request_in_line(RESOURCE, &holder, FOREVER, FOREVER);
                    let token = granted(&mut asker, &mut asked).await;
                    turns += 1;
                    // Whoever has had its turns ends the loop for all.
                    if turns == TURNS {
                        stop.store(true, Ordering::Relaxed);
                    }
                    asker.release(&asked, token, PATIENCE).await;
                }
                turns
            })
        })
        .collect();
    let mut turns = Vec::new();
    for client in clients {
        turns.push(client.await.unwrap());
    }
    println!("turns: {turns:?}");
    let (least, most) = (turns.iter().min().unwrap(), turns.iter().max().unwrap());
    // In turn, but for who came first at the beginning and who was there still at the end.
    assert!(most - least <= 2, "{turns:?}");
    must_hold(&mut cluster, &recorder, &ALWAYS).await;
}

/// consul#5205: what a holder had was not freed when all of it ended at once. Here fifty leases run out
/// with one deadline, and each has somebody waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_resources_of_a_holder_that_end_at_once_go_to_those_who_wait() {
    const RESOURCES: u32 = 50;
    // Long enough for all of them to be queued for.
    let ttl = Duration::from_secs(6);
    let mut cluster = Cluster::of_three().await;
    let recorder = Recorder::new();
    let mut holder = asker(&cluster, &recorder, 99);
    let mut items = Vec::new();
    for number in 1..=RESOURCES {
        let name = format!("{RESOURCE}-{number}");
        let mut asked = holder.request(&name, "gone", ttl);
        let token = granted(&mut holder, &mut asked).await;
        items.push(RenewItem {
            resource: name,
            holder: "gone".into(),
            token,
            ttl_ms: 0,
        });
    }
    let highest = items.iter().map(|item| item.token).max().unwrap();
    let waiters: Vec<_> = (1..=RESOURCES)
        .map(|number| {
            let mut asker = asker(&cluster, &recorder, number);
            tokio::spawn(async move {
                let (name, holder) = (format!("{RESOURCE}-{number}"), format!("next-{number}"));
                let mut asked = asker.request_in_line(&name, &holder, FOREVER, FOREVER);
                let token = granted(&mut asker, &mut asked).await;
                assert_eq!(asker.renew(&asked, token).await, Outcome::Renewed);
                token
            })
        })
        .collect();
    let leader = cluster.ready().await;
    eventually("all fifty wait", PATIENCE, async || {
        let status = cluster.status(leader).await?;
        (status.waiters == u64::from(RESOURCES)).then_some(())
    })
    .await;
    // One message, one entry, one deadline for all; then nothing more is heard of the holder.
    cluster.calls(leader).renew_all(items).await.unwrap();
    let mut tokens = Vec::new();
    for waiter in waiters {
        let token = tokio::time::timeout(PATIENCE, waiter).await;
        tokens.push(token.expect("each next one is granted").unwrap());
    }
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(
        tokens.len(),
        RESOURCES as usize,
        "a token of its own for each"
    );
    assert!(tokens[0] > highest);
    must_hold(&mut cluster, &recorder, &ALWAYS).await;
}
