//! Leader election with the client library, against a cluster of real processes.

use crate::cluster::Cluster;
use crate::running::PATIENCE;
use fencepost::client::{Client, Held, Holders, Options};
use fencepost::fence::memory::MemoryGuard;
use fencepost::fence::{Rules, Verdict};
use fencepost::grant::Ttl;
use fencepost::resource::{Holder, ResourceName};
use std::time::Duration;

use tokio::time::timeout;

fn client(cluster: &Cluster) -> Client {
    let endpoints = cluster.endpoints();
    Client::connect(endpoints.split(','), Options::default()).unwrap()
}

fn office() -> ResourceName {
    "office".parse().unwrap()
}

async fn elected(client: Client, name: &'static str) -> Held {
    let me: Holder = name.parse().unwrap();
    let ttl = Ttl::try_from(Duration::from_secs(5)).unwrap();
    let campaign = client.hold(&office(), &me).ttl(ttl).until_held();
    timeout(PATIENCE, campaign).await.expect("elected").unwrap()
}

/// Who leads at the end of what is told, which must be `wanted`. Others may have led in between.
async fn seen(leaders: &mut Holders, wanted: Option<&str>) {
    let wait = async {
        loop {
            let leader = leaders.next().await.unwrap();
            if leader.as_ref().map(|leader| leader.holder.as_str()) == wanted {
                return leader;
            }
        }
    };
    timeout(PATIENCE, wait).await.expect("it is told");
}

#[tokio::test]
async fn leadership_passes_on_is_seen_and_guards_the_writes() {
    let mut cluster = Cluster::start().await;
    let mut leaders = client(&cluster).holders(&office());
    seen(&mut leaders, None).await;

    let first = elected(client(&cluster), "first").await;
    seen(&mut leaders, Some("first")).await;
    let guard = MemoryGuard::new(Rules::issued_by(first.sequencer().issuer.clone()));
    assert!(matches!(
        guard.admit_now(first.sequencer()),
        Ok(Verdict::Admitted)
    ));

    // Two stand in line; the leadership outlives the cluster's own leader, and so does the watch.
    let second = tokio::spawn(elected(client(&cluster), "second"));
    in_line(&cluster, 1).await;
    let third = tokio::spawn(elected(client(&cluster), "third"));
    in_line(&cluster, 2).await;
    cluster.kill(cluster.leader().await).await;

    let late = first.sequencer().clone();
    timeout(PATIENCE, first.release()).await.unwrap().unwrap();
    let second = second.await.unwrap();
    seen(&mut leaders, Some("second")).await;
    assert!(second.token().value() > late.token);
    assert!(matches!(
        guard.admit_now(second.sequencer()),
        Ok(Verdict::Admitted)
    ));
    // A write that was under way when its leader resigned.
    assert!(matches!(guard.admit_now(&late), Ok(Verdict::Stale { .. })));

    drop(second);
    let third = third.await.unwrap();
    seen(&mut leaders, Some("third")).await;
    drop(third);
    seen(&mut leaders, None).await;
}

async fn in_line(cluster: &Cluster, wanted: u32) {
    let client = client(cluster);
    let wait = async {
        while client.inspect(&office()).await.unwrap().queue < wanted {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, wait).await.expect("it joins the line");
}
