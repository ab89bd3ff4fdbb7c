//! A client belongs to one cluster.

use crate::fake::{Act, Fake, client, nowhere};
use crate::{PLENTY, SHORT, acquire, granted};
use fencepost::client::{Error, ErrorKind, Mismatch};

fn mismatch(error: &Error) -> &Mismatch {
    match error.kind() {
        ErrorKind::ClusterMismatch(mismatch) => mismatch,
        other => panic!("expected a mismatch, got {other:?}"),
    }
}

#[tokio::test]
async fn endpoints_of_two_clusters_are_refused_before_anything_is_asked() {
    let (ours, theirs) = (
        Fake::start(|_, _| Act::Answer).await,
        Fake::start(|_, _| Act::Answer).await,
    );
    theirs.become_(|node| node.cluster = 2);
    let client = client(&[&ours.address, &theirs.address], PLENTY);
    let error = acquire(&client).await.unwrap_err();
    assert!(!error.may_retry() && !error.can_have_had_effect());
    let text = error.to_string();
    for part in [
        &ours.address,
        &theirs.address,
        &format!("{:032x}", 1),
        &format!("{:032x}", 2),
    ] {
        assert!(text.contains(part), "{text}");
    }
    assert_eq!(ours.count("acquire") + theirs.count("acquire"), 0);
}

#[tokio::test]
async fn a_cluster_that_was_replaced_is_refused_for_good() {
    let node = Fake::start(|_, _| Act::Answer).await;
    let client = client(&[&node.address], PLENTY);
    granted(&client).await;
    node.become_(|node| node.cluster = 2);
    let error = acquire(&client).await.unwrap_err();
    assert_eq!(
        mismatch(&error).first_endpoint,
        mismatch(&error).second_endpoint
    );
    assert!(
        error.can_have_had_effect(),
        "the other cluster took the call"
    );
    let sent = node.count("acquire");
    assert!(acquire(&client).await.is_err());
    assert_eq!(
        node.count("acquire"),
        sent,
        "a client that knows sends nothing more"
    );
}

#[tokio::test]
async fn a_hint_into_another_cluster_is_not_followed_again() {
    let (ours, theirs) = (
        Fake::start(|_, _| Act::Answer).await,
        Fake::start(|_, _| Act::Answer).await,
    );
    theirs.become_(|node| node.cluster = 2);
    ours.become_(|node| node.leader.clone_from(&theirs.address));
    let client = client(&[&ours.address], PLENTY);
    granted(&client).await;
    granted(&client).await;
    assert_eq!((ours.count("acquire"), theirs.count("acquire")), (2, 1));
}

#[tokio::test]
async fn a_cluster_that_is_still_forming_is_waited_for() {
    let node = Fake::start(|_, _| Act::Answer).await;
    node.become_(|node| node.cluster = 0);
    let short = client(&[&node.address], SHORT);
    let error = acquire(&short).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Unavailable);
    assert!(
        error.to_string().contains("part of no cluster yet"),
        "{error}"
    );

    let patient = client(&[&node.address], PLENTY);
    let (acquired, ()) = tokio::join!(granted(&patient), async {
        while node.count("status") < 10 {
            tokio::task::yield_now().await;
        }
        node.become_(|node| node.cluster = 1);
    });
    assert_eq!(acquired.sequencer.issuer.as_str(), "test");
}

#[tokio::test]
async fn endpoints_where_nobody_listens_certainly_did_nothing() {
    let (first, second) = (nowhere().await, nowhere().await);
    let client = client(&[&first, &second], SHORT);
    let error = acquire(&client).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Unavailable);
    assert!(!error.can_have_had_effect(), "nothing was ever sent");
    assert!(error.to_string().contains("cannot be reached"), "{error}");
}
