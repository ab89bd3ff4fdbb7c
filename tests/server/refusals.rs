//! What a node refuses to start on: each with the kind that decides its exit code, and a remedy.

use fencepost::server::node::{EndKind, NodeError};

use crate::nodes::Nodes;

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
