//! The line outlasts its leader, in the order that it had.

use fencepost::wire::v1;

use super::{Call, LONG, claim, give_back, held_by, persist, queued, stands_at, wait};
use crate::nodes::{Nodes, acquire, granted, value};

#[tokio::test(flavor = "multi_thread")]
async fn a_new_leader_has_the_queue_and_its_order() {
    let mut nodes = Nodes::start(3).await;
    let leader = nodes.leader().await;
    let mut token = held_by(&nodes, leader, "first").await;
    let left: Vec<usize> = (0..3).filter(|n| *n != leader).collect();
    let mut calls = Vec::new();
    for n in 0..6_u32 {
        let name = format!("waiter {n}");
        // Some are at the node that will be gone, some at the others.
        let first = usize::try_from(n).unwrap() % 3;
        let issuers = std::iter::once(first)
            .chain(left.iter().copied())
            .map(|n| nodes.issuer(n))
            .collect();
        calls.push((
            name.clone(),
            Call(tokio::spawn(persist(issuers, wait(&name)))),
        ));
        stands_at(&nodes, leader, &name, n + 1).await;
    }
    nodes.crash(leader).await;
    nodes.leader().await;
    let at = left[0];
    let mut holder = "first".to_owned();
    for (name, call) in calls {
        stands_at(&nodes, at, &name, 1).await;
        give_back(&nodes, at, &holder, token).await;
        let grant = call.granted().await;
        assert!(value(grant.token.as_ref()) > token);
        token = value(grant.token.as_ref());
        claim(&mut nodes.issuer(at), "r", &name, token).await;
        holder = name;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_begins_afresh_neither_at_a_failover_nor_at_a_retry() {
    let mut nodes = Nodes::start(3).await;
    let leader = nodes.leader().await;
    held_by(&nodes, leader, "first").await;
    let at = nodes.follower().await;
    let request = v1::AcquireRequest {
        wait_ms: 4_000,
        ..wait("a")
    };
    let started = std::time::Instant::now();
    let call = queued(&nodes, at, request, 1).await;
    nodes.crash(leader).await;
    assert_eq!(call.left().await, v1::LeftHow::WaitedOut);
    assert!(
        started.elapsed() >= std::time::Duration::from_secs(4),
        "never early"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_whose_holder_ended_under_the_last_leader_is_served_by_the_next() {
    let mut nodes = Nodes::start(3).await;
    let leader = nodes.leader().await;
    let at = nodes.follower().await;
    // A lease that runs out while nobody leads.
    let brief = v1::AcquireRequest {
        ttl_ms: 1_500,
        ..acquire("r", "first", LONG)
    };
    granted(&mut nodes.issuer(leader), brief).await;
    let a = queued(&nodes, at, wait("a"), 1).await;
    nodes.crash(leader).await;
    assert!(a.granted().await.after_wait);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_who_are_gone_with_their_node_are_given_up_while_renewals_go_on() {
    const GONE: usize = 1_000;
    let mut nodes = Nodes::start(3).await;
    let leader = nodes.leader().await;
    let dies = nodes.follower().await;
    let token = held_by(&nodes, leader, "first").await;
    let alive = queued(&nodes, leader, wait("alive"), 1).await;
    let mut calls = Vec::new();
    for _ in 0..4 {
        let issuer = nodes.issuer(dies);
        for _ in 0..GONE / 4 {
            let request = wait(&format!("gone {}", calls.len()));
            let call = persist(vec![issuer.clone()], request);
            calls.push(Call(tokio::spawn(call)));
        }
    }
    let waiters = |wanted: u64| {
        let mut cluster = nodes.cluster(leader);
        async move {
            let end = std::time::Instant::now() + std::time::Duration::from_secs(60);
            loop {
                let status = cluster.status(v1::StatusRequest {}).await.unwrap();
                let waiters = status.into_inner().waiters;
                if waiters == wanted {
                    return;
                }
                assert!(
                    std::time::Instant::now() < end,
                    "{waiters} wait, not {wanted}"
                );
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        }
    };
    let gone = u64::try_from(GONE).unwrap();
    waiters(gone + 1).await;
    let given_up = waiters(1);
    nodes.crash(dies).await;
    drop(calls);
    let renewing = {
        let mut issuer = nodes.issuer(leader);
        tokio::spawn(async move {
            loop {
                assert_eq!(claim(&mut issuer, "r", "first", token).await, LONG);
            }
        })
    };
    given_up.await;
    assert!(!renewing.is_finished(), "every renewal was answered");
    renewing.abort();
    give_back(&nodes, leader, "first", token).await;
    assert!(alive.granted().await.after_wait);
}
