//! Streams outlast the leader; only their own node's stop ends them, and says so.

use fencepost::wire::v1::pipeline_response::Answer;
use tonic::Code;

use super::stream::{Stream, acquire, granted, inspect, renew, renewed};
use crate::nodes::{Nodes, error_info};

const TTL: u64 = 60_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_at_a_follower_goes_on_under_the_next_leader() {
    let mut nodes = Nodes::start(3).await;
    let (leader, follower) = (nodes.leader().await, nodes.follower().await);
    let mut stream = Stream::open(nodes.issuer(follower)).await;
    let token = granted(&stream.ask(0, acquire("r", "a", TTL)).await);
    nodes.crash(leader).await;
    // Each is answered, be it with a failure, until one gets through again.
    let mut id = 0;
    loop {
        id += 1;
        match stream.ask(id, renew("r", "a", token)).await {
            Answer::Failure(failure) => assert!(
                [Code::Unavailable, Code::DeadlineExceeded].contains(&Code::from_i32(failure.code)),
                "{failure:?}"
            ),
            answer => {
                assert!(renewed(&answer), "the lease lives on");
                break;
            }
        }
        assert!(id < 100, "no leader for a hundred tries of two seconds");
    }
    let next = granted(&stream.ask(0, acquire("s", "a", TTL)).await);
    assert!(next > token);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_stops_ends_its_streams_and_says_so() {
    let mut nodes = Nodes::start(1).await;
    let mut stream = Stream::open(nodes.issuer(0)).await;
    granted(&stream.ask(1, acquire("r", "a", TTL)).await);
    stream.send(2, inspect("r"));
    stream.answer(2).await;
    nodes.stop(0).await;
    let end = stream.next().await.unwrap_err();
    let (code, reason, _) = error_info(&end);
    assert_eq!((code, reason.as_str()), (Code::Unavailable, "STOPPING"));
}
