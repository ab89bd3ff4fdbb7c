//! How patient a client is, and how many connections it makes.

use std::time::Duration;

/// Settings of a [`Client`](super::Client). The defaults suit a cluster in one region.
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) timeout: Duration,
    pub(crate) attempt_timeout: Duration,
    pub(crate) connect_timeout: Duration,
    pub(crate) connections: usize,
}

/// The most connections to one node; a node serves thousands, a client needs a few.
const CONNECTIONS_MAX: usize = 64;

impl Default for Options {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(10),
            attempt_timeout: Duration::from_secs(1),
            connect_timeout: Duration::from_millis(750),
            connections: 1,
        }
    }
}

impl Options {
    /// How long a call may take in all: every retry, and an election that it has to sit out. 10 s unless
    /// set; at least 1 ms.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout.max(Duration::from_millis(1));
        self
    }

    /// How long the first send of a call may take before another node is asked; each later send gets
    /// twice as long as the one before. 1 s unless set; at least 1 ms. A member that is cut off from the
    /// leader can hold a call up by that much and no more (etcd#8673).
    #[must_use]
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.attempt_timeout = timeout.max(Duration::from_millis(1));
        // A connection that cannot be made must say so before the attempt is over: then it is known that
        // nothing was sent, and the call certainly had no effect.
        self.connect_timeout = self.attempt_timeout * 3 / 4;
        self
    }

    /// How many connections to keep to a node, 1 to 64; calls take turns on them. One connection carries
    /// thousands of calls at once, so more than 1 only pays for load tests.
    #[must_use]
    pub fn connections(mut self, connections: usize) -> Self {
        self.connections = connections.clamp(1, CONNECTIONS_MAX);
        self
    }
}
