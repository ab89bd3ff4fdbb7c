//! The ports: as many connections as a node may have, and messages that it can read.

use std::{
    io::Read,
    net::TcpStream,
    time::{Duration, Instant},
};

use fencepost::wire::v1;
use tonic::{Code, Request, client::Grpc, codegen::http::uri::PathAndQuery};
use tonic_prost::ProstCodec;

use crate::nodes::{Nodes, acquire, error_info, eventually, granted};

const TTL: u64 = 60_000;

/// Whether the other end has closed it.
fn is_closed(mut connection: &TcpStream) -> bool {
    connection
        .set_read_timeout(Some(Duration::from_secs(30)))
        .unwrap();
    // A reset is as good an end as an orderly one.
    connection.read(&mut [0]).map_or(true, |bytes| bytes == 0)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_connection_too_many_is_closed_at_once_and_counted_and_room_comes_back() {
    let mut nodes = Nodes::prepare(1);
    nodes.set(0, "max-connections", "16");
    nodes.run(0).await.unwrap();
    nodes.leader().await;
    let address = nodes.flag(0, "listen").to_owned();
    let began = Instant::now();
    let open: Vec<_> = (0..16)
        .map(|_| TcpStream::connect(&address).unwrap())
        .collect();
    let one_more = TcpStream::connect(&address).unwrap();
    let closed = tokio::task::spawn_blocking(move || is_closed(&one_more));
    assert!(closed.await.unwrap());
    let page = crate::probes::get(&nodes, 0, "/metrics").await.1;
    let has = |line: &str| page.lines().any(|found| found == line);
    assert!(has(
        "fencepost_connections_refused_total{port=\"client\"} 1"
    ));
    // Unless this machine stood still until the silent ones were given up.
    if began.elapsed() < Duration::from_secs(8) {
        assert!(has("fencepost_connections{port=\"client\"} 16"), "{page}");
    }
    drop(open);
    let mut issuer = nodes.issuer(0);
    eventually("there is room again", || {
        let mut issuer = issuer.clone();
        async move { issuer.list(v1::ListRequest::default()).await.ok() }
    })
    .await;
    granted(&mut issuer, acquire("r", "a", TTL)).await;
    let status = nodes.cluster(0).status(v1::StatusRequest {}).await;
    let status = status.unwrap().into_inner();
    assert_eq!(status.connections_max, 16);
    assert!((1..=16).contains(&status.connections));
}

#[tokio::test(flavor = "multi_thread")]
async fn bytes_that_are_no_request_are_refused_like_any_other_wrong_input() {
    let nodes = Nodes::start(1).await;
    let mut client = Grpc::new(nodes.raw(0));
    client.ready().await.unwrap();
    // Its first field is a number, where an acquire has a string.
    let odd = v1::PipelineRequest {
        id: 7,
        ..v1::PipelineRequest::default()
    };
    let path = PathAndQuery::from_static("/fencepost.v1.Issuer/Acquire");
    let codec = ProstCodec::<v1::PipelineRequest, v1::AcquireResponse>::default();
    let answer = client.unary(Request::new(odd), path, codec).await;
    let (code, reason, metadata) = error_info(&answer.unwrap_err());
    assert_eq!(
        (code, reason.as_str()),
        (Code::InvalidArgument, "INVALID_FIELD")
    );
    assert_eq!(
        (metadata["field"].as_str(), metadata["effect"].as_str()),
        ("message", "none")
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_bytes_that_are_no_requests_ends_with_what_is_wrong() {
    let nodes = Nodes::start(1).await;
    let mut client = Grpc::new(nodes.raw(0));
    client.ready().await.unwrap();
    let odd = tokio_stream::iter([acquire("r", "a", TTL)]);
    let path = PathAndQuery::from_static("/fencepost.v1.Issuer/Pipeline");
    let codec = ProstCodec::<v1::AcquireRequest, v1::PipelineResponse>::default();
    let answers = client.streaming(Request::new(odd), path, codec).await;
    let end = answers.unwrap().into_inner().message().await.unwrap_err();
    let (code, _, metadata) = error_info(&end);
    assert_eq!(
        (code, metadata["field"].as_str()),
        (Code::InvalidArgument, "message")
    );
}
