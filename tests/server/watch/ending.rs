//! How watches end when their node cannot go on, and how many there may be.

use std::time::Duration;

use fencepost::wire::v1::{self, watch_request::What};
use tonic::Code;

use super::{Watch, after, behind_a_cable, everything, round};
use crate::nodes::{Nodes, error_info, eventually};

#[tokio::test(flavor = "multi_thread")]
async fn a_node_out_of_touch_ends_its_watches_and_another_goes_on_without_a_gap() {
    let (nodes, cable) = behind_a_cable(false).await;
    let mut issuer = nodes.issuer(0);
    let (mut watch, begun) = Watch::open(nodes.issuer(2), everything()).await;
    round(&mut issuer, "before").await;
    let mut told = watch.first(2).await;
    cable.cut();
    let (more, cursor, status) = watch.end().await;
    let (code, reason, metadata) = error_info(&status);
    assert_eq!((code, reason.as_str()), (Code::Unavailable, "NO_LEADER"));
    assert_eq!(metadata["effect"], "none");
    told.extend(more);
    // Nor does it begin new ones.
    let refused = nodes.issuer(2).watch(everything()).await.unwrap_err();
    assert_eq!(error_info(&refused).1, "NO_LEADER");
    round(&mut issuer, "meanwhile").await;
    let cursor = if cursor.index == 0 {
        begun.clone()
    } else {
        cursor
    };
    let index = cursor.index.max(told.last().unwrap().0);
    let (mut elsewhere, _) =
        Watch::open(nodes.issuer(1), after(v1::Cursor { index, ..cursor })).await;
    told.extend(elsewhere.first(2).await);
    let (mut whole, _) = Watch::open(nodes.issuer(0), after(begun)).await;
    assert_eq!(told, whole.first(4).await);
    cable.mend();
    eventually("the node takes watches again", || async {
        nodes.issuer(2).watch(everything()).await.ok().map(drop)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopping_node_says_so_and_does_not_wait_for_its_watchers() {
    let mut nodes = Nodes::start(3).await;
    let follower = nodes.follower().await;
    let (mut watch, _) = Watch::open(nodes.issuer(follower), everything()).await;
    let stopping = nodes.stop(follower);
    let (ended, ()) = tokio::join!(watch.end(), stopping);
    let (code, reason, _) = error_info(&ended.2);
    assert_eq!((code, reason.as_str()), (Code::Unavailable, "STOPPING"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_replayed_log_fills_the_history_again() {
    let mut nodes = Nodes::start(1).await;
    let (mut before, begun) = Watch::open(nodes.issuer(0), everything()).await;
    let mut issuer = nodes.issuer(0);
    for n in 0..10 {
        round(&mut issuer, &format!("r{n}")).await;
    }
    let told = before.first(20).await;
    nodes.crash(0).await;
    nodes.run(0).await.unwrap();
    nodes.leader().await;
    let (mut again, _) = Watch::open(nodes.issuer(0), after(begun)).await;
    assert_eq!(again.first(20).await, told);
}

#[tokio::test(flavor = "multi_thread")]
async fn watchers_are_limited_and_a_closed_watch_makes_room() {
    let mut nodes = Nodes::prepare(1);
    nodes.set(0, "max-watchers", "2");
    nodes.run(0).await.unwrap();
    nodes.leader().await;
    let (one, _) = Watch::open(nodes.issuer(0), everything()).await;
    let (_two, _) = Watch::open(nodes.issuer(0), everything()).await;
    let refused = nodes.issuer(0).watch(everything()).await.unwrap_err();
    let (code, reason, _) = error_info(&refused);
    assert_eq!((code, reason.as_str()), (Code::ResourceExhausted, "LIMIT"));
    assert!(refused.message().contains("--max-watchers"), "{refused:?}");
    let (_, text) = crate::probes::get(&nodes, 0, "/metrics").await;
    assert!(text.contains("fencepost_watchers 2"), "{text}");
    drop(one);
    eventually("there is room again", || async {
        nodes.issuer(0).watch(everything()).await.ok().map(drop)
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn opened_and_cancelled_watches_leave_nothing_behind() {
    let nodes = Nodes::start(1).await;
    for _ in 0..200 {
        let request = v1::WatchRequest {
            what: Some(What::Resource("nobody".to_owned())),
            ..v1::WatchRequest::default()
        };
        let mut issuer = nodes.issuer(0);
        // Sometimes cut off while it opens, sometimes once it is open.
        let opening = tokio::time::timeout(Duration::from_millis(2), issuer.watch(request));
        drop(opening.await);
    }
    eventually("no watch is left", || async {
        let (_, text) = crate::probes::get(&nodes, 0, "/metrics").await;
        text.contains("fencepost_watchers 0").then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn odd_requests_are_refused_by_field() {
    let nodes = Nodes::start(1).await;
    let odd = [
        (v1::WatchRequest::default(), "resource"),
        (
            v1::WatchRequest {
                progress_ms: 99,
                ..everything()
            },
            "progress_ms",
        ),
    ];
    for (request, field) in odd {
        let refused = nodes.issuer(0).watch(request).await.unwrap_err();
        let (code, reason, metadata) = error_info(&refused);
        assert_eq!(
            (code, reason.as_str()),
            (Code::InvalidArgument, "INVALID_FIELD")
        );
        assert_eq!(metadata["field"], field);
    }
}
