//! Leases end by themselves: never before their holder's own deadline, and not long after.

use std::time::{Duration, Instant};

use fencepost::wire::v1::{self, acquire_response::Outcome as Acquired};

use crate::nodes::{Nodes, acquire, eventually, granted, renew, value};

/// Asks until the resource is granted to `holder`.
async fn succeed(nodes: &Nodes, n: usize, resource: &str, holder: &str) -> v1::Granted {
    eventually("the successor is granted", || async {
        let mut issuer = nodes.issuer(n);
        let response = issuer
            .acquire(acquire(resource, holder, 60_000))
            .await
            .ok()?;
        match response.into_inner().outcome? {
            Acquired::Granted(granted) => Some(granted),
            _ => None,
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_nobody_renews_ends_and_not_before_its_time() {
    let nodes = Nodes::start(1).await;
    let mut issuer = nodes.issuer(0);
    let ttl = Duration::from_millis(300);
    let began = Instant::now();
    let first = granted(&mut issuer, acquire("r", "a", 300)).await;
    let next = succeed(&nodes, 0, "r", "b").await;
    assert!(began.elapsed() >= ttl, "{:?}", began.elapsed());
    assert!(value(next.token.as_ref()) > value(first.token.as_ref()));
    let text = crate::probes::get(&nodes, 0, "/metrics").await.1;
    assert!(
        text.contains("fencepost_expiries_total{outcome=\"expired\"} 1"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_that_is_renewed_does_not_end() {
    let nodes = Nodes::start(1).await;
    let mut issuer = nodes.issuer(0);
    let token = value(
        granted(&mut issuer, acquire("r", "a", 400))
            .await
            .token
            .as_ref(),
    );
    let began = Instant::now();
    while began.elapsed() < Duration::from_millis(1_600) {
        let items = vec![renew("r", "a", token)];
        let renewed = issuer.renew(v1::RenewRequest { items }).await.unwrap();
        let outcome = renewed.into_inner().outcomes.remove(0).outcome;
        assert_eq!(
            outcome,
            Some(v1::renew_outcome::Outcome::Renewed(v1::Renewed {
                lease_ms: 400
            }))
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_leader_ends_the_leases_that_the_old_one_granted() {
    let mut nodes = Nodes::start(3).await;
    let leader = nodes.leader().await;
    let other = nodes.follower().await;
    let mut issuer = nodes.issuer(leader);
    let began = Instant::now();
    granted(&mut issuer, acquire("r", "a", 1_500)).await;
    nodes.crash(leader).await;
    succeed(&nodes, other, "r", "b").await;
    assert!(began.elapsed() >= Duration::from_millis(1_500));
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_leases_that_end_together_all_end() {
    let nodes = Nodes::start(1).await;
    let issuer = nodes.issuer(0);
    let asking = (0..2_000).map(|n| {
        let mut issuer = issuer.clone();
        tokio::spawn(
            async move { granted(&mut issuer, acquire(&format!("r{n}"), "a", 3_000)).await },
        )
    });
    for asked in asking.collect::<Vec<_>>() {
        asked.await.unwrap();
    }
    eventually("all leases ended", || async {
        let mut cluster = nodes.cluster(0);
        let status = cluster
            .status(v1::StatusRequest {})
            .await
            .unwrap()
            .into_inner();
        (status.live_leases == 0).then_some(())
    })
    .await;
}
