//! A caller that lost its connection comes back with the same request id, and has its place still.

use std::collections::BTreeSet;

use fencepost::wire::v1::{self, acquire_response::Outcome};
use tonic::Code;

use super::{
    Call, LONG, again, claim, give_back, held_by, persist, place, queued, queued_once, stands_at,
    stays, wait,
};
use crate::{
    cut::Cable,
    nodes::{Nodes, acquire, error_info, eventually, granted, value},
};

#[tokio::test(flavor = "multi_thread")]
async fn who_comes_back_to_another_node_keeps_the_place_and_gets_one_grant() {
    let nodes = Nodes::start(3).await;
    let token = held_by(&nodes, 0, "first").await;
    let lost = queued(&nodes, 0, wait("a"), 1).await;
    let behind = queued(&nodes, 1, wait("b"), 2).await;
    let request = again(&wait("a"));
    let back = Call::make(&nodes, 2, request.clone());
    drop(lost);
    // Longer than it takes until those are given up whom nobody vouches for (curator#835).
    stays(&nodes, "a", (1, 2)).await;
    give_back(&nodes, 0, "first", token).await;
    let grant = back.granted().await;
    let value_of_a = value(grant.token.as_ref());
    // A copy of the request that is late hears of the same grant.
    let late = Call::make(&nodes, 0, wait("a")).granted().await;
    assert_eq!(late.token, grant.token);
    assert!(late.replayed && late.after_wait);
    claim(&mut nodes.issuer(0), "r", "a", value_of_a).await;
    assert!(!behind.is_over());
    give_back(&nodes, 0, "a", value_of_a).await;
    assert!(value(behind.granted().await.token.as_ref()) > value_of_a);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_calls_for_one_place_are_answered_alike() {
    let nodes = Nodes::start(3).await;
    let token = held_by(&nodes, 0, "first").await;
    let mut request = wait("a");
    let mut calls = vec![queued(&nodes, 0, request.clone(), 1).await];
    for n in [0, 1, 2, 0] {
        request = again(&request);
        calls.push(Call::make(&nodes, n, request.clone()));
    }
    // An older copy that is late changes nothing, and waits with them.
    calls.push(Call::make(&nodes, 1, wait("a")));
    eventually("all of them wait", || async {
        let mut waiting = 0;
        for n in 0..3 {
            let status = nodes.cluster(n).status(v1::StatusRequest {}).await;
            waiting += status.unwrap().into_inner().waiting_calls;
        }
        (waiting == 6).then_some(())
    })
    .await;
    assert_eq!(place(&nodes, 0, "a").await, (1, 1));
    give_back(&nodes, 0, "first", token).await;
    let mut tokens = BTreeSet::new();
    for call in calls {
        tokens.insert(value(call.granted().await.token.as_ref()));
    }
    assert_eq!(tokens.len(), 1, "one grant: {tokens:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retry_that_asks_for_something_else_is_refused_and_the_place_stays() {
    let nodes = Nodes::start(1).await;
    held_by(&nodes, 0, "first").await;
    let _a = queued(&nodes, 0, wait("a"), 1).await;
    for other in [
        v1::AcquireRequest {
            wait_ms: LONG + 1,
            ..again(&wait("a"))
        },
        v1::AcquireRequest {
            ttl_ms: LONG + 1,
            ..again(&wait("a"))
        },
    ] {
        let failed = Call::make(&nodes, 0, other).result().await.unwrap_err();
        let (code, reason, _) = error_info(&failed);
        assert_eq!(
            (code, reason.as_str()),
            (Code::InvalidArgument, "REQUEST_ID_REUSED")
        );
    }
    assert_eq!(place(&nodes, 0, "a").await, (1, 1));
}

/// The call ended because its node could do no more for it, and may still be granted.
fn sent_elsewhere(result: Result<Outcome, tonic::Status>) {
    let failed = result.unwrap_err();
    let (code, reason, metadata) = error_info(&failed);
    assert_eq!(
        (code, reason.as_str()),
        (Code::Unavailable, "UNKNOWN_OUTCOME")
    );
    assert_eq!(metadata["effect"], "unknown");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_node_sends_its_waiters_elsewhere_in_time() {
    let mut nodes = Nodes::start(3).await;
    let leader = nodes.leader().await;
    let other = nodes.follower().await;
    let token = held_by(&nodes, other, "first").await;
    let a = queued_once(&nodes, leader, wait("a"), 1).await;
    let b = queued(&nodes, other, wait("b"), 2).await;
    let back = {
        let issuer = nodes.issuer(other);
        tokio::spawn(async move {
            sent_elsewhere(a.result().await);
            let back = persist(vec![issuer], again(&wait("a"))).await;
            back.unwrap()
        })
    };
    nodes.stop(leader).await;
    nodes.leader().await;
    stands_at(&nodes, other, "b", 2).await;
    give_back(&nodes, other, "first", token).await;
    match back.await.unwrap().outcome.unwrap() {
        Outcome::Granted(granted) => {
            let token = value(granted.token.as_ref());
            claim(&mut nodes.issuer(other), "r", "a", token).await;
            give_back(&nodes, other, "a", token).await;
        }
        other => panic!("{other:?}"),
    }
    assert!(b.granted().await.after_wait);
}

/// Three nodes, and the cables before their peer ports.
async fn wired() -> (Nodes, Vec<Cable>) {
    let mut nodes = Nodes::prepare(3);
    let mut cables = Vec::new();
    for n in 0..3 {
        cables.push(Cable::before(nodes.flag(n, "peer-listen").to_owned()).await);
    }
    let list = cables.iter().enumerate();
    let list: Vec<_> = list
        .map(|(n, cable)| format!("{}={}", n + 1, cable.address))
        .collect();
    for n in 0..3 {
        nodes.set(n, "peers", &list.join(","));
        // A machine that is busy for a moment does not move the leader: the cables know where it is.
        nodes.set(n, "election-min", "2s");
        nodes.set(n, "election-max", "2500ms");
        nodes.run(n).await.unwrap();
    }
    nodes.leader().await;
    (nodes, cables)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_hears_nothing_ends_its_waiting_calls_and_the_place_is_kept_elsewhere() {
    let (nodes, cables) = wired().await;
    let leader = nodes.leader().await;
    let cut_off = nodes.follower().await;
    let token = held_by(&nodes, leader, "first").await;
    let a = queued_once(&nodes, cut_off, wait("a"), 1).await;
    let b = queued(&nodes, leader, wait("b"), 2).await;
    // It can still speak to the leader, and never learns of a grant.
    cables[cut_off].cut();
    sent_elsewhere(a.result().await);
    let back = Call::make(&nodes, leader, again(&wait("a")));
    // Unless this machine held it up for too long, it finds its place as it was.
    give_back(&nodes, leader, "first", token).await;
    match back.outcome().await {
        Outcome::Granted(granted) => {
            let token = value(granted.token.as_ref());
            claim(&mut nodes.issuer(leader), "r", "a", token).await;
            give_back(&nodes, leader, "a", token).await;
        }
        Outcome::Left(left) => assert_eq!(left.how(), v1::LeftHow::Detached),
        other => panic!("{other:?}"),
    }
    assert!(b.granted().await.after_wait);
    cables[cut_off].mend();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_the_leader_does_not_hear_ends_its_waiting_calls() {
    let (nodes, cables) = wired().await;
    let leader = nodes.leader().await;
    let unheard = nodes.follower().await;
    held_by(&nodes, leader, "first").await;
    let a = queued_once(&nodes, unheard, wait("a"), 1).await;
    let b = queued(&nodes, leader, wait("b"), 2).await;
    // The log goes on to arrive there.
    cables[leader].cut();
    sent_elsewhere(a.result().await);
    cables[leader].mend();
    // Nobody comes back: the place is given up.
    stands_at(&nodes, leader, "b", 1).await;
    assert!(!b.is_over());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_cluster_has_the_line_as_it_was() {
    let mut nodes = Nodes::start(1).await;
    let token = held_by(&nodes, 0, "first").await;
    let a = queued_once(&nodes, 0, wait("a"), 1).await;
    let b = queued_once(&nodes, 0, wait("b"), 2).await;
    let ended = tokio::spawn(async move {
        sent_elsewhere(a.result().await);
        sent_elsewhere(b.result().await);
    });
    nodes.stop(0).await;
    ended.await.unwrap();
    // With no space for new grants, who was there before comes back to the place all the same.
    nodes.set(0, "free-space-floor", "1TiB");
    nodes.run(0).await.unwrap();
    nodes.leader().await;
    let b = queued(&nodes, 0, again(&wait("b")), 2).await;
    let a = queued(&nodes, 0, again(&wait("a")), 1).await;
    let new = Call::make(&nodes, 0, wait("c")).result().await.unwrap_err();
    assert_eq!(error_info(&new).1, "DISK_FULL");
    give_back(&nodes, 0, "first", token).await;
    let token = value(a.granted().await.token.as_ref());
    give_back(&nodes, 0, "a", token).await;
    assert!(b.granted().await.after_wait);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_place_survives_a_snapshot_that_its_node_receives() {
    let mut nodes = Nodes::prepare(3);
    for n in 0..3 {
        nodes.set(n, "snapshot-entries", "100");
        nodes.run(n).await.unwrap();
    }
    let away = nodes.follower().await;
    let leader = nodes.leader().await;
    let token = held_by(&nodes, leader, "first").await;
    let lost = queued_once(&nodes, away, wait("a"), 1).await;
    let here = Call::make(&nodes, leader, again(&wait("a")));
    nodes.crash(away).await;
    drop(lost);
    stands_at(&nodes, leader, "a", 1).await;
    let mut issuer = nodes.issuer(leader);
    for n in 0..400 {
        granted(&mut issuer, acquire(&format!("filler {n}"), "filler", LONG)).await;
    }
    nodes.run(away).await.unwrap();
    nodes.leader().await;
    let back = Call::make(&nodes, away, again(&again(&wait("a"))));
    stands_at(&nodes, away, "a", 1).await;
    drop(here);
    give_back(&nodes, leader, "first", token).await;
    assert!(back.granted().await.after_wait);
}
