//! Directories that are not what they seem: left over from another cluster, or an older copy that was
//! put back. They are refused, and the healthy nodes are none the worse.

use std::{fs, path::Path};

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

/// A copy of a directory, put back after the node went on, has forgotten what the node promised since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stale_copy_of_a_directory_is_refused_and_the_others_go_on() {
    let mut cluster = Cluster::of_three().await;
    let leader = cluster.ready().await;
    let node = cluster.founders().find(|node| *node != leader).unwrap();
    let (data, copy) = (cluster.place.data(node), cluster.place.dir().join("copy"));
    assert_eq!(cluster.terminate(node).await, 0);
    copy_directory(&data, &copy);

    // It goes on, and acknowledges an entry that the copy lacks.
    cluster.start(node);
    cluster.ready().await;
    let output = cluster.command(&["acquire", "r", "--holder", "h"]).await;
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    cluster.caught_up().await;
    assert_eq!(cluster.terminate(node).await, 0);
    fs::remove_dir_all(&data).unwrap();
    fs::rename(&copy, &data).unwrap();

    let founding = cluster.founding(node);
    let (code, said) = refused(&mut cluster, node, &founding).await;
    assert_eq!(code, IDENTITY, "{said}");
    assert!(said.contains("remove-node"), "it says what to do: {said}");

    // Started once more it shows a start that nobody has seen yet. But it lacks an entry that it had
    // acknowledged to the leader, who must neither take it back nor come to harm.
    let (code, said) = refused(&mut cluster, node, &founding).await;
    assert_eq!(code, IDENTITY, "{said}");
    assert!(said.contains("stale copy"), "{said}");
    assert_eq!(cluster.ready().await, leader, "the leader went on");
    let output = cluster.command(&["inspect", "r", "--output", "json"]).await;
    assert!(output.status.success(), "the others still serve");
}

fn copy_directory(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if source.is_dir() {
            copy_directory(&source, &target);
        } else {
            fs::copy(source, target).unwrap();
        }
    }
}
