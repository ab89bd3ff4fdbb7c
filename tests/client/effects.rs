//! What a failure says about its effect, and what is sent again because of it.

use crate::fake::{Act, Fake, client};
use crate::{PLENTY, SHORT, acquire, granted};
use fencepost::client::{Cause, ErrorKind};
use fencepost::wire::failure::{Failure, Reason};
use std::time::Duration;
use tonic::Status;

/// A node that fails `call` like this, always.
async fn failing(call: &'static str, act: impl Fn() -> Act + Send + Sync + 'static) -> Fake {
    Fake::start(move |name, _| if name == call { act() } else { Act::Answer }).await
}

#[tokio::test]
async fn a_final_failure_is_sent_once() {
    let cases = [
        (Reason::RequestIdReused, ErrorKind::RequestIdReused),
        (Reason::Refused, ErrorKind::Refused),
        (Reason::Limit, ErrorKind::Exhausted),
    ];
    for (reason, kind) in cases {
        let node = failing("acquire", move || Act::Fail(Failure::new(reason, "no"))).await;
        let error = acquire(&client(&[&node.address], PLENTY))
            .await
            .unwrap_err();
        assert_eq!(error.kind(), &kind);
        assert!(!error.can_have_had_effect(), "{error}");
        assert_eq!(node.count("acquire"), 1);
    }
}

#[tokio::test]
async fn an_invalid_field_is_named_with_its_limit() {
    let node = failing("acquire", || {
        Act::Fail(Failure::invalid("ttl_ms", "100 to 86400000"))
    })
    .await;
    let error = acquire(&client(&[&node.address], PLENTY))
        .await
        .unwrap_err();
    assert!(!error.may_retry());
    assert_eq!(
        error.to_string(),
        "acquire: ttl_ms is not valid: 100 to 86400000"
    );
}

#[tokio::test]
async fn a_status_of_something_in_between_leaves_the_outcome_open() {
    let node = failing("acquire", || {
        Act::Foreign(Status::unavailable("a proxy says no"))
    })
    .await;
    let error = acquire(&client(&[&node.address], SHORT)).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::UnknownOutcome);
    assert!(error.can_have_had_effect() && error.may_retry());
    assert!(error.to_string().contains("a proxy says no"), "{error}");
    assert!(
        node.count("acquire") > 1,
        "the same request id may be sent again"
    );
}

#[tokio::test]
async fn a_read_that_fails_never_had_an_effect() {
    let node = failing("inspect", || {
        Act::Foreign(Status::unavailable("a proxy says no"))
    })
    .await;
    let client = client(&[&node.address], SHORT);
    let error = client.inspect(&"jobs".parse().unwrap()).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Unavailable);
    assert!(!error.can_have_had_effect());
}

#[tokio::test]
async fn a_membership_change_of_unknown_outcome_is_not_sent_again() {
    let node = failing("add_node", || {
        Act::Fail(Failure::new(Reason::UnknownOutcome, "the leader went away"))
    })
    .await;
    let client = client(&[&node.address], PLENTY);
    let error = client.add_node(4, "127.0.0.1:7203").await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::UnknownOutcome);
    assert_eq!(node.count("add_node"), 1);
}

#[tokio::test]
async fn a_membership_change_that_certainly_did_nothing_is_sent_again() {
    let node = Fake::start(|call, before| match (call, before) {
        ("promote", 0..3) => Act::Fail(Failure::new(Reason::NoLeader, "no leader")),
        _ => Act::Answer,
    })
    .await;
    client(&[&node.address], PLENTY).promote(4).await.unwrap();
    assert_eq!(node.count("promote"), 4);
}

#[tokio::test]
async fn an_overloaded_cluster_is_given_time() {
    let node = Fake::start(|call, before| match (call, before) {
        ("acquire", 0..2) => {
            let failure = Failure::new(Reason::Overloaded, "too many proposals in flight");
            Act::Fail(failure.retry_after(Duration::from_millis(20)))
        }
        _ => Act::Answer,
    })
    .await;
    granted(&client(&[&node.address], PLENTY)).await;

    let never = failing("acquire", || {
        Act::Fail(Failure::new(Reason::Overloaded, "too much"))
    })
    .await;
    let error = acquire(&client(&[&never.address], SHORT))
        .await
        .unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Exhausted);
    assert!(error.may_retry() && !error.can_have_had_effect());
}

#[tokio::test]
async fn an_error_keeps_the_last_cause_and_the_hint() {
    // The kind of tsoracle#417: a client that gave up during an election said something else.
    let node = failing("acquire", || {
        let failure = Failure::new(Reason::NoLeader, "no leader is known");
        Act::Fail(failure.leader(Some("127.0.0.1:9".to_owned())))
    })
    .await;
    let error = acquire(&client(&[&node.address], SHORT)).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Unavailable);
    assert!(!error.can_have_had_effect());
    assert!(error.attempts() > 1);
    let text = error.to_string();
    match error.last_cause() {
        Some(Cause::Told { reason, .. }) => assert_eq!(*reason, "NO_LEADER"),
        Some(Cause::Unreachable { address, .. }) => assert_eq!(address.as_str(), "127.0.0.1:9"),
        other => panic!("unexpected cause {other:?}"),
    }
    assert!(text.contains("nothing happened"), "{text}");
}
