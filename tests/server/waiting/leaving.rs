//! How a place in a queue ends without a grant.

use fencepost::wire::v1::{
    self, LeftHow, acquire_response::Outcome, pipeline_request::Operation,
    pipeline_response::Answer, withdraw_response::Outcome as Withdrawn,
};
use tonic::{Code, Status};

use super::{
    Call, LONG, again, claim, for_good, give_back, held_by, place, queued, stands_at, wait,
    withdraw,
};
use crate::{
    nodes::{Nodes, acquire, error_info, granted, value},
    pipeline::stream::Stream,
};

async fn withdrawn(nodes: &Nodes, n: usize, request: &v1::AcquireRequest) -> Withdrawn {
    let answer = nodes.issuer(n).withdraw(withdraw(request)).await.unwrap();
    answer.into_inner().outcome.unwrap()
}

fn left(how: LeftHow) -> Withdrawn {
    Withdrawn::Left(v1::Left { how: how.into() })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_that_runs_out_is_told_by_the_log_and_stays_so() {
    let nodes = Nodes::start(3).await;
    held_by(&nodes, 0, "first").await;
    for n in 0..3 {
        let name = format!("waiter {n}");
        let request = v1::AcquireRequest {
            wait_ms: 300,
            ..wait(&name)
        };
        let call = Call::make(&nodes, n, request.clone());
        assert_eq!(call.left().await, LeftHow::WaitedOut);
        assert_eq!(place(&nodes, n, &name).await, (0, 0));
        let replayed = Call::make(&nodes, n, again(&request));
        assert_eq!(replayed.left().await, LeftHow::WaitedOut);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_withdraws_is_out_of_the_line_at_once() {
    let nodes = Nodes::start(3).await;
    let token = held_by(&nodes, 0, "first").await;
    let a = queued(&nodes, 0, wait("a"), 1).await;
    let b = queued(&nodes, 1, wait("b"), 2).await;
    // At another node than the one that waits.
    assert_eq!(
        withdrawn(&nodes, 2, &wait("a")).await,
        left(LeftHow::Withdrawn)
    );
    assert_eq!(place(&nodes, 0, "a").await, (0, 1));
    assert_eq!(place(&nodes, 0, "b").await, (1, 1));
    assert_eq!(a.left().await, LeftHow::Withdrawn);
    assert_eq!(
        withdrawn(&nodes, 0, &wait("a")).await,
        left(LeftHow::Withdrawn)
    );
    give_back(&nodes, 0, "first", token).await;
    assert!(b.granted().await.after_wait);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawal_that_overtakes_its_acquire_counts_for_it_and_not_for_a_later_attempt() {
    let nodes = Nodes::start(1).await;
    assert_eq!(
        withdrawn(&nodes, 0, &wait("a")).await,
        left(LeftHow::Withdrawn)
    );
    let late = Call::make(&nodes, 0, wait("a"));
    assert_eq!(
        late.left().await,
        LeftHow::Withdrawn,
        "though the resource is free"
    );
    let grant = granted(&mut nodes.issuer(0), again(&wait("a"))).await;
    assert!(!grant.after_wait);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawal_never_ends_a_grant_and_tells_of_it() {
    let nodes = Nodes::start(1).await;
    let token = held_by(&nodes, 0, "first").await;
    let a = queued(&nodes, 0, wait("a"), 1).await;
    give_back(&nodes, 0, "first", token).await;
    let token = a.granted().await.token;
    let value = value(token.as_ref());
    match withdrawn(&nodes, 0, &wait("a")).await {
        Withdrawn::Granted(granted) => {
            assert_eq!(granted.token, token);
            assert!(granted.after_wait && granted.replayed);
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(
        claim(&mut nodes.issuer(0), "r", "a", value).await,
        LONG,
        "it lives"
    );
    give_back(&nodes, 0, "a", value).await;
    match withdrawn(&nodes, 0, &wait("a")).await {
        Withdrawn::Ended(ended) => {
            assert_eq!((ended.token, ended.how()), (token, v1::EndedHow::Released));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_withdrawal_leaves_alone_what_was_refused_or_came_back_to() {
    let nodes = Nodes::start(1).await;
    held_by(&nodes, 0, "first").await;
    let refused = v1::AcquireRequest {
        wait_ms: 0,
        ..wait("refused")
    };
    let held = Call::make(&nodes, 0, refused.clone()).outcome().await;
    assert!(matches!(held, Outcome::Held(_)), "{held:?}");
    let outcome = withdrawn(&nodes, 0, &refused).await;
    assert_eq!(outcome, Withdrawn::Refused(v1::Refused {}));

    let _again = queued(&nodes, 0, again(&wait("a")), 1).await;
    let outcome = withdrawn(&nodes, 0, &wait("a")).await;
    assert_eq!(outcome, Withdrawn::Stale(v1::Stale {}));
    assert_eq!(place(&nodes, 0, "a").await, (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_request_of_a_waiting_holder_takes_its_place_over() {
    let nodes = Nodes::start(3).await;
    let token = held_by(&nodes, 0, "first").await;
    let old = queued(&nodes, 0, wait("a"), 1).await;
    let _b = queued(&nodes, 1, wait("b"), 2).await;
    let new = v1::AcquireRequest {
        request_id: "another".into(),
        ..wait("a")
    };
    let new = Call::make(&nodes, 2, new);
    assert_eq!(old.left().await, LeftHow::Superseded);
    assert_eq!(place(&nodes, 0, "a").await, (1, 2));
    give_back(&nodes, 0, "first", token).await;
    assert!(new.granted().await.after_wait);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_waiter_at_the_head_blocks_nobody() {
    let nodes = Nodes::start(3).await;
    let follower = nodes.follower().await;
    let token = held_by(&nodes, 0, "first").await;
    let dead = queued(&nodes, follower, wait("dead"), 1).await;
    let mut calls = Vec::new();
    for n in 2..=5 {
        calls.push(queued(&nodes, follower, wait(&format!("waiter {n}")), n).await);
    }
    drop(dead);
    // Before it is noticed, or after: the next one is granted (redisson#4595).
    give_back(&nodes, 0, "first", token).await;
    let mut tokens = vec![token];
    for (n, call) in (2..).zip(calls) {
        let token = value(call.granted().await.token.as_ref());
        tokens.push(token);
        give_back(&nodes, 0, &format!("waiter {n}"), token).await;
    }
    assert!(tokens.is_sorted_by(|a, b| a < b), "{tokens:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_waiter_whose_connection_is_gone_loses_the_place_and_those_behind_move_up() {
    let nodes = Nodes::start(3).await;
    for n in 0..3 {
        held_by(&nodes, n, "first").await;
        let name = format!("gone {n}");
        let gone = queued(&nodes, n, wait(&name), 1).await;
        let behind = queued(&nodes, n, wait(&format!("behind {n}")), 2).await;
        drop(gone);
        stands_at(&nodes, n, &name, 0).await;
        assert_eq!(place(&nodes, n, &format!("behind {n}")).await, (1, 1));
        let late = Call::make(&nodes, n, again(&wait(&name)));
        assert_eq!(late.left().await, LeftHow::Detached);
        assert!(!behind.is_over());
        let behind = for_good(&wait(&format!("behind {n}")));
        let outcome = withdrawn(&nodes, n, &behind).await;
        assert_eq!(outcome, left(LeftHow::Withdrawn));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_whose_own_time_runs_out_before_its_wait_does_not_know_how_it_came_out() {
    let nodes = Nodes::start(1).await;
    held_by(&nodes, 0, "first").await;
    let mut stream = Stream::open(nodes.issuer(0)).await;
    stream.send_within(1, 1_000, Operation::Acquire(wait("a")));
    let Answer::Failure(failure) = stream.answer(1).await else {
        panic!("another answer");
    };
    let failed = Status::with_details(failure.code.into(), failure.message, failure.details);
    let (code, reason, metadata) = error_info(&failed);
    assert_eq!(
        (code, reason.as_str()),
        (Code::DeadlineExceeded, "UNKNOWN_OUTCOME")
    );
    assert_eq!(metadata["effect"], "unknown");
    let again = queued(&nodes, 0, again(&wait("a")), 1).await;
    assert!(!again.is_over(), "the place was kept");
    let outcome = withdrawn(&nodes, 0, &for_good(&wait("a"))).await;
    assert_eq!(outcome, left(LeftHow::Withdrawn));
    let refused = Call::make(&nodes, 0, acquire("r", "b", LONG))
        .outcome()
        .await;
    assert!(matches!(refused, Outcome::Held(_)), "{refused:?}");
}
