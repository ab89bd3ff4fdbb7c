//! One stream carries a client's operations: out of order, bounded, and reopened when it breaks.

use crate::fake::{Act, Fake, client};
use crate::{PLENTY, SHORT, acquire, granted, in_line, until};
use fencepost::client::{Cause, Client, ErrorKind, Options};
use fencepost::wire::failure::{Failure, Reason};
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::task::JoinSet;

/// A client that does not lose its patience with a node that says nothing.
fn patient(node: &Fake) -> Client {
    let options = Options::default().attempt_timeout(PLENTY).timeout(PLENTY);
    Client::connect([&node.address], options).unwrap()
}

#[tokio::test]
async fn all_operations_share_one_stream() {
    let node = Fake::start(|_, _| Act::Answer).await;
    let client = client(&[&node.address], PLENTY);
    let acquired = granted(&client).await;
    client.renew(&[acquired.renewal()]).await.unwrap();
    client.inspect(&acquired.resource).await.unwrap();
    client.list("", 10, None).await.unwrap();
    let (resource, holder) = (&acquired.resource, &acquired.holder);
    client
        .release(resource, holder, acquired.token.value())
        .await
        .unwrap();
    assert_eq!(node.streams(), (1, 1));
}

#[tokio::test]
async fn answers_come_in_whatever_order_they_are_ready() {
    let said = Arc::new(Notify::new());
    let first = Arc::clone(&said);
    let node = Fake::start(move |call, before| match (call, before) {
        ("acquire", 0) => Act::Once(Arc::clone(&first), Box::new(Act::Held)),
        _ => Act::Answer,
    })
    .await;
    let client = patient(&node);
    let held = tokio::spawn({
        let client = client.clone();
        async move { acquire(&client).await.unwrap() }
    });
    until("the first acquire arrives", || node.count("acquire") == 1).await;
    granted(&client).await;
    assert!(!held.is_finished());
    said.notify_one();
    let outcome = held.await.unwrap();
    assert!(
        matches!(outcome, fencepost::client::AcquireOutcome::Held(_)),
        "{outcome:?}"
    );
    assert_eq!(node.streams(), (1, 1));
}

#[tokio::test]
async fn a_stream_that_breaks_ends_all_it_carries_and_each_is_sent_again() {
    let node = Fake::start(|call, before| match (call, before) {
        ("acquire", 0..4) => Act::Silence,
        ("acquire", 4) => Act::Break,
        _ => Act::Answer,
    })
    .await;
    let client = patient(&node);
    let mut calls = JoinSet::new();
    for _ in 0..5 {
        let client = client.clone();
        calls.spawn(async move { granted(&client).await });
    }
    while let Some(call) = calls.join_next().await {
        // When the grant that answers a second send began is known: it is not a replay.
        assert!(call.unwrap().safe_until().is_some());
    }
    assert_eq!((client.resends(), node.streams()), (5, (2, 1)));
    let mut sends = node.acquires();
    sends.sort_by(|a, b| (&a.request_id, a.attempt).cmp(&(&b.request_id, b.attempt)));
    for pair in sends.chunks(2) {
        assert_eq!(pair[0].request_id, pair[1].request_id);
        assert_eq!((pair[0].attempt, pair[1].attempt), (1, 2));
    }
}

#[tokio::test]
async fn a_broken_stream_leaves_an_unknown_outcome_behind() {
    let node = Fake::start(|call, _| match call {
        "acquire" => Act::Break,
        _ => Act::Answer,
    })
    .await;
    let client = client(&[&node.address], SHORT);
    let error = acquire(&client).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::UnknownOutcome);
    assert!(error.to_string().contains("closed the stream"), "{error}");
    let error = client.inspect(&"jobs".parse().unwrap()).await;
    assert!(error.is_ok(), "the next call opens another stream");
}

