//! What a watch tells of a queue: who joins it, how each leaves it, and who is granted from it.

use std::time::Duration;

use fencepost::wire::v1::{self, WatchEvent, WatchEventKind as Kind};
use tokio::task::JoinHandle;

use super::{TTL, Watch, everything, release};
use crate::nodes::{Nodes, acquire, granted, value};

/// A call that stands in line for `r`, over a connection of its own. Aborting it hangs up.
fn stand_in_line(nodes: &Nodes, holder: &str, id: &str, wait_ms: u64) -> JoinHandle<()> {
    let mut issuer = nodes.issuer(1);
    let request = v1::AcquireRequest {
        request_id: id.as_bytes().to_vec().into(),
        wait_ms,
        ..acquire("r", holder, TTL)
    };
    tokio::spawn(async move {
        // How it comes out is what the watch tells.
        let _ = issuer.acquire(request).await;
    })
}

/// The next event, which must be of this kind and holder.
async fn expect(watch: &mut Watch, kind: Kind, holder: &str) -> WatchEvent {
    let mut events = watch.happening().await;
    let event = events.remove(0);
    assert!(events.is_empty(), "more than one: {event:?}, {events:?}");
    let told = (event.kind(), event.holder.as_str());
    assert_eq!(told, (kind, holder), "{event:?}");
    event
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_is_told_from_the_first_place_to_the_hand_over() {
    let nodes = Nodes::start(3).await;
    let mut issuer = nodes.issuer(0);
    let (mut watch, _) = Watch::open(nodes.issuer(2), everything()).await;
    let first = granted(&mut issuer, acquire("r", "h", TTL)).await;
    expect(&mut watch, Kind::Granted, "h").await;

    let _one = stand_in_line(&nodes, "a", "a1", TTL);
    let place = expect(&mut watch, Kind::Queued, "a").await;
    assert_eq!((place.position, &place.token), (1, &None));
    let _two = stand_in_line(&nodes, "b", "b1", TTL);
    assert_eq!(expect(&mut watch, Kind::Queued, "b").await.position, 2);

    // One leaves, one waits too briefly, one goes away without a word.
    let withdraw = v1::WithdrawRequest {
        resource: "r".to_owned(),
        holder: "a".to_owned(),
        request_id: b"a1".to_vec().into(),
        attempt: 1,
        asked_at: None,
    };
    issuer.withdraw(withdraw).await.unwrap();
    expect(&mut watch, Kind::Withdrawn, "a").await;
    let _three = stand_in_line(&nodes, "c", "c1", 100);
    assert_eq!(expect(&mut watch, Kind::Queued, "c").await.position, 2);
    expect(&mut watch, Kind::WaitedOut, "c").await;
    let four = stand_in_line(&nodes, "d", "d1", TTL);
    expect(&mut watch, Kind::Queued, "d").await;
    four.abort();
    expect(&mut watch, Kind::Detached, "d").await;

    // The same holder under a new request takes its own place over: two events of one entry.
    let _again = stand_in_line(&nodes, "b", "b2", TTL);
    let taken_over = watch.happening().await;
    let kinds: Vec<(Kind, u32)> = taken_over
        .iter()
        .map(|event| (event.kind(), event.position))
        .collect();
    assert_eq!(kinds, [(Kind::PlaceSuperseded, 0), (Kind::Queued, 1)]);

    // The hand-over is one entry, and so one message: the end of one grant, and the next.
    release(&mut issuer, "r", value(first.token.as_ref())).await;
    let handed_over = watch.happening().await;
    let kinds: Vec<(Kind, &str)> = handed_over
        .iter()
        .map(|event| (event.kind(), event.holder.as_str()))
        .collect();
    assert_eq!(kinds, [(Kind::Released, "h"), (Kind::Granted, "b")]);
    assert!(handed_over[1].after_wait);
    let lease = Duration::from_millis(handed_over[1].lease_ms);
    assert!(lease <= Duration::from_secs(2), "{lease:?}");
    assert!(value(handed_over[1].token.as_ref()) > value(first.token.as_ref()));
}
