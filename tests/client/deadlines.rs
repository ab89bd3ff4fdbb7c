//! Deadlines: of a call, of each of its sends, and of the holder.

use crate::fake::{Act, Fake, client};
use crate::{PLENTY, SHORT, acquire, granted};
use fencepost::client::{ErrorKind, RenewOutcome};
use std::time::Duration;

#[tokio::test]
async fn each_send_tells_the_node_how_long_it_may_take() {
    let node = Fake::start(|_, _| Act::Answer).await;
    granted(&client(&[&node.address], PLENTY)).await;
    let timeouts = node.timeouts();
    assert_eq!(timeouts.len(), 2, "a status and an acquire");
    assert!(timeouts.iter().all(Option::is_some), "{timeouts:?}");
}

#[tokio::test]
async fn a_silent_cluster_ends_the_call_with_an_open_outcome() {
    let node = Fake::acting("acquire", || Act::Silence).await;
    let call = client(&[&node.address], SHORT);
    let error = tokio::time::timeout(PLENTY, acquire(&call))
        .await
        .unwrap()
        .unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::UnknownOutcome);
    assert!(
        error.to_string().contains("did not answer within"),
        "{error}"
    );
}

#[tokio::test]
async fn a_cluster_that_is_silent_from_the_start_certainly_did_nothing() {
    let node = Fake::start(|_, _| Act::Silence).await;
    let call = client(&[&node.address], SHORT);
    let error = tokio::time::timeout(PLENTY, acquire(&call))
        .await
        .unwrap()
        .unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Unavailable);
    assert!(!error.can_have_had_effect());
    assert_eq!(node.count("acquire"), 0);
}

#[tokio::test]
async fn the_holders_deadline_counts_from_the_first_send() {
    let node = Fake::start(|call, before| match (call, before) {
        ("acquire", 0..3) => Act::Silence,
        _ => Act::Answer,
    })
    .await;
    let client = client(&[&node.address], PLENTY);
    let before = client.now();
    let acquired = granted(&client).await;
    let after = client.now();
    let safe_until = acquired.safe_until().unwrap();
    // Three silences of 1, 2 and 4 s lie between the first send and the one that was answered.
    assert!(safe_until >= before.plus(acquired.lease));
    assert!(safe_until.plus(Duration::from_secs(7)) <= after.plus(acquired.lease));
}

#[tokio::test]
async fn a_replayed_grant_claims_nothing_until_it_is_renewed() {
    let node = Fake::acting("acquire", || Act::Replay).await;
    let client = client(&[&node.address], PLENTY);
    let acquired = granted(&client).await;
    assert!(acquired.replayed);
    assert_eq!(acquired.safe_until(), None);
    let before = client.now();
    let outcomes = client.renew(&[acquired.renewal()]).await.unwrap();
    let after = client.now();
    let [RenewOutcome::Renewed { lease, safe_until }] = outcomes[..] else {
        panic!("expected one renewal, got {outcomes:?}")
    };
    assert!(before.plus(lease) <= safe_until && safe_until <= after.plus(lease));
}

#[tokio::test]
async fn the_deadline_of_a_renewal_counts_from_the_send_that_was_answered() {
    let node = Fake::start(|call, before| match (call, before) {
        ("renew", 0) => Act::Silence,
        _ => Act::Answer,
    })
    .await;
    let client = client(&[&node.address], PLENTY);
    let acquired = granted(&client).await;
    let before = client.now();
    let outcomes = client.renew(&[acquired.renewal()]).await.unwrap();
    let [RenewOutcome::Renewed { lease, safe_until }] = outcomes[..] else {
        panic!("expected one renewal, got {outcomes:?}")
    };
    assert!(safe_until >= before.plus(Duration::from_secs(1)).plus(lease));
}
