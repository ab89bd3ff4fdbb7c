//! What a node refuses to start with: each refusal has its exit code, names both sides and says what
//! to do. Nothing that runs is disturbed by it.

use std::fs;

use crate::nodes::Cluster;

const CONFIGURATION: i32 = 10;
pub(crate) const IDENTITY: i32 = 11;
const ADDRESS_IN_USE: i32 = 15;

/// A founder's arguments with one setting exchanged.
pub(crate) fn with(mut arguments: Vec<String>, name: &str, value: impl ToString) -> Vec<String> {
    let flag = format!("--{name}");
    match arguments.iter().position(|argument| *argument == flag) {
        Some(at) => arguments[at + 1] = value.to_string(),
        None => arguments.extend([flag, value.to_string()]),
    }
    arguments
}

/// Starts a node beside a running cluster, and gives its exit code and what it said.
pub(crate) async fn refused(
    cluster: &mut Cluster,
    node: u64,
    arguments: &[String],
) -> (i32, String) {
    let before = cluster.logged(node).len();
    cluster.start_with(node, arguments);
    let code = cluster.exit(node).await;
    (code, cluster.logged(node)[before..].to_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_busy_data_directory_or_port_is_refused_and_disturbs_nobody() {
    let mut cluster = Cluster::of_three().await;
    // The same directory with ports of its own, and the same ports with a directory of its own.
    let place = &cluster.place;
    let mut same_directory = with(cluster.founding(1), "listen", place.client(8));
    same_directory = with(same_directory, "peer-listen", place.peer(8));
    same_directory = with(same_directory, "http-listen", place.http(8));
    let directory = place.data(1).display().to_string();
    let (code, said) = refused(&mut cluster, 8, &same_directory).await;
    assert_eq!(code, IDENTITY, "{said}");
    assert!(
        said.contains(&directory) && said.contains("in use"),
        "{said}"
    );

    for (setting, port) in [
        ("listen", cluster.place.client(1)),
        ("peer-listen", cluster.place.peer(1)),
        ("http-listen", cluster.place.http(1)),
    ] {
        let busy_port = with(cluster.joining(7), setting, port);
        let (code, said) = refused(&mut cluster, 7, &busy_port).await;
        assert_eq!(code, ADDRESS_IN_USE, "{said}");
        assert!(
            said.contains(&port.to_string()) && said.contains(setting),
            "{said}"
        );
    }
    cluster.ready().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_of_another_node_is_refused_with_both_ids() {
    let mut cluster = Cluster::of_three().await;
    cluster.kill(2);
    // Node 3's directory under node 2's id.
    cluster.kill(3);
    let other_node = with(
        cluster.founding(2),
        "data-dir",
        cluster.place.data(3).display(),
    );
    let (code, said) = refused(&mut cluster, 2, &other_node).await;
    assert_eq!(code, IDENTITY, "{said}");
    assert!(said.contains("node 3") && said.contains("node 2"), "{said}");

    // And the right directories still work.
    cluster.start_all();
    cluster.ready().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_keeps_its_issuer_for_good() {
    let mut cluster = Cluster::of_three().await;
    cluster.terminate(2).await;
    let renamed = with(cluster.founding(2), "issuer", "another");
    let (code, said) = refused(&mut cluster, 2, &renamed).await;
    assert_eq!(code, IDENTITY, "{said}");
    assert!(
        said.contains("\"another\"") && said.contains("--issuer"),
        "{said}"
    );
    cluster.start(2);
    cluster.ready().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wiped_node_is_refused_and_the_others_go_on() {
    let mut cluster = Cluster::of_three().await;
    let leader = cluster.ready().await;
    let wiped = cluster.founders().find(|node| *node != leader).unwrap();
    cluster.kill(wiped);
    fs::remove_dir_all(cluster.place.data(wiped)).unwrap();
    let founding = cluster.founding(wiped);
    let (code, said) = refused(&mut cluster, wiped, &founding).await;
    assert_eq!(code, IDENTITY, "{said}");
    assert!(
        said.contains("remove-node") && said.contains("add-node"),
        "it says what to do: {said}"
    );
    // It is refused again, and with --join as well: its id is not given twice.
    let joining = cluster.joining(wiped);
    let (code, said) = refused(&mut cluster, wiped, &joining).await;
    assert_eq!(code, IDENTITY, "{said}");
    cluster.ready().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_configuration_is_refused_before_anything_is_written() {
    let mut cluster = Cluster::planned(3).await;
    for (setting, value, words) in [
        ("listen", "0.0.0.0:7100", "--insecure"),
        ("heartbeat", "1ns", "heartbeat"),
        ("node-id", "0", "node-id"),
        ("peers", "1=a:1,1=b:2,3=c:3", "peers"),
    ] {
        let wrong = with(cluster.founding(1), setting, value);
        let (code, said) = refused(&mut cluster, 1, &wrong).await;
        assert_eq!(code, CONFIGURATION, "{setting}={value}: {said}");
        assert!(said.contains(words), "{setting}={value}: {said}");
    }
    assert!(!cluster.place.data(1).exists());
}
