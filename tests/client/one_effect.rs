//! All sends of one asking have one effect: what each of them must carry.

use crate::fake::{Act, Fake, client};
use crate::{PLENTY, SHORT, granted};
use fencepost::client::{AcquireOutcome, ErrorKind};
use fencepost::grant::Ttl;
use fencepost::resource::Holder;
use fencepost::wire::failure::{Failure, Reason};
use std::time::Duration;

fn unknown() -> Act {
    Act::Fail(Failure::new(Reason::UnknownOutcome, "the leader went away"))
}

#[tokio::test]
async fn a_repeat_carries_the_same_id_and_moment_and_a_higher_attempt() {
    let node = Fake::start(|call, before| match (call, before) {
        ("acquire", 0) => unknown(),
        ("acquire", 1) => Act::Silence,
        _ => Act::Answer,
    })
    .await;
    let client = client(&[&node.address], PLENTY);
    granted(&client).await;
    let sends = node.acquires();
    assert_eq!(sends.len(), 3);
    assert_eq!(client.resends(), 2);
    for (send, attempt) in sends.iter().zip(1..) {
        assert_eq!(send.attempt, attempt);
        assert_eq!(
            (&send.request_id, &send.asked_at),
            (&sends[0].request_id, &sends[0].asked_at)
        );
    }
    let asked_at = sends[0].asked_at.clone().unwrap();
    assert_eq!(asked_at.cluster_id, format!("{:032x}", 1));
    assert_eq!(
        asked_at.applied_index, 11,
        "the status before the first send showed it"
    );
}

#[tokio::test]
async fn each_acquire_has_an_id_of_its_own_and_the_newest_moment() {
    let node = Fake::start(|_, _| Act::Answer).await;
    let client = client(&[&node.address], PLENTY);
    granted(&client).await;
    granted(&client).await;
    let sends = node.acquires();
    assert_ne!(sends[0].request_id, sends[1].request_id);
    assert_eq!(sends[1].asked_at.as_ref().unwrap().applied_index, 12);
}

#[tokio::test]
async fn a_forgotten_id_is_asked_again_under_a_new_one() {
    let node = Fake::start(|call, before| match (call, before) {
        ("acquire", 0) => Act::Fail(Failure::new(Reason::TooOld, "older than memory")),
        _ => Act::Answer,
    })
    .await;
    let client = client(&[&node.address], PLENTY);
    let acquired = granted(&client).await;
    let sends = node.acquires();
    assert_eq!(sends.len(), 2);
    assert_ne!(sends[0].request_id, sends[1].request_id);
    assert_eq!(sends[1].attempt, 1);
    let moments: Vec<_> = sends
        .iter()
        .map(|send| send.asked_at.as_ref().unwrap().applied_index)
        .collect();
    assert!(
        moments[0] < moments[1],
        "{moments:?}: the new id needs a fresh moment"
    );
    assert_eq!(
        node.count("inspect"),
        1,
        "a linearizable read is what makes it fresh"
    );
    assert!(acquired.safe_until().is_some());
}

#[tokio::test]
async fn an_open_asking_is_taken_up_again_with_the_same_id() {
    let node = Fake::start(|call, before| match (call, before) {
        ("acquire", 0) => unknown(),
        ("acquire", _) => Act::Fail(Failure::new(Reason::NoLeader, "no leader")),
        _ => Act::Answer,
    })
    .await;
    let short = client(&[&node.address], SHORT);
    let mut ask = short.ask(
        "jobs".parse().unwrap(),
        "me".parse().unwrap(),
        Ttl::default(),
    );
    let error = short.acquire_with(&mut ask).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::UnknownOutcome);
    let before = node.acquires().len();

    // A second call that fails without any effect of its own does not close what the first left open.
    let error = short.acquire_with(&mut ask).await.unwrap_err();
    assert!(error.can_have_had_effect(), "{error}");

    node.become_(|node| node.script = Box::new(|_, _| Act::Replay));
    let outcome = short.acquire_with(&mut ask).await.unwrap();
    let AcquireOutcome::Granted(acquired) = outcome else {
        panic!("expected a grant, got {outcome:?}")
    };
    assert_eq!(
        acquired.safe_until(),
        None,
        "when a replayed grant began is not known"
    );
    let sends = node.acquires();
    assert!(before > 1 && sends.len() > before);
    assert!(
        sends
            .iter()
            .all(|send| send.request_id == sends[0].request_id)
    );
    assert!(
        sends.is_sorted_by(|a, b| a.attempt < b.attempt),
        "{sends:?}"
    );
}

#[tokio::test]
async fn a_refusal_is_data_and_is_not_sent_again() {
    let node = Fake::acting("acquire", || Act::Held).await;
    let client = client(&[&node.address], PLENTY);
    let mut ask = client.ask(
        "jobs".parse().unwrap(),
        "me".parse().unwrap(),
        Ttl::default(),
    );
    let outcome = client.acquire_with(&mut ask).await.unwrap();
    let AcquireOutcome::Held(held) = outcome else {
        panic!("expected a refusal, got {outcome:?}")
    };
    assert_eq!(held.holder.as_ref().map(Holder::as_str), Some("other"));
    assert_eq!(held.remaining, Duration::from_secs(5));
    assert_eq!(node.acquires().len(), 1);

    // The cluster remembers the refusal under its id, so asking on takes another.
    client.acquire_with(&mut ask).await.unwrap();
    let sends = node.acquires();
    assert_ne!(sends[0].request_id, sends[1].request_id);
    assert_eq!(sends[1].attempt, 1);
}
