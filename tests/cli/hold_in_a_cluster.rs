//! `fencepost hold` against a cluster of real processes: who may run when somebody is stopped, cut off or killed.

use crate::cluster::Cluster;
use crate::running::{PATIENCE, Running, fencepost, processes_naming, wait_until_gone};
use fencepost::client::{Client, Held, Options};
use fencepost::grant::Ttl;
use rustix::process::Signal;
use std::path::Path;
use std::time::{Duration, Instant};

/// What a command prints when it is there.
const UP: &str = "the command is up";
/// A command that runs until the file `go` is there, with a child that knows no end.
const UNTIL_GO: &str = "sh -c 'while :; do sleep 1; done' child $1 & \
                        echo the command is up with $FENCEPOST_TOKEN; \
                        while test ! -e $1/go; do sleep 0.01; done; exit 9";

fn hold(cluster: &Cluster, more: &[&str], files: &Path) -> Running {
    let endpoints = cluster.endpoints();
    let start = ["hold", "jobs", "--endpoints", &endpoints];
    let command = ["--", "sh", "-c", UNTIL_GO, "sh", files.to_str().unwrap()];
    Running::start(&mut fencepost(&[&start[..], more, &command[..]].concat()))
}

fn client(cluster: &Cluster) -> Client {
    let endpoints = cluster.endpoints();
    Client::connect(endpoints.split(','), Options::default().timeout(PATIENCE)).unwrap()
}

/// Stands in line for the resource as somebody else.
async fn somebody_else(cluster: &Cluster) -> Held {
    let (resource, holder) = ("jobs".parse().unwrap(), "else".parse().unwrap());
    let client = client(cluster);
    let hold = client.hold(&resource, &holder).ttl(Ttl::default());
    hold.wait(PATIENCE).await.unwrap().held().unwrap()
}

/// The token that a command printed.
fn token(line: &str) -> u64 {
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

fn go(files: &Path) {
    std::fs::write(files.join("go"), "").unwrap();
}

/// The state of the resource, as `inspect` tells it.
async fn inspect(cluster: &Cluster) -> serde_json::Value {
    let endpoints = cluster.endpoints();
    let args = ["inspect", "jobs", "-o", "json", "--endpoints", &endpoints];
    crate::fencepost(&args).await.json()
}

/// Waits until the resource stands as wanted.
async fn until(cluster: &Cluster, wanted: impl Fn(&serde_json::Value) -> bool) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let found = inspect(cluster).await;
        if wanted(&found) {
            return;
        }
        assert!(Instant::now() < deadline, "it stands as {found}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_somebody_else_is_granted_the_command_of_a_stopped_fencepost_is_gone() {
    // The kind of consul#9788: a protected child ran beside the new holder.
    let (cluster, files) = (Cluster::start().await, tempfile::tempdir().unwrap());
    let mut stopped = hold(&cluster, &["--ttl", "3s"], files.path());
    let first = token(&stopped.wait_for(UP));
    stopped.signal(Signal::STOP);
    let held = somebody_else(&cluster).await;
    let mut left = processes_naming(files.path());
    // Itself it stands still, and has the name among its own arguments.
    left.retain(|pid| *pid != stopped.pid().to_string());
    assert_eq!(left, Vec::<String>::new());
    assert!(held.token().value().get() > first);
    stopped.signal(Signal::CONT);
    assert_eq!(stopped.end().code(), Some(124), "{}", stopped.printed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_that_stands_still_ends_the_command_before_it_can_grant_again() {
    let (cluster, files) = (Cluster::start().await, tempfile::tempdir().unwrap());
    let mut cut_off = hold(&cluster, &["--ttl", "3s"], files.path());
    let first = token(&cut_off.wait_for(UP));
    for node in [0, 1] {
        cluster.freeze(node).await;
    }
    assert_eq!(cut_off.end().code(), Some(124), "{}", cut_off.printed());
    assert_eq!(processes_naming(files.path()), Vec::<String>::new());
    for node in [0, 1] {
        cluster.thaw(node).await;
    }
    assert!(somebody_else(&cluster).await.token().value().get() > first);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_outlives_the_leader_of_the_cluster() {
    let (mut cluster, files) = (Cluster::start().await, tempfile::tempdir().unwrap());
    let mut running = hold(&cluster, &["--ttl", "8s"], files.path());
    running.wait_for(UP);
    cluster.kill(cluster.leader().await).await;
    until(&cluster, |found| {
        found["grant"]["renewals"].as_u64() >= Some(2)
    })
    .await;
    go(files.path());
    assert_eq!(running.end().code(), Some(9), "{}", running.printed());
    wait_until_gone(files.path());
    assert_eq!(inspect(&cluster).await["free"], true);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn those_in_line_run_one_after_the_other() {
    let cluster = Cluster::start().await;
    let files = [(); 4].map(|()| tempfile::tempdir().unwrap());
    let mut first = hold(&cluster, &[], files[0].path());
    let before = token(&first.wait_for(UP));
    let mut second = hold(&cluster, &["--wait", "60s"], files[1].path());
    until(&cluster, |found| found["queue"] == 1).await;

    let mut impatient = hold(&cluster, &["--wait", "200ms"], files[2].path());
    assert_eq!(impatient.end().code(), Some(123), "{}", impatient.printed());
    let said = impatient.printed();
    assert!(said.contains("did not become free in time"), "{said}");

    let mut interrupted = hold(&cluster, &["--wait", "60s"], files[3].path());
    until(&cluster, |found| found["queue"] == 2).await;
    interrupted.signal(Signal::INT);
    assert_eq!(interrupted.end().code(), Some(130));
    // It has left the line, and not merely fallen silent.
    assert_eq!(inspect(&cluster).await["queue"], 1);

    assert!(!second.printed().contains(UP));
    go(files[0].path());
    assert_eq!(first.end().code(), Some(9), "{}", first.printed());
    let after = token(&second.wait_for(UP));
    assert!(after > before);
    go(files[1].path());
    assert_eq!(second.end().code(), Some(9), "{}", second.printed());
}
