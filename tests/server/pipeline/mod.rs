//! `Pipeline`: many operations on one stream, each as if it were a call of its own.

mod in_flight;
mod leaders;
pub(crate) mod stream;

use std::collections::BTreeSet;

use fencepost::wire::v1::{
    self, PipelineRequest, pipeline_request::Operation, pipeline_response::Answer,
};
use tonic::Code;

use crate::nodes::Nodes;
use stream::{Stream, acquire, failed, granted, inspect, release, released, renew, renewed};

const TTL: u64 = 60_000;

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_is_carried_out_as_a_call_of_its_own_would_be() {
    let nodes = Nodes::start(3).await;
    // A follower passes them on, like any other call.
    for n in [nodes.leader().await, nodes.follower().await] {
        let mut stream = Stream::open(nodes.issuer(n)).await;
        let name = format!("r{n}");
        let token = granted(&stream.ask(1, acquire(&name, "a", TTL)).await);
        assert!(renewed(&stream.ask(2, renew(&name, "a", token)).await));
        let Answer::Inspect(seen) = stream.ask(3, inspect(&name)).await else {
            panic!("no answer to an inspect");
        };
        assert_eq!(seen.grant.unwrap().renewals, 1);
        let header = seen.header.unwrap();
        assert_eq!(header.node_id, u64::try_from(n).unwrap() + 1);
        let list = Operation::List(v1::ListRequest::default());
        let Answer::List(listed) = stream.ask(4, list).await else {
            panic!("no answer to a list");
        };
        assert_eq!(listed.grants.len(), 1);
        assert!(released(&stream.ask(5, release(&name, "a", token)).await));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_are_in_flight_and_each_answer_finds_its_request() {
    let nodes = Nodes::start(1).await;
    let mut stream = Stream::open(nodes.issuer(0)).await;
    for id in 1..=5_000 {
        stream.send(id, acquire(&format!("r{id}"), "a", TTL));
    }
    let mut tokens = BTreeSet::new();
    for id in 1..=5_000 {
        let Answer::Acquire(response) = stream.answer(id).await else {
            panic!("no answer to an acquire");
        };
        tokens.insert(granted(&Answer::Acquire(response)));
    }
    assert_eq!(tokens.len(), 5_000);
    let held = stream.ask(1, acquire("r7", "b", TTL)).await;
    let Answer::Acquire(v1::AcquireResponse {
        outcome: Some(v1::acquire_response::Outcome::Held(_)),
        ..
    }) = held
    else {
        panic!("not held: {held:?}");
    };
}

#[tokio::test(flavor = "multi_thread")]
async fn closing_the_sending_half_lets_what_is_in_flight_finish_and_ends_no_lease() {
    let nodes = Nodes::start(1).await;
    let mut stream = Stream::open(nodes.issuer(0)).await;
    for id in 0..100 {
        stream.send(id, acquire(&format!("r{id}"), "a", TTL));
    }
    stream.close();
    let mut tokens = vec![0; 100];
    while let Some((id, answer)) = stream.next().await.unwrap() {
        tokens[usize::try_from(id).unwrap()] = granted(&answer);
    }
    assert!(!tokens.contains(&0), "every one was answered");
    drop(stream);
    let mut other = Stream::open(nodes.issuer(0)).await;
    for (id, token) in (0..).zip(tokens) {
        assert!(renewed(
            &other.ask(id, renew(&format!("r{id}"), "a", token)).await
        ));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_requests_are_answered_by_their_id_and_the_stream_goes_on() {
    let nodes = Nodes::start(1).await;
    let mut stream = Stream::open(nodes.issuer(0)).await;
    let mut odd = vec![
        (acquire("", "a", TTL), "resource"),
        (acquire("r", "a\0", TTL), "holder"),
    ];
    for ttl in [0, 99, 1 << 53, 1 << 63, 86_400_000_000_000, u64::MAX] {
        odd.push((acquire("r", "a", ttl), "ttl_ms"));
    }
    odd.push((acquire(&"a".repeat(1 << 20), "a", TTL), "resource"));
    odd.push((renew("r", "a", 0), "items[0].token"));
    odd.push((renew("r", "a", u64::MAX), "items[0].token"));
    odd.push((Operation::Renew(v1::RenewRequest::default()), "items"));
    odd.push((release("r ", "a", 1), "resource"));
    odd.push((inspect("\u{7f}"), "resource"));
    let page = v1::ListRequest {
        page_size: u32::MAX,
        ..v1::ListRequest::default()
    };
    odd.push((Operation::List(page), "page_size"));
    for (id, (operation, field)) in (u64::MAX - 100..).zip(odd) {
        let (code, reason, metadata) = failed(stream.ask(id, operation).await);
        assert_eq!(
            (code, reason.as_str()),
            (Code::InvalidArgument, "INVALID_FIELD")
        );
        assert_eq!(
            (metadata["field"].as_str(), metadata["effect"].as_str()),
            (field, "none")
        );
    }
    stream.send_raw(PipelineRequest::default());
    let (code, _, metadata) = failed(stream.answer(0).await);
    assert_eq!(
        (code, metadata["field"].as_str()),
        (Code::InvalidArgument, "operation")
    );
    granted(&stream.ask(0, acquire("é", "שלום", TTL)).await);
}
