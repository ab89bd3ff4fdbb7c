//! A private Redis.

use std::{
    os::unix::net::UnixStream,
    sync::atomic::{AtomicU32, Ordering},
};

use super::{
    Sync,
    private::{Place, Private, with},
    program,
};

/// Numbered databases: one for each test that asks.
const DATABASES: u32 = 1_000;

/// A running Redis.
#[derive(Debug)]
pub(crate) struct Redis {
    server: Private,
    next: AtomicU32,
}

impl Redis {
    /// Starts a server of one's own; `None` where it is not installed.
    pub(crate) fn start(sync: Sync) -> Option<Self> {
        let redis = program("redis-server", &["/usr/bin", "/usr/local/bin"])?;
        let place = Place::new("redis", "redis");
        let path = |name: &str| place.path().join(name).display().to_string();
        let (socket, data) = (path("socket"), path("data"));
        let databases = DATABASES.to_string();
        let (append, fsync) = match sync {
            Sync::Never => ("no", "no"),
            // Redis writes to its log before it answers; how often that is synced is another thing.
            Sync::Written => ("yes", "no"),
            Sync::EachCommit => ("yes", "always"),
        };
        let words = with(
            place.words(&redis),
            &[
                "--port",
                "0",
                "--unixsocket",
                &socket,
                "--dir",
                &data,
                "--databases",
                &databases,
                "--save",
                "",
                "--appendonly",
                append,
                "--appendfsync",
                fsync,
            ],
        );
        let server = place.serve(&words, "KILL", |directory| {
            UnixStream::connect(directory.join("socket")).is_ok()
        });
        let next = AtomicU32::new(0);
        Some(Self { server, next })
    }

    /// The URL of an empty database. The name is for the reader; Redis numbers its databases.
    #[allow(
        clippy::unused_async,
        reason = "asked for like the other servers' databases"
    )]
    pub(crate) async fn fresh(&self, _name: &str) -> String {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        assert!(number < DATABASES, "more tests than Redis databases");
        let socket = self.server.directory().join("socket");
        format!("redis+unix://{}?db={number}", socket.display())
    }

    pub(crate) fn server(&self) -> &Private {
        &self.server
    }
}
