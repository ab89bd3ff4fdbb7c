//! Private database servers for tests and benches: PostgreSQL, MariaDB and Redis.
//!
//! `databases::postgres()`, `mariadb()` and `redis()` start one server for the whole test process, the
//! first time that somebody asks, in a temporary directory and behind a Unix socket, so that no two
//! runs can meet on a port. `fresh("name").await` makes an empty database there and gives its URL.
//! A server stops, and its directory goes, when the process that started it ends, however it ends
//! ([`private`] says how).
//!
//! Where the server is not installed, `None` comes back, `skipped: ...` is printed, and the test
//! returns. Where `CI` is set that is a panic: in the gate a skip is a failure.
//!
//! Servers for tests do not sync ([`Sync::Never`]): what a race between connections does is decided in
//! memory, and no test here cuts the power. Whoever wants another [`Sync`], or a server that crashes
//! and is put back to a backup, starts one of its own with `Postgres::start` or `Mariadb::start`.
#![allow(
    dead_code,
    reason = "several test binaries include this folder, and not each asks for every server"
)]

mod mariadb;
mod postgres;
mod private;
mod redis;

use std::{
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
};

pub(crate) use self::{mariadb::Mariadb, postgres::Postgres, redis::Redis};

/// Whether a server waits for its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sync {
    /// For races and stories: nothing here survives its test.
    Never,
    /// A commit is with the operating system before it is acknowledged: it outlives a crash of the
    /// server, though none of the machine.
    Written,
    /// As a server in production: a commit is on disk before it is acknowledged.
    EachCommit,
}

/// Connections that a server takes at once: every test of a binary may run at the same time.
const CONNECTIONS_MAX: u32 = 400;

/// The test process's PostgreSQL; `None`, said aloud, where it is not installed.
pub(crate) fn postgres() -> Option<&'static Postgres> {
    static SERVER: OnceLock<Option<Postgres>> = OnceLock::new();
    let server = SERVER.get_or_init(|| Postgres::start(Sync::Never));
    or_skip("PostgreSQL", server.as_ref())
}

/// The test process's MariaDB; `None`, said aloud, where it is not installed.
pub(crate) fn mariadb() -> Option<&'static Mariadb> {
    static SERVER: OnceLock<Option<Mariadb>> = OnceLock::new();
    let server = SERVER.get_or_init(|| Mariadb::start(Sync::Never));
    or_skip("MariaDB", server.as_ref())
}

/// The test process's MariaDB of an old release, as it says; `None` likewise.
pub(crate) fn old_mariadb() -> Option<&'static Mariadb> {
    static SERVER: OnceLock<Option<Mariadb>> = OnceLock::new();
    let server = SERVER.get_or_init(|| Mariadb::start_as_old(Sync::Never));
    or_skip("MariaDB", server.as_ref())
}

/// The test process's Redis; `None`, said aloud, where it is not installed.
pub(crate) fn redis() -> Option<&'static Redis> {
    static SERVER: OnceLock<Option<Redis>> = OnceLock::new();
    let server = SERVER.get_or_init(|| Redis::start(Sync::Never));
    or_skip("Redis", server.as_ref())
}

/// Says that a test is skipped, or fails where nothing may be skipped.
pub(crate) fn or_skip<S>(what: &str, server: Option<S>) -> Option<S> {
    if server.is_none() {
        let skipped = format!("skipped: {what} is not installed on this machine");
        assert!(std::env::var_os("CI").is_none(), "{skipped}");
        println!("{skipped}");
    }
    server
}

/// A name that no other test of this process has.
fn unique(name: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!("{name}_{}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// The newest of the programs of this name in the directories, which may have one `*`; or the one on
/// the search path.
fn program(name: &str, directories: &[&str]) -> Option<PathBuf> {
    let mut found = Vec::new();
    for directory in directories {
        match directory.split_once('*') {
            None => found.push(Path::new(directory).join(name)),
            Some((above, below)) => {
                let inside = std::fs::read_dir(above).into_iter().flatten().flatten();
                let mut inside: Vec<_> = inside.map(|entry| entry.path()).collect();
                // By version: "9" < "15".
                inside.sort_by_key(|path| (path.as_os_str().len(), path.clone()));
                let below = below.trim_start_matches('/');
                found.extend(inside.iter().rev().map(|path| path.join(below).join(name)));
            }
        }
    }
    let search = std::env::var_os("PATH").unwrap_or_default();
    found.extend(std::env::split_paths(&search).map(|path| path.join(name)));
    found.into_iter().find(|path| path.is_file())
}
