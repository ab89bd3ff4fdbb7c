//! What is too much is refused by name, without a trace.

use fencepost::{
    limits::{WAIT_MS_MAX, WAITERS_MAX, WAITERS_PER_RESOURCE_MAX},
    wire::v1::{self, acquire_response::Outcome},
};
use tonic::Code;

use super::{Call, again, held_by, persist, place, queued, wait};
use crate::nodes::{Nodes, error_info, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn the_longest_wait_waits_and_none_does_not() {
    let nodes = Nodes::start(1).await;
    held_by(&nodes, 0, "first").await;
    let longest = v1::AcquireRequest {
        wait_ms: WAIT_MS_MAX,
        ..wait("a")
    };
    let waits = queued(&nodes, 0, longest, 1).await;
    let none = v1::AcquireRequest {
        wait_ms: 0,
        ..wait("b")
    };
    let held = Call::make(&nodes, 0, none).outcome().await;
    assert!(matches!(held, Outcome::Held(_)), "{held:?}");
    assert!(!waits.is_over());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_waiter_too_many_is_refused_by_the_name_of_the_limit() {
    let mut nodes = Nodes::prepare(1);
    // All of them come at once.
    nodes.set(0, "max-in-flight", "10000");
    nodes.run(0).await.unwrap();
    nodes.leader().await;
    held_by(&nodes, 0, "first").await;
    let mut calls = Vec::new();
    let issuers: Vec<_> = (0..8).map(|_| nodes.issuer(0)).collect();
    for n in 0..usize::try_from(WAITERS_PER_RESOURCE_MAX).unwrap() {
        let issuer = issuers[n % issuers.len()].clone();
        let call = persist(vec![issuer], wait(&format!("waiter {n}")));
        calls.push(Call(tokio::spawn(call)));
    }
    eventually("all of them wait", || async {
        let (_, queue) = place(&nodes, 0, "nobody").await;
        (queue == WAITERS_PER_RESOURCE_MAX).then_some(())
    })
    .await;
    let status = nodes.cluster(0).status(v1::StatusRequest {}).await;
    let status = status.unwrap().into_inner();
    assert_eq!(status.waiters, u64::from(WAITERS_PER_RESOURCE_MAX));
    assert_eq!(status.waiters_max, u64::from(WAITERS_MAX));
    assert_eq!(status.waiting_calls, status.waiters);
    for request in [wait("one more"), again(&wait("one more"))] {
        let failed = Call::make(&nodes, 0, request).result().await.unwrap_err();
        let (code, reason, metadata) = error_info(&failed);
        assert_eq!((code, reason.as_str()), (Code::ResourceExhausted, "LIMIT"));
        assert_eq!(metadata["effect"], "none");
        let limit = WAITERS_PER_RESOURCE_MAX.to_string();
        assert!(failed.message().contains(&limit), "{failed:?}");
    }
    assert_eq!(place(&nodes, 0, "one more").await.0, 0);
    assert!(!calls.iter().any(Call::is_over));
}
