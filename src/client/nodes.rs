//! The connections to the nodes: made when first needed, kept, and remade by tonic when they break.

use super::address::Address;
use super::clock::Clock;
use super::options::Options;
use super::pipeline::Lane;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tonic::transport::{Channel, Endpoint};

/// A connection that has said nothing for so long is asked by a ping whether it is still there.
const PING_AFTER: Duration = Duration::from_millis(500);

/// One that does not answer the ping within this has gone (half-open: the other machine lost its power, or
/// a firewall forgot us). Together the two are less than the 2 s for which a waiter keeps its place, so
/// that it comes back in time. Pings are sent only while a stream is open, and an idle client closes
/// its own, so no proxy has a reason to complain of them.
const PING_ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// How a channel to an address is made. A simulation brings its own network here.
pub type Dial = Arc<dyn Fn(Endpoint) -> Channel + Send + Sync>;

/// The channels by address, each a lazy pool.
pub(crate) struct Nodes {
    dial: Dial,
    clock: Arc<dyn Clock>,
    connect_timeout: Duration,
    connections: usize,
    pools: Mutex<BTreeMap<Address, Arc<Pool>>>,
}

/// Hints can name any number of addresses. Beyond this many, unused pools are closed and forgotten.
const POOLS_MAX: usize = 64;

struct Pool {
    lanes: Vec<Arc<Lane>>,
    turn: AtomicUsize,
}

impl Nodes {
    pub(crate) fn new(options: &Options, clock: Arc<dyn Clock>, dial: Dial) -> Self {
        Self {
            dial,
            clock,
            connect_timeout: options.connect_timeout,
            connections: options.connections,
            pools: Mutex::default(),
        }
    }

    /// The next connection to `address`; calls take turns on those of one node.
    pub(crate) fn lane(&self, address: &Address) -> Arc<Lane> {
        let pool = self.pool(address);
        let turn = pool.turn.fetch_add(1, Ordering::Relaxed);
        Arc::clone(&pool.lanes[turn % pool.lanes.len()])
    }

    /// The same, for calls that no stream of operations carries.
    pub(crate) fn channel(&self, address: &Address) -> Channel {
        self.lane(address).channel()
    }

    fn pool(&self, address: &Address) -> Arc<Pool> {
        let mut pools = self.pools.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(pool) = pools.get(address) {
            return Arc::clone(pool);
        }
        if pools.len() >= POOLS_MAX {
            pools.clear();
        }
        let lane = |_| {
            let channel = self.make(address);
            Arc::new(Lane::new(channel, Arc::clone(&self.clock)))
        };
        let pool = Arc::new(Pool {
            lanes: (0..self.connections).map(lane).collect(),
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
            .http2_keep_alive_interval(PING_AFTER)
            .keep_alive_timeout(PING_ANSWER_WITHIN)
            .keep_alive_while_idle(false);
        (self.dial)(endpoint)
    }
}

/// Over TCP, connecting with the first call.
pub(crate) fn tcp() -> Dial {
    Arc::new(|endpoint| endpoint.connect_lazy())
}
