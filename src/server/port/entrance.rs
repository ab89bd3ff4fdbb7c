//! Who is let in.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::Stream;
use tokio::net::{TcpListener, TcpStream};

use super::{Connection, Patience};

/// After a failed accept: descriptors come back when somebody leaves, and not by trying again at once.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

/// Lets connections in at one port. Clones are the same entrance.
#[derive(Clone, Debug)]
pub struct Entrance {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// What this port is called in the log.
    port: &'static str,
    max: usize,
    open: AtomicUsize,
    refused: AtomicU64,
    failures: AtomicU64,
    /// Told already, until somebody is let in again.
    told: AtomicBool,
}

/// What has gone through an entrance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntranceCounts {
    /// Connections that are open.
    pub open: u64,
    /// Connections that were closed at once, because there were too many.
    pub refused: u64,
    /// Times that the system could not let one in.
    pub failures: u64,
}

/// One open connection, until it is dropped.
#[derive(Debug)]
pub(super) struct Place(Arc<Shared>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Entrance {
    /// An entrance for so many connections at once.
    #[must_use]
    pub fn new(port: &'static str, max: usize) -> Self {
        Entrance {
            shared: Arc::new(Shared {
                port,
                max,
                open: AtomicUsize::new(0),
                refused: AtomicU64::new(0),
                failures: AtomicU64::new(0),
                told: AtomicBool::new(false),
            }),
        }
    }

    /// So many may be open at once.
    #[must_use]
    pub fn max(&self) -> usize {
        self.shared.max
    }

    /// What has gone through so far.
    #[must_use]
    pub fn counts(&self) -> EntranceCounts {
        let shared = &self.shared;
        EntranceCounts {
            open: u64::try_from(shared.open.load(Ordering::Relaxed)).unwrap_or(u64::MAX),
            refused: shared.refused.load(Ordering::Relaxed),
            failures: shared.failures.load(Ordering::Relaxed),
        }
    }

    /// All connections that are let in, for a server that takes a stream of them.
    pub fn stream(
        self,
        listener: TcpListener,
        patience: Patience,
    ) -> impl Stream<Item = io::Result<Connection>> {
        futures_util::stream::unfold((self, listener), move |(entrance, listener)| async move {
            let (connection, _) = entrance.accept(&listener, patience).await;
            Some((Ok(connection), (entrance, listener)))
        })
    }

    /// The next connection that is let in. It does not fail: what goes wrong is told and waited out.
    pub async fn accept(
        &self,
        listener: &TcpListener,
        patience: Patience,
    ) -> (Connection, SocketAddr) {
        loop {
            match listener.accept().await {
                Ok((stream, from)) => {
                    if let Some(connection) = self.admit(stream, patience) {
                        return (connection, from);
                    }
                }
                // The other end gave up while it stood in the queue.
                Err(error) if is_its_own(&error) => {}
                Err(error) => {
                    self.failed(&error);
                    tokio::time::sleep(AFTER_FAILURE).await;
                }
            }
        }
    }

    /// `None`: one too many, and closed by being dropped.
    fn admit(&self, stream: TcpStream, patience: Patience) -> Option<Connection> {
        let shared = &self.shared;
        let before = shared.open.fetch_add(1, Ordering::Relaxed);
        let place = Place(Arc::clone(shared));
        if before >= shared.max {
            shared.refused.fetch_add(1, Ordering::Relaxed);
            if !shared.told.swap(true, Ordering::Relaxed) {
                tracing::warn!(
                    port = shared.port,
                    max = shared.max,
                    "too many connections: further ones are closed until some end"
                );
            }
            return None;
        }
        shared.told.store(false, Ordering::Relaxed);
        // Answers are small and waited for. A connection that cannot is already gone.
        let _ = stream.set_nodelay(true);
        Some(Connection::new(stream, place, patience))
    }

    fn failed(&self, error: &io::Error) {
        let shared = &self.shared;
        shared.failures.fetch_add(1, Ordering::Relaxed);
        if !shared.told.swap(true, Ordering::Relaxed) {
            tracing::error!(
                port = shared.port,
                %error,
                "no connection can be let in: the process may be out of file descriptors"
            );
        }
    }
}

/// Whether an accept failed because of the one connection alone.
fn is_its_own(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset, Interrupted};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset | Interrupted
    )
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn pair(patience: Patience) -> (Connection, TcpStream, Entrance) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let entrance = Entrance::new("test", 1);
        let (client, (server, _)) = tokio::join!(client, entrance.accept(&listener, patience));
        (server, client.unwrap(), entrance)
    }

    #[tokio::test]
    async fn who_connects_and_says_too_little_is_given_up() {
        let patience = Patience::Begin {
            bytes: 3,
            within: Duration::from_millis(50),
        };
        let (mut server, mut client, entrance) = pair(patience).await;
        assert_eq!(entrance.counts().open, 1);
        client.write_all(b"ab").await.unwrap();
        let mut heard = Vec::new();
        let error = server.read_to_end(&mut heard).await.unwrap_err();
        assert_eq!(
            (error.kind(), heard.as_slice()),
            (io::ErrorKind::TimedOut, &b"ab"[..])
        );
        drop(server);
        assert_eq!(entrance.counts().open, 0);
    }

    #[tokio::test]
    async fn who_has_begun_in_time_is_left_to_the_protocol() {
        let patience = Patience::Begin {
            bytes: 3,
            within: Duration::from_millis(50),
        };
        let (mut server, mut client, _) = pair(patience).await;
        client.write_all(b"abc").await.unwrap();
        server.read_exact(&mut [0; 3]).await.unwrap();
        let silence = tokio::time::timeout(Duration::from_millis(200), server.read_u8());
        assert!(silence.await.is_err(), "it is not given up");
    }

    #[tokio::test]
    async fn who_does_not_ask_again_in_time_is_given_up() {
        let patience = Patience::Ask {
            within: Duration::from_millis(50),
        };
        let (mut server, mut client, _) = pair(patience).await;
        client.write_all(b"ask").await.unwrap();
        server.read_exact(&mut [0; 3]).await.unwrap();
        server.write_all(b"answer").await.unwrap();
        let error = server.read_u8().await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }
}
