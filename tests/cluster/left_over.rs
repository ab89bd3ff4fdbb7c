//! Directories that are not what they seem: left over from another cluster, or an older copy that was
//! put back. They are refused, and the healthy nodes are none the worse.

use crate::{
    nodes::Cluster,
    refusals::{IDENTITY, refused, with},
};

/// etcd#3710, etcd#11562: a directory that was left over from another cluster made a node complain for
/// ever, or worse, answer in the name of both.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_of_another_cluster_is_refused_with_both_ids() {
    let mut cluster = Cluster::of_three().await;
    let mut other = Cluster::planned(1).await;
    other.start_all();
    other.ready().await;
    let ours = cluster_id(&cluster, 1).await;
    let theirs = cluster_id(&other, 1).await;
    other.kill_all();
    // Node 1's id and list; but the directory is the other cluster's.
    cluster.kill(1);
    let foreign = with(
        cluster.founding(1),
        "data-dir",
        other.place.data(1).display(),
    );
    let (code, said) = refused(&mut cluster, 1, &foreign).await;
    assert_eq!(code, IDENTITY, "{said}");
    assert!(
        said.contains(&ours) && said.contains(&theirs),
        "both cluster ids: {said}"
    );
    // And the right directories still work.
    cluster.start_all();
    cluster.ready().await;
}

async fn cluster_id(cluster: &Cluster, node: u64) -> String {
    cluster
        .status(node)
        .await
        .unwrap()
        .header
        .unwrap()
        .cluster_id
}
