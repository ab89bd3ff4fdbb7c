//! Opening a directory: whose it is, and who has it.

use fencepost::server::store::{
    ClusterId, DiskStore, Founder, InstanceId, OpenError, Options, Ready, Store,
};

use crate::fixture::*;

#[test]
fn a_busy_directory_is_refused_with_the_pid_of_who_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let (store, _) = open(dir.path()).unwrap();
    let refused = open(dir.path()).unwrap_err();
    assert!(matches!(refused, OpenError::Busy { pid: Some(pid), .. } if pid == std::process::id()));
    let text = refused.to_string();
    assert!(
        text.contains("in use by another process") && text.contains("stop that one"),
        "{text}"
    );
    drop(store);
    open(dir.path()).unwrap();
}

#[test]
fn the_lock_of_a_dead_process_is_not_in_the_way() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).unwrap());
    std::fs::write(dir.path().join("LOCK"), "1\n").unwrap();
    open(dir.path()).unwrap();
}

#[test]
fn a_directory_of_another_node_is_refused_with_both_ids() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).unwrap());
    let other = Options {
        node_id: 4,
        ..options()
    };
    let refused = DiskStore::open(dir.path(), &other).unwrap_err();
    assert!(matches!(
        refused,
        OpenError::OtherNode {
            found: 3,
            expected: 4,
            ..
        }
    ));
    let text = refused.to_string();
    assert!(
        text.contains("belongs to node 3") && text.contains("started as node 4"),
        "{text}"
    );
    open(dir.path()).unwrap();
}

#[test]
fn a_directory_of_another_cluster_is_refused_with_both_ids() {
    let dir = tempfile::tempdir().unwrap();
    drop(open(dir.path()).unwrap());
    let other = Options {
        cluster: Some(ClusterId::new(0xbad)),
        ..options()
    };
    let text = DiskStore::open(dir.path(), &other).unwrap_err().to_string();
    assert!(text.contains(&ClusterId::new(0xbad).to_string()), "{text}");
    assert!(
        text.contains(&cluster().to_string()) && text.contains("empty one"),
        "{text}"
    );
    let same = Options {
        cluster: Some(cluster()),
        ..options()
    };
    DiskStore::open(dir.path(), &same).unwrap();
}

#[test]
fn a_founding_list_is_durable_with_the_cluster_id() {
    let dir = tempfile::tempdir().unwrap();
    let founders = (1..=3_u8).map(|n| Founder {
        node_id: n.into(),
        instance: InstanceId::from_bytes([n; 16]),
        address: format!("http://127.0.0.1:700{n}"),
    });
    let ready = Ready {
        cluster: cluster(),
        issuer: issuer(),
        founders: founders.collect(),
    };
    let (store, _) = DiskStore::open(dir.path(), &options()).unwrap();
    store.make_ready(ready.clone()).unwrap();
    // What a kill leaves: nothing is written at a clean end only.
    let image = image(dir.path());
    let (_, recovered) = DiskStore::open(image.path(), &options()).unwrap();
    assert_eq!(recovered.identity.ready(), Some(&ready));
    assert_eq!(recovered.log, fencepost::server::store::LogState::default());
}

#[test]
fn every_start_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    for boots in 1..6 {
        let (store, recovered) = open(dir.path()).unwrap();
        assert_eq!((recovered.boots, store.boots()), (boots, boots));
    }
}

#[test]
fn a_directory_that_cannot_be_made_is_an_error_that_names_it() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    std::fs::write(&file, b"").unwrap();
    let text = DiskStore::open(&file.join("data"), &options())
        .unwrap_err()
        .to_string();
    assert!(
        text.contains("cannot create") && text.contains("file/data"),
        "{text}"
    );
}
