//! When events cannot be told any more, the watch says so, and never skips any silently.

use fencepost::wire::v1::{self, issuer_client::IssuerClient};
use tonic::{Code, Status, transport::Channel};

use super::{Watch, after, applied, behind_a_cable, everything, round};
use crate::nodes::{Nodes, error_info, eventually};

/// Insists that the history is lost; the oldest cursor that would do.
fn lost(status: &Status, cluster_id: &str) -> u64 {
    let (code, reason, metadata) = error_info(status);
    assert_eq!((code, reason.as_str()), (Code::OutOfRange, "HISTORY_LOST"));
    assert_eq!(metadata["effect"], "none");
    assert_eq!(metadata["cluster_id"], cluster_id);
    metadata["oldest_index"].parse().unwrap()
}

/// The longest names there are, so that little of it fills a history.
fn long(n: usize) -> String {
    format!("{n:04}{}", "🦀".repeat(156))
}

/// So many grants that are given back, by eight callers at once.
async fn rounds(nodes: &Nodes, count: usize) {
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..8 {
        let mut issuer = nodes.issuer(0);
        callers.spawn(async move {
            for n in (caller..count).step_by(8) {
                round(&mut issuer, &long(n)).await;
            }
        });
    }
    callers.join_all().await;
}

/// A caller whose windows are small: what it does not read stays at the node.
fn narrow(nodes: &Nodes) -> IssuerClient<Channel> {
    let address = nodes.node(0).addresses().client;
    let channel = Channel::from_shared(format!("http://{address}")).unwrap();
    let channel = channel
        .initial_stream_window_size(65_535)
        .initial_connection_window_size(65_535);
    IssuerClient::new(channel.connect_lazy())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_is_too_slow_is_told_and_has_no_gap() {
    let mut nodes = Nodes::prepare(1);
    nodes.set(0, "history-size", "1MiB");
    nodes.run(0).await.unwrap();
    nodes.leader().await;
    let (mut slow, begun) = Watch::open(narrow(&nodes), everything()).await;
    // Somebody who keeps up says what there was to tell.
    let (mut quick, _) = Watch::open(nodes.issuer(0), after(begun.clone())).await;
    let count = 1_200;
    let reading = tokio::spawn(async move { quick.first(2 * count).await });
    rounds(&nodes, count).await;
    let all = reading.await.unwrap();
    let (told, cursor, status) = slow.end().await;
    assert!(told.len() < all.len(), "it was not slow enough");
    assert_eq!(told, all[..told.len()], "a gap");
    let oldest = lost(&status, &begun.cluster_id);
    assert!(oldest > cursor.index);
    // What it is offered does.
    let offered = v1::Cursor {
        index: oldest,
        ..cursor
    };
    let (mut again, _) = Watch::open(nodes.issuer(0), after(offered)).await;
    let rest: Vec<_> = all.iter().filter(|event| event.0 > oldest).collect();
    assert!(!rest.is_empty());
    let found = again.first(rest.len()).await;
    assert!(found.iter().eq(rest));
    let (_, text) = crate::probes::get(&nodes, 0, "/metrics").await;
    assert!(text.contains("fencepost_watches_lost_total 1"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_that_means_nothing_here_is_told_at_once() {
    let nodes = Nodes::start(3).await;
    let mut issuer = nodes.issuer(nodes.follower().await);
    let (_, now) = Watch::open(issuer.clone(), everything()).await;
    let foreign = v1::Cursor {
        cluster_id: "0".repeat(32),
        index: 1,
    };
    let refused = issuer.watch(after(foreign)).await.unwrap_err();
    let oldest = lost(&refused, &now.cluster_id);
    assert!(oldest <= now.index);
    // Ahead of everything that the cluster ever said: of a history that is gone.
    for index in [now.index + 1_000_000, u64::MAX] {
        let ahead = v1::Cursor {
            index,
            ..now.clone()
        };
        let refused = issuer.watch(after(ahead)).await.unwrap_err();
        lost(&refused, &now.cluster_id);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_snapshot_that_skips_events_ends_a_watch_that_runs() {
    let (nodes, cable) = behind_a_cable(true).await;
    let mut issuer = nodes.issuer(0);
    round(&mut issuer, "before").await;
    let (mut watch, begun) = Watch::open(nodes.issuer(2), everything()).await;
    round(&mut issuer, "seen").await;
    let seen = watch.first(2).await;
    cable.cut();
    for n in 0..200 {
        round(&mut issuer, &format!("missed-{n}")).await;
    }
    let purged = || {
        nodes
            .node(0)
            .raft()
            .status()
            .purged
            .map_or(0, |at| at.index)
    };
    eventually("the log that the node would need is gone", || async {
        (purged() > applied(&nodes, 2)).then_some(())
    })
    .await;
    cable.mend();
    let (told, _, status) = watch.end().await;
    let oldest = lost(&status, &begun.cluster_id);
    assert!(oldest > seen.last().unwrap().0);
    assert!(told.iter().all(|event| event.0 < oldest), "{told:?}");
    assert!(told.is_sorted_by(|a, b| a.0 <= b.0));
    // From an older cursor nothing begins there either, though other nodes may reach back to it.
    let refused = nodes.issuer(2).watch(after(begun.clone())).await;
    lost(&refused.unwrap_err(), &begun.cluster_id);
    let (mut whole, _) = Watch::open(nodes.issuer(0), after(begun)).await;
    assert_eq!(whole.first(402).await.len(), 402);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_that_lags_waits_until_it_has_come_to_the_cursor() {
    let (nodes, cable) = behind_a_cable(true).await;
    cable.cut();
    let mut issuer = nodes.issuer(0);
    round(&mut issuer, "ahead").await;
    let (_, now) = Watch::open(nodes.issuer(0), everything()).await;
    assert!(applied(&nodes, 2) < now.index);
    let (mut watch, begun) = Watch::open(nodes.issuer(2), after(now.clone())).await;
    assert_eq!(begun, now);
    cable.mend();
    let token = round(&mut issuer, "next").await;
    let told = watch.first(2).await;
    assert!(
        told.iter().all(|event| event.3 == token),
        "nothing from before the cursor: {told:?}"
    );
}
