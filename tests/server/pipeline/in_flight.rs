//! Many at once: waits, readers that do not read, ids, and what a stream has room for.

use std::time::Duration;

use fencepost::wire::v1::{self, issuer_client::IssuerClient, pipeline_request::Operation};
use tonic::Code;

use super::stream::{Stream, acquire, failed, granted, inspect, release, released, renew, renewed};
use crate::nodes::{Nodes, eventually};

const TTL: u64 = 60_000;

fn wait(resource: &str, holder: &str) -> Operation {
    Operation::Acquire(v1::AcquireRequest {
        wait_ms: TTL,
        ..crate::nodes::acquire(resource, holder, TTL)
    })
}

async fn waiting_calls(nodes: &Nodes) -> u64 {
    let status = nodes.cluster(0).status(v1::StatusRequest {}).await;
    status.unwrap().into_inner().waiting_calls
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_blocked_waits_leave_room_for_a_renewal_and_are_granted_one_after_the_other() {
    let mut nodes = Nodes::prepare(1);
    // Fewer operations than waits: these must not count as those.
    nodes.set(0, "max-pipelined", "16");
    nodes.run(0).await.unwrap();
    nodes.leader().await;
    let mut stream = Stream::open(nodes.issuer(0)).await;
    let mut token = granted(&stream.ask(0, acquire("r", "first", TTL)).await);
    for id in 1..=1_000 {
        stream.send(id, wait("r", &format!("h{id}")));
    }
    eventually("all of them wait", || async {
        (waiting_calls(&nodes).await == 1_000).then_some(())
    })
    .await;
    assert!(renewed(
        &stream.ask(2_000, renew("r", "first", token)).await
    ));
    assert!(released(
        &stream.ask(2_001, release("r", "first", token)).await
    ));
    // In the order in which they were sent: one stream is read in order.
    for id in 1..=20 {
        let next = granted(&stream.answer(id).await);
        assert!(next > token);
        token = next;
        let release = release("r", &format!("h{id}"), token);
        assert!(released(&stream.ask(2_000, release).await));
    }
    drop(stream);
    eventually("the others are gone with the stream", || async {
        (waiting_calls(&nodes).await == 0).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_is_in_flight_is_refused_and_free_again_once_it_is_answered() {
    let nodes = Nodes::start(1).await;
    let mut stream = Stream::open(nodes.issuer(0)).await;
    let token = granted(&stream.ask(1, acquire("r", "a", TTL)).await);
    stream.send(7, wait("r", "b"));
    eventually("it waits", || async {
        (waiting_calls(&nodes).await == 1).then_some(())
    })
    .await;
    let (code, reason, metadata) = failed(stream.ask(7, inspect("r")).await);
    assert_eq!(
        (code, reason.as_str()),
        (Code::InvalidArgument, "INVALID_FIELD")
    );
    assert_eq!(
        (metadata["field"].as_str(), metadata["effect"].as_str()),
        ("id", "none")
    );
    stream.send(1, release("r", "a", token));
    assert!(released(&stream.answer(1).await));
    let next = granted(&stream.answer(7).await);
    assert!(renewed(&stream.ask(7, renew("r", "b", next)).await));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_takes_no_answers_stalls_itself_alone() {
    const SENT: u64 = 20_000;
    let mut nodes = Nodes::prepare(1);
    nodes.set(0, "max-pipelined", "64");
    nodes.run(0).await.unwrap();
    nodes.leader().await;
    let address = nodes.flag(0, "listen");
    // The transport has room for a small part of the answers.
    let narrow = tonic::transport::Endpoint::from_shared(format!("http://{address}"))
        .unwrap()
        .initial_stream_window_size(65_535)
        .initial_connection_window_size(65_535);
    let channel = narrow.connect().await.unwrap();
    let mut stalled = Stream::open(IssuerClient::new(channel)).await;
    for id in 0..SENT {
        stalled.send(id, acquire(&format!("{id}"), "a", TTL));
    }
    let mut other = Stream::open(nodes.issuer(0)).await;
    let token = granted(&other.ask(1, acquire("r", "b", TTL)).await);
    for _ in 0..200 {
        assert!(renewed(&other.ask(2, renew("r", "b", token)).await));
    }
    let status = nodes.cluster(0).status(v1::StatusRequest {}).await;
    let status = status.unwrap().into_inner();
    assert!(status.live_leases < SENT, "it is not read without end");
    assert!(status.calls <= 2 * 64, "{}", status.calls);
    for id in 0..SENT {
        granted(&stalled.answer(id).await);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_pings_all_the_time_keeps_its_connection() {
    let nodes = Nodes::start(1).await;
    let address = nodes.flag(0, "listen");
    let pinging = tonic::transport::Endpoint::from_shared(format!("http://{address}"))
        .unwrap()
        .http2_keep_alive_interval(Duration::from_millis(5))
        .keep_alive_while_idle(true);
    let channel = pinging.connect().await.unwrap();
    let mut stream = Stream::open(IssuerClient::new(channel)).await;
    granted(&stream.ask(1, acquire("short", "a", 1_000)).await);
    // A second and some hundred pings later the stream is still there.
    let grant = stream.ask(2, wait("short", "b")).await;
    granted(&grant);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_operation_is_left_behind_while_others_pass_it() {
    const SENT: u64 = 20_000;
    const IN_FLIGHT: u64 = 1_024;
    let mut nodes = Nodes::prepare(1);
    nodes.set(0, "max-pipelined", &IN_FLIGHT.to_string());
    nodes.run(0).await.unwrap();
    nodes.leader().await;
    let mut stream = Stream::open(nodes.issuer(0)).await;
    for id in 0..SENT {
        stream.send(id, acquire(&format!("{id}"), "a", TTL));
    }
    for place in 0..SENT {
        let (id, _) = stream.next().await.unwrap().unwrap();
        let passed = place.saturating_sub(id);
        assert!(passed <= 2 * IN_FLIGHT, "{id} was passed by {passed}");
    }
}