#[tokio::test]
async fn a_thousand_waits_do_not_hold_up_a_renewal() {
    let node = Fake::start(|call, before| match (call, before) {
        ("acquire", 1..) => Act::InLine,
        _ => Act::Answer,
    })
    .await;
    let client = patient(&node);
    let acquired = granted(&client).await;
    let mut waits = JoinSet::new();
    for _ in 0..1_000 {
        let client = client.clone();
        waits.spawn(async move {
            let mut ask = in_line(&client, PLENTY);
            client.acquire_with(&mut ask).await
        });
    }
    until("all of them stand in line", || {
        node.count("acquire") == 1_001
    })
    .await;
    client.renew(&[acquired.renewal()]).await.unwrap();
    assert_eq!(
        node.streams(),
        (2, 2),
        "each takes 512 waits, beside everything else"
    );
}

#[tokio::test]
async fn those_who_ask_take_turns_and_those_who_keep_go_first() {
    let said = Arc::new(Notify::new());
    let wait = Arc::clone(&said);
    let node = Fake::start(move |call, before| match (call, before) {
        ("acquire", 1..=512) => Act::Once(Arc::clone(&wait), Box::new(Act::Answer)),
        _ => Act::Answer,
    })
    .await;
    let client = patient(&node);
    let acquired = granted(&client).await;
    let mut calls = JoinSet::new();
    for _ in 0..700 {
        let client = client.clone();
        calls.spawn(async move { granted(&client).await });
    }
    until("there is no room left", || node.count("acquire") == 513).await;
    // What is sent now leaves after everything that there was room for.
    client.renew(&[acquired.renewal()]).await.unwrap();
    assert_eq!(node.count("acquire"), 513, "the others wait for their turn");
    said.notify_waiters();
    while let Some(call) = calls.join_next().await {
        call.unwrap();
    }
    assert_eq!((client.resends(), node.streams()), (0, (1, 1)));
}

#[tokio::test]
async fn a_node_without_pipeline_is_told_from_one_that_fails() {
    let node = Fake::start(|_, _| Act::Answer).await;
    node.become_(|node| node.old = true);
    let error = acquire(&client(&[&node.address], PLENTY))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::BadAnswer);
    assert!(!error.may_retry());
    assert!(
        error.to_string().contains("does not know Pipeline"),
        "{error}"
    );
}

#[tokio::test]
async fn an_operation_that_fails_says_what_a_call_of_its_own_would() {
    let node = Fake::start(|call, _| match call {
        "release" => {
            let failure = Failure::new(Reason::DiskFull, "the leader's disk is full");
            Act::Fail(failure.leader(Some("127.0.0.1:9".to_owned())))
        }
        _ => Act::Answer,
    })
    .await;
    let client = client(&[&node.address], PLENTY);
    let acquired = granted(&client).await;
    let (resource, holder) = (&acquired.resource, &acquired.holder);
    let released = client.release(resource, holder, acquired.token.value());
    let error = released.await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Exhausted);
    let Some(Cause::Told { reason, .. }) = error.last_cause() else {
        panic!("expected the node's own words, got {error:?}")
    };
    assert_eq!(*reason, "DISK_FULL");
    assert_eq!(
        error.leader_hint().map(|leader| leader.as_str()),
        Some("127.0.0.1:9")
    );
    assert_eq!(node.streams(), (1, 1), "the stream goes on");
}

#[tokio::test]
async fn the_streams_of_a_client_end_with_it() {
    let node = Fake::start(|_, _| Act::Answer).await;
    let client = patient(&node);
    granted(&client).await;
    drop(client);
    until("no stream is open", || node.streams() == (1, 0)).await;
}

#[tokio::test]
async fn an_idle_client_keeps_no_stream_open() {
    // With none open it sends no pings either, of which a proxy could complain (llm-d-kv-cache#359).
    let node = Fake::start(|_, _| Act::Answer).await;
    let client = patient(&node);
    granted(&client).await;
    until("the idle stream is closed", || node.streams() == (1, 0)).await;
    granted(&client).await;
    assert_eq!((client.resends(), node.streams()), (0, (2, 1)));
}
