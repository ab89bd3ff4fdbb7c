//! Where the nodes of one cluster live: their addresses and their directories.
//!
//! Every cluster of every test process has a loopback address of its own, made from the process id
//! and a counter, since all of 127.0.0.0/8 is loopback on Linux. So nobody races for ports, a node
//! finds its port free when it restarts, and an outgoing connection can never sit on it.

use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
};

use tempfile::TempDir;

/// Counts the clusters of this process.
static PLACES: AtomicU32 = AtomicU32::new(0);

#[derive(Debug)]
pub(crate) struct Place {
    ip: Ipv4Addr,
    dir: TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        // 22 bits: 15 of the process id and 7 of the counter, above 127.0.x.x, which others use.
        let count = PLACES.fetch_add(1, Ordering::Relaxed) % 128;
        let low = ((process::id() % 32_768) << 7) | count;
        let ip = Ipv4Addr::from_bits(Ipv4Addr::new(127, 64, 0, 0).to_bits() + low);
        let dir = tempfile::Builder::new()
            .prefix("fencepost-cluster-")
            .tempdir()
            .unwrap();
        Self { ip, dir }
    }

    /// Where clients call a node.
    pub(crate) fn client(&self, node: u64) -> SocketAddr {
        self.port(7_100, node)
    }

    /// Where the other nodes call it.
    pub(crate) fn peer(&self, node: u64) -> SocketAddr {
        self.port(7_200, node)
    }

    /// Where its metrics and its health are.
    pub(crate) fn http(&self, node: u64) -> SocketAddr {
        self.port(7_300, node)
    }

    fn port(&self, base: u16, node: u64) -> SocketAddr {
        SocketAddr::from((self.ip, base + u16::try_from(node).unwrap()))
    }

    /// Leaves the directory where it is when this place goes, for whoever looks into a failure.
    pub(crate) fn keep(&mut self) {
        self.dir.disable_cleanup(true);
    }

    pub(crate) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn data(&self, node: u64) -> PathBuf {
        self.dir().join(format!("data-{node}"))
    }

    pub(crate) fn log(&self, node: u64) -> PathBuf {
        self.dir().join(format!("node-{node}.log"))
    }

    pub(crate) fn audit(&self, node: u64) -> PathBuf {
        self.dir().join(format!("audit-{node}.jsonl"))
    }

    /// The `--peers` list of these nodes.
    pub(crate) fn peers(&self, nodes: impl IntoIterator<Item = u64>) -> String {
        let entry = |node| format!("{node}={}", self.peer(node));
        nodes.into_iter().map(entry).collect::<Vec<_>>().join(",")
    }
}

#[test]
fn places_of_one_process_differ() {
    let (one, other) = (Place::new(), Place::new());
    assert_ne!(one.client(1), other.client(1));
    assert_ne!(one.client(1), one.peer(1));
    assert!(one.client(1).ip().is_loopback());
}
