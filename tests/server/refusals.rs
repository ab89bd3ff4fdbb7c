//! What a node refuses to start on: each with the kind that decides its exit code, and a remedy.

use std::time::Duration;

use fencepost::{
    server::node::{EndKind, NodeError},
    wire::v1,
};
use tonic::Code;

use crate::nodes::{Nodes, acquire, error_info, eventually, granted, release, renew, value};

fn refused(result: Result<(), NodeError>, kind: EndKind, words: &[&str]) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "{word}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_directory_or_port_is_refused() {
    let mut nodes = Nodes::start(1).await;
    let mut second = Nodes::prepare(1);
    let (port, dir) = (
        nodes.flag(0, "listen").to_owned(),
        nodes.flag(0, "data-dir").to_owned(),
    );
    second.set(0, "listen", &port);
    refused(
        second.run(0).await,
        EndKind::AddressInUse,
        &["listen", &port, "another port"],
    );
    let mut second = Nodes::prepare(1);
    second.set(0, "data-dir", &dir);
    refused(second.run(0).await, EndKind::Identity, &["in use", &dir]);
    nodes.stop(0).await;
    nodes.run(0).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_directory_of_another_node_is_refused() {
    let mut nodes = Nodes::start(1).await;
    nodes.stop(0).await;
    let dir = nodes.flag(0, "data-dir").to_owned();
    let mut other = Nodes::prepare(3);
    other.set(1, "data-dir", &dir);
    refused(
        other.run(1).await,
        EndKind::Identity,
        &["belongs to node 1", "node 2"],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_audit_log_that_cannot_be_written_is_refused() {
    let mut nodes = Nodes::prepare(1);
    let path = nodes
        .dir
        .path()
        .join("no/such/directory/audit")
        .display()
        .to_string();
    nodes.set(0, "audit-log", &path);
    refused(
        nodes.run(0).await,
        EndKind::Configuration,
        &["audit log", &path],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn peers_with_another_list_are_refused() {
    let mut nodes = Nodes::prepare(3);
    let peers = nodes.flag(1, "peers").to_owned();
    let third = peers.split(',').next_back().unwrap();
    let elsewhere = format!("3=127.0.0.1:{}", crate::ports::free());
    nodes.set(1, "peers", &peers.replace(third, &elsewhere));
    nodes.run(0).await.unwrap();
    nodes.run(1).await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(30), nodes.node_mut(0).ended()).await;
    let error = ended.expect("it does not go on with two lists");
    refused(Err(error), EndKind::Identity, &[third, &elsewhere]);
}

#[tokio::test(flavor = "multi_thread")]
async fn with_little_space_new_grants_are_refused_while_holders_go_on() {
    let mut nodes = Nodes::start(1).await;
    let token = value(
        granted(&mut nodes.issuer(0), acquire("r", "a", 60_000))
            .await
            .token
            .as_ref(),
    );
    nodes.stop(0).await;
    // More than any disk of a test machine has free.
    nodes.set(0, "free-space-floor", "1TiB");
    nodes.run(0).await.unwrap();
    nodes.leader().await;
    let mut issuer = nodes.issuer(0);
    let (code, reason) = eventually("the floor is noticed", || {
        let mut issuer = issuer.clone();
        async move {
            let status = issuer.acquire(acquire("s", "a", 60_000)).await.err()?;
            let (code, reason, metadata) = error_info(&status);
            assert_eq!(metadata["effect"], "none");
            Some((code, reason))
        }
    })
    .await;
    assert_eq!(
        (code, reason.as_str()),
        (Code::ResourceExhausted, "DISK_FULL")
    );
    let items = vec![renew("r", "a", token)];
    let renewed = issuer.renew(v1::RenewRequest { items }).await.unwrap();
    let outcome = renewed.into_inner().outcomes.remove(0).outcome;
    assert!(
        matches!(outcome, Some(v1::renew_outcome::Outcome::Renewed(_))),
        "{outcome:?}"
    );
    let released = issuer
        .release(release("r", "a", token))
        .await
        .unwrap()
        .into_inner()
        .outcome;
    assert_eq!(
        released,
        Some(v1::release_response::Outcome::Released(v1::Released {}))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_not_added_at_a_port_that_is_none_of_peers() {
    let nodes = Nodes::start(1).await;
    for port in ["listen", "http-listen"] {
        let request = v1::AddNodeRequest {
            node_id: 2,
            peer_address: nodes.flag(0, port).to_owned(),
        };
        let status = nodes.cluster(0).add_node(request).await.unwrap_err();
        let (_, reason, _) = error_info(&status);
        assert_eq!(reason, "REFUSED", "{port}: {status:?}");
        assert!(
            status.message().contains("is not the peer port"),
            "{port}: {}",
            status.message()
        );
    }
}
