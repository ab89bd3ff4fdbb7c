//! Many who wait on one stream.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use fencepost::wire::v1::{
    self, LeftHow, acquire_response::Outcome as Acquired, pipeline_request::Operation,
    pipeline_response::Answer, withdraw_response::Outcome as Withdrawn,
};
use tonic::Code;

use super::{LONG, again, claim, for_good, give_back, held_by, place, wait, withdraw};
use crate::{
    nodes::{Nodes, eventually, renew},
    pipeline::stream::Stream,
};

const MANY: u32 = 1_000;

fn waiter(n: u32) -> v1::AcquireRequest {
    wait(&format!("waiter {n}"))
}

/// How a call comes out, however often it has to come back.
async fn outcome(stream: &mut Stream, n: u32) -> Acquired {
    let mut request = for_good(&waiter(n));
    loop {
        match stream.answer(n.into()).await {
            Answer::Acquire(acquired) => return acquired.outcome.unwrap(),
            Answer::Failure(failure) if failure.code == i32::from(Code::Unavailable) => {
                request = again(&request);
                stream.send(n.into(), Operation::Acquire(request.clone()));
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A stream of one node with all of them in line for `r`, in whatever order. A node that is held up may
/// end calls; those come back, as every client's do.
async fn line(nodes: &Nodes, at: usize) -> Stream {
    let mut stream = Stream::open(nodes.issuer(at)).await;
    let mut attempts = BTreeMap::new();
    for n in 1..=MANY {
        stream.send(n.into(), Operation::Acquire(waiter(n)));
        attempts.insert(u64::from(n), waiter(n));
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    while place(nodes, at, "nobody").await.1 < MANY {
        assert!(Instant::now() < deadline, "never did all of them wait");
        let next = tokio::time::timeout(Duration::from_millis(50), stream.next());
        let Ok(answer) = next.await else { continue };
        match answer.unwrap().unwrap() {
            (n, Answer::Failure(failure)) if failure.code == i32::from(Code::Unavailable) => {
                let request = attempts.get_mut(&n).unwrap();
                *request = again(request);
                stream.send(n, Operation::Acquire(request.clone()));
            }
            other => panic!("{other:?}"),
        }
    }
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_who_wait_on_one_stream_hold_up_nobody_there() {
    let nodes = Nodes::start(3).await;
    let at = nodes.follower().await;
    let token = held_by(&nodes, at, "first").await;
    let mut stream = line(&nodes, at).await;
    // A renewal and a withdrawal go past all of them (hyper#3559).
    let items = vec![renew("r", "first", token)];
    let renewed = stream.ask(5_000, Operation::Renew(v1::RenewRequest { items }));
    let Answer::Renew(renewed) = renewed.await else {
        panic!("another answer");
    };
    let expected = v1::renew_outcome::Outcome::Renewed(v1::Renewed { lease_ms: LONG });
    assert_eq!(renewed.outcomes[0].outcome, Some(expected));
    let gone = MANY / 2;
    let left = stream.ask(
        5_001,
        Operation::Withdraw(withdraw(&for_good(&waiter(gone)))),
    );
    let Answer::Withdraw(left) = left.await else {
        panic!("another answer");
    };
    assert!(matches!(left.outcome, Some(Withdrawn::Left(_))), "{left:?}");
    match outcome(&mut stream, gone).await {
        Acquired::Left(left) => assert_eq!(left.how(), LeftHow::Withdrawn),
        other => panic!("{other:?}"),
    }
    // Whoever came first on the stream may have been proposed later; the queue knows who is first.
    let mut head = None;
    for n in 1..=MANY {
        if place(&nodes, at, &format!("waiter {n}")).await.0 == 1 {
            head = Some(n);
            break;
        }
    }
    give_back(&nodes, at, "first", token).await;
    match outcome(&mut stream, head.unwrap()).await {
        Acquired::Granted(granted) => assert!(granted.after_wait),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_drops_a_stream_leaves_every_place_and_no_lease() {
    let nodes = Nodes::start(3).await;
    let at = nodes.follower().await;
    let token = held_by(&nodes, at, "first").await;
    let stream = line(&nodes, at).await;
    drop(stream);
    eventually("all places are given up", || async {
        (place(&nodes, at, "nobody").await.1 == 0).then_some(())
    })
    .await;
    let status = nodes.cluster(at).status(v1::StatusRequest {}).await;
    assert_eq!(status.unwrap().into_inner().waiting_calls, 0);
    let lease = claim(&mut nodes.issuer(at), "r", "first", token).await;
    assert_eq!(lease, LONG);
}
