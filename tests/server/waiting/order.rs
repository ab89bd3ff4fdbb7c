//! First come, first served, and one grant each.

use std::collections::BTreeSet;

use fencepost::wire::v1::{self, acquire_response::Outcome};

use super::{Call, LONG, claim, give_back, held_by, place, queued, stands_at, wait, wait_for};
use crate::nodes::{Nodes, acquire, eventually, granted, inspect, value};

#[tokio::test(flavor = "multi_thread")]
async fn waiters_at_any_node_are_granted_in_the_order_in_which_they_came() {
    let nodes = Nodes::start(3).await;
    let mut token = held_by(&nodes, 0, "first").await;
    let mut holder = "first".to_owned();
    let mut calls = Vec::new();
    for n in 0..6_u32 {
        let at = usize::try_from(n).unwrap() % 3;
        let name = format!("waiter {n}");
        calls.push((name.clone(), queued(&nodes, at, wait(&name), n + 1).await));
    }
    let mut queue = 6;
    for (name, call) in calls {
        assert_eq!(place(&nodes, 0, &name).await, (1, queue));
        assert!(!call.is_over());
        give_back(&nodes, 1, &holder, token).await;
        let grant = call.granted().await;
        assert!(grant.after_wait && !grant.replayed && grant.granted_at_unix_ms > 0);
        assert_eq!(grant.lease_ms, 2_000, "until it is claimed");
        assert!(value(grant.token.as_ref()) > token);
        token = value(grant.token.as_ref());
        assert_eq!(claim(&mut nodes.issuer(2), "r", &name, token).await, LONG);
        (holder, queue) = (name, queue - 1);
    }
    assert_eq!(
        place(&nodes, 0, &holder).await,
        (0, 0),
        "it does not wait any more"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_free_resource_is_granted_at_once_whatever_the_wait() {
    let nodes = Nodes::start(3).await;
    let grant = granted(&mut nodes.issuer(nodes.follower().await), wait("a")).await;
    assert!(!grant.after_wait);
    assert_eq!(grant.lease_ms, LONG);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_holder_asking_again_supersedes_and_does_not_queue() {
    let nodes = Nodes::start(1).await;
    let first = held_by(&nodes, 0, "a").await;
    let other = queued(&nodes, 0, wait("b"), 1).await;
    let request = v1::AcquireRequest {
        request_id: "another".into(),
        ..wait("a")
    };
    let second = granted(&mut nodes.issuer(0), request).await;
    assert!(!second.after_wait && value(second.token.as_ref()) > first);
    assert_eq!(place(&nodes, 0, "b").await, (1, 1));
    give_back(&nodes, 0, "a", value(second.token.as_ref())).await;
    assert!(other.granted().await.after_wait);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_loses_the_lease_while_others_wait_comes_back_to_the_end_of_the_line() {
    let nodes = Nodes::start(1).await;
    let brief = v1::AcquireRequest {
        // Both others are in line by then.
        ttl_ms: 5_000,
        wait_ms: 0,
        ..wait("a")
    };
    let first = value(granted(&mut nodes.issuer(0), brief).await.token.as_ref());
    let b = queued(&nodes, 0, wait("b"), 1).await;
    let c = queued(&nodes, 0, wait("c"), 2).await;
    let second = value(b.granted().await.token.as_ref());
    claim(&mut nodes.issuer(0), "r", "b", second).await;
    // A new session of the same client: its old lease is gone, and nothing of it is adopted.
    let request = v1::AcquireRequest {
        request_id: "a new session".into(),
        ..wait("a")
    };
    let a = queued(&nodes, 0, request, 2).await;
    give_back(&nodes, 0, "b", second).await;
    let third = value(c.granted().await.token.as_ref());
    claim(&mut nodes.issuer(0), "r", "c", third).await;
    give_back(&nodes, 0, "c", third).await;
    let fourth = value(a.granted().await.token.as_ref());
    assert!([first, second, third, fourth].is_sorted_by(|a, b| a < b));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_that_nobody_claims_passes_on() {
    let nodes = Nodes::start(3).await;
    let follower = nodes.follower().await;
    let token = held_by(&nodes, 0, "first").await;
    let a = queued(&nodes, follower, wait("a"), 1).await;
    let b = queued(&nodes, follower, wait("b"), 2).await;
    give_back(&nodes, 0, "first", token).await;
    let unclaimed = value(a.granted().await.token.as_ref());
    let claimed = value(b.granted().await.token.as_ref());
    assert!(claimed > unclaimed);
    let ended = v1::AcquireRequest {
        attempt: 2,
        ..wait("a")
    };
    match Call::make(&nodes, 0, ended).outcome().await {
        Outcome::Ended(ended) => {
            assert_eq!(ended.how(), v1::EndedHow::Expired);
            assert_eq!(value(ended.token.as_ref()), unclaimed);
        }
        other => panic!("{other:?}"),
    }
    // A claim makes the lease the whole TTL: it outlasts the two seconds by far.
    assert_eq!(claim(&mut nodes.issuer(0), "r", "b", claimed).await, LONG);
    let seen = nodes.issuer(0).inspect(inspect("r")).await.unwrap();
    let grant = seen.into_inner().grant.unwrap();
    assert_eq!(
        (grant.holder.as_str(), value(grant.token.as_ref())),
        ("b", claimed)
    );
    assert!(grant.remaining_ms > 2_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn resources_that_fall_free_together_go_to_each_next_waiter_under_a_token_of_its_own() {
    const RESOURCES: usize = 50;
    let nodes = Nodes::start(3).await;
    let mut issuer = nodes.issuer(0);
    let mut tokens = BTreeSet::new();
    for n in 0..RESOURCES {
        // All of one holder, which keeps none of them alive (consul#5205).
        let name = format!("resource {n}");
        let grant = granted(&mut issuer, acquire(&name, "holder", 10_000)).await;
        tokens.insert(value(grant.token.as_ref()));
    }
    let calls: Vec<_> = (0..RESOURCES)
        .map(|n| Call::make(&nodes, n % 3, wait_for(&format!("resource {n}"), "waiter")))
        .collect();
    eventually("all of them wait", || async {
        let status = nodes.cluster(0).status(v1::StatusRequest {}).await;
        let waiters = status.unwrap().into_inner().waiters;
        (waiters == u64::try_from(RESOURCES).unwrap()).then_some(())
    })
    .await;
    for call in calls {
        let grant = call.granted().await;
        assert!(grant.after_wait);
        tokens.insert(value(grant.token.as_ref()));
    }
    assert_eq!(tokens.len(), 2 * RESOURCES);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_frees_the_resource_at_once_for_those_who_wait_and_those_who_poll() {
    let nodes = Nodes::start(1).await;
    let token = held_by(&nodes, 0, "a").await;
    let waiter = queued(&nodes, 0, wait("b"), 1).await;
    give_back(&nodes, 0, "a", token).await;
    // Who polls is refused by the waiter's grant, not by what is left of the lease that was given back
    // (kubernetes/client-go#575).
    let polled = Call::make(&nodes, 0, acquire("r", "c", LONG))
        .outcome()
        .await;
    let token = value(waiter.granted().await.token.as_ref());
    match polled {
        Outcome::Held(held) => assert_eq!(held.holder, "b"),
        other => panic!("{other:?}"),
    }
    give_back(&nodes, 0, "b", token).await;
    let grant = granted(&mut nodes.issuer(0), acquire("r", "c", LONG)).await;
    assert!(!grant.after_wait);
    stands_at(&nodes, 0, "b", 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_tells_how_many_wait() {
    let nodes = Nodes::start(1).await;
    held_by(&nodes, 0, "a").await;
    let _b = queued(&nodes, 0, wait("b"), 1).await;
    let _c = queued(&nodes, 0, wait("c"), 2).await;
    match Call::make(&nodes, 0, acquire("r", "d", LONG))
        .outcome()
        .await
    {
        Outcome::Held(held) => assert_eq!((held.holder.as_str(), held.queue), ("a", 2)),
        other => panic!("{other:?}"),
    }
}
