//! A member that hears nothing from the others any more, while clients still reach it.

use std::time::{Duration, Instant};

use fencepost::{
    client::{AcquireOutcome, Client, Options, ReleaseOutcome},
    grant::Ttl,
    resource::{Holder, ResourceName},
};

use crate::{
    link::Link,
    nodes::{Cluster, pages},
    refusals::with,
    waiting::{PATIENCE, eventually},
};

/// The case allows three seconds; a machine that is busy with something else gets as much again.
const AT_MOST: Duration = Duration::from_secs(6);

/// A cluster whose third member is reached by the others through a link only, and follows.
async fn with_a_link_to_the_third() -> (Cluster, Link) {
    let mut cluster = Cluster::planned(3).await;
    let link = Link::to(cluster.place.peer(3), false).await;
    let others = cluster.place.peers([1, 2]);
    let peers = format!("{others},3={}", link.address());
    for node in cluster.founders() {
        let arguments = with(cluster.founding(node), "peers", &peers);
        cluster.start_with(node, &arguments);
    }
    eventually("one of the first two leads", PATIENCE, async || {
        match cluster.agreed_leader().await? {
            3 => {
                // It may be too early for that; then it is tried again.
                let _ = cluster.calls(3).transfer_leader(1).await;
                None
            }
            _ => Some(()),
        }
    })
    .await;
    (cluster, link)
}

/// etcd#8308, #8673, #11239: a client stayed pinned to a member that was cut off from the leader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_get_on_although_a_member_is_cut_off_from_the_leader() {
    let (cluster, link) = with_a_link_to_the_third().await;
    link.hold();
    eventually("the third one misses its leader", PATIENCE, async || {
        let page = pages::get(cluster.place.http(3), "/readyz").await.ok()?;
        (page.0 != 200).then_some(())
    })
    .await;
    // They begin at different endpoints, so that some of these begin at the third.
    let mut longest = Duration::ZERO;
    for number in 0..12 {
        let endpoints = cluster.endpoints();
        let client = Client::connect(endpoints.split(','), Options::default()).unwrap();
        let resource = ResourceName::new(format!("resource-{number}")).unwrap();
        let holder = Holder::new("A").unwrap();
        let began = Instant::now();
        let ttl = Ttl::default();
        let outcome = client.acquire(&resource, &holder, ttl).await.unwrap();
        let AcquireOutcome::Granted(acquired) = outcome else {
            panic!("not granted: {outcome:?}");
        };
        let released = client
            .release(&resource, &holder, acquired.token.value())
            .await;
        assert_eq!(released.unwrap(), ReleaseOutcome::Released);
        longest = longest.max(began.elapsed());
    }
    println!("the longest acquire and release took {longest:?}");
    assert!(longest < AT_MOST, "{longest:?}");
    link.let_go();
    cluster.ready().await;
}
