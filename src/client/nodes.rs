//! The connections to the nodes: made when first needed, kept, and remade by tonic when they break.

use super::address::Address;
use super::options::Options;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tonic::transport::{Channel, Endpoint};

/// A connection that answers no ping within twice this has gone (half-open: the other machine lost its
/// power, or a firewall forgot us). Pings are sent only while a call is open, so an idle client sends
/// none and no proxy has a reason to complain of them.
const PING_INTERVAL: Duration = Duration::from_secs(2);

/// How a channel to an address is made. A simulation brings its own network here.
pub type Dial = Arc<dyn Fn(Endpoint) -> Channel + Send + Sync>;

/// The channels by address, each a lazy pool.
pub(crate) struct Nodes {
    dial: Dial,
    connect_timeout: Duration,
    connections: usize,
    pools: Mutex<BTreeMap<Address, Arc<Pool>>>,
}

/// Hints can name any number of addresses. Beyond this many, unused pools are closed and forgotten.
const POOLS_MAX: usize = 64;

struct Pool {
    channels: Vec<Channel>,
    turn: AtomicUsize,
}

impl Nodes {
    pub(crate) fn new(options: &Options, dial: Dial) -> Self {
        Self {
            dial,
            connect_timeout: options.connect_timeout,
            connections: options.connections,
            pools: Mutex::default(),
        }
    }

    /// The next channel to `address`; calls take turns on those of one node.
    pub(crate) fn channel(&self, address: &Address) -> Channel {
        let pool = self.pool(address);
        let turn = pool.turn.fetch_add(1, Ordering::Relaxed);
        pool.channels[turn % pool.channels.len()].clone()
    }

    fn pool(&self, address: &Address) -> Arc<Pool> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = pools.get(address) {
            return Arc::clone(pool);
        }
        if pools.len() >= POOLS_MAX {
            pools.clear();
        }
        let pool = Arc::new(Pool {
            channels: (0..self.connections).map(|_| self.make(address)).collect(),
            turn: AtomicUsize::new(0),
        });
        pools.insert(address.clone(), Arc::clone(&pool));
        pool
    }

    fn make(&self, address: &Address) -> Channel {
        let endpoint = Endpoint::from_shared(format!("http://{address}"))
            .expect("an Address is the authority of a URI, checked when it was parsed")
            .tcp_nodelay(true)
            .connect_timeout(self.connect_timeout)
            .http2_keep_alive_interval(PING_INTERVAL)
            .keep_alive_timeout(PING_INTERVAL)
            .keep_alive_while_idle(false);
        (self.dial)(endpoint)
    }
}

/// Over TCP, connecting with the first call.
pub(crate) fn tcp() -> Dial {
    Arc::new(|endpoint| endpoint.connect_lazy())
}
