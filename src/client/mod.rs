//! The client: finds and follows the leader, retries what is safe, and is honest about the rest.
//!
//! # What it promises
//!
//! * **One effect.** All sends of one asking carry one request id, a rising attempt number, and a moment
//!   (`asked_at`) that was seen before the first of them, so the cluster acts on them at most once.
//! * **One cluster.** Before its first call a client asks all of its endpoints who they are. Endpoints of
//!   different clusters are refused, with both ids ([`Mismatch`]).
//! * **Honest failures.** A call goes on through elections and unreachable nodes until its time is up.
//!   Then the error says whether the call [can have had an effect](Error::can_have_had_effect) and keeps
//!   the last cause. Once one send has an unknown outcome, no later failure turns that into "nothing
//!   happened".
//! * **Honest deadlines.** [`Acquired::safe_until`] counts from the first send, on a clock that goes on
//!   while the machine sleeps. Where that start is not known, nothing is claimed.
//!
//! # How it finds its way
//!
//! Any node takes any call and passes it to the leader. Answers name the leader, and the client goes
//! there directly from then on. A node that does not answer within a second (or cannot be reached) is
//! left for the next one, and a hint that leads nowhere is not followed again for a while. So a client
//! that was pinned to a cut-off member gets through within two sends (etcd#8673).
//!
//! # What is left out
//!
//! TLS is not here yet: addresses are plain `host:port`.
//!
//! ```no_run
//! use fencepost::client::{Client, Options};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = Client::connect(["127.0.0.1:7100", "127.0.0.1:7101"], Options::default())?;
//! let (resource, holder) = ("nightly-report".parse()?, "worker-7".parse()?);
//! // Renewed in the background until it is released, dropped or lost.
//! let held = client.hold(&resource, &holder).await?.held()?;
//! println!("send {} along with every write", held.token());
//! held.release().await?;
//! # Ok(())
//! # }
//! ```

mod acquire;
mod address;
mod ask;
mod backoff;
mod call;
mod clock;
mod error;
mod feedback;
mod held;
mod hold;
mod learn;
mod method;
mod nodes;
mod operate;
mod options;
mod outcome;
mod pipeline;
mod random;
mod read;
mod register;
mod route;
mod seen;
mod trial;
mod verify;
mod watch;
mod withdraw;
mod words;

pub use address::{Address, AddressError};
pub use ask::{Ask, RequestKey, RequestKeyError};
pub use clock::{BootClock, BootInstant, Clock, Sleep};
pub use error::{Cause, Error, ErrorKind};
pub use held::{Held, Hold, HoldOutcome, Holders, Holding, Lost, LostHow, NotHeld};
pub use nodes::Dial;
pub use operate::{Leader, Member, NodeStatus, Role};
pub use options::Options;
pub use outcome::{
    AcquireOutcome, Acquired, Ended, HeldBy, Inspection, LiveGrant, ReleaseOutcome, RenewOutcome,
    Renewal, RevokeOutcome, WithdrawOutcome,
};
pub use read::Page;
pub use register::{AdmitOutcome, Ahead, Register, RegisterError, ReportOutcome};
pub use seen::Mismatch;
pub use watch::{Change, Cursor, CursorError, Moment, Watch, WatchEvent, Watching};

use crate::grant::ClusterId;
use call::Shared;
use seen::Seen;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A client of one cluster. Clones share connections and knowledge.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    keeper: Arc<held::Keeper>,
}

/// What a client takes from the world around it. A simulation brings its own.
pub struct Surroundings {
    /// The clock that holders' deadlines are counted on.
    pub clock: Arc<dyn Clock>,
    /// Seeds request ids and jitter; `None` takes the operating system's randomness.
    pub seed: Option<u64>,
    /// How connections are made.
    pub dial: Dial,
}

impl Default for Surroundings {
    /// The machine's boot clock, its randomness, and TCP.
    fn default() -> Self {
        Self {
            clock: Arc::new(BootClock),
            seed: None,
            dial: nodes::tcp(),
        }
    }
}

/// Why a list of endpoints cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointsError {
    /// There is none.
    #[error("no endpoint is given: name at least one node as host:port")]
    Empty,
    /// One is not an address.
    #[error(transparent)]
    Address(#[from] AddressError),
}

impl Client {
    /// A client of the cluster at `endpoints`. It connects with its first call, so this succeeds even
    /// while no node is up.
    ///
    /// # Errors
    ///
    /// When an endpoint is not `host:port`, or there is none.
    pub fn connect<E: AsRef<str>>(
        endpoints: impl IntoIterator<Item = E>,
        options: Options,
    ) -> Result<Self, EndpointsError> {
        Self::connect_in(Surroundings::default(), endpoints, options)
    }

    /// As [`connect`](Self::connect), in other surroundings than the real ones.
    ///
    /// # Errors
    ///
    /// As [`connect`](Self::connect).
    pub fn connect_in<E: AsRef<str>>(
        surroundings: Surroundings,
        endpoints: impl IntoIterator<Item = E>,
        options: Options,
    ) -> Result<Self, EndpointsError> {
        let mut addresses: Vec<Address> = Vec::new();
        for endpoint in endpoints {
            let address = endpoint.as_ref().trim().parse()?;
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        if addresses.is_empty() {
            return Err(EndpointsError::Empty);
        }
        let dice = random::Dice::new(surroundings.seed);
        // Clients begin at different endpoints, so that not all of them meet at the first in the list.
        let start = dice.below(addresses.len());
        let route = route::Route::new(addresses, start);
        let nodes = nodes::Nodes::new(&options, Arc::clone(&surroundings.clock), surroundings.dial);
        let shared = Shared::new(options, surroundings.clock, dice, nodes, route);
        Ok(Self {
            shared: Arc::new(shared),
            keeper: Arc::default(),
        })
    }

    /// The cluster that this client belongs to; `None` before the first answer.
    #[must_use]
    pub fn cluster_id(&self) -> Option<ClusterId> {
        self.seen(|seen| seen.cluster)
    }

    /// Where the leader is, as far as the answers so far have told.
    #[must_use]
    pub fn leader(&self) -> Option<Address> {
        self.shared.known().route.leader().cloned()
    }

    /// How many sends were repeats of an earlier one, over all calls.
    #[must_use]
    pub fn resends(&self) -> u64 {
        self.shared.resends.load(Ordering::Relaxed)
    }

    /// The moment it is now, on the clock that [`Acquired::safe_until`] is counted on.
    #[must_use]
    pub fn now(&self) -> BootInstant {
        self.shared.clock.now()
    }

    fn seen<T>(&self, read: impl FnOnce(&Seen) -> T) -> Option<T> {
        self.shared.known().seen.as_ref().map(read)
    }

    /// The error for an answer that breaks the contract: the call may well have taken effect.
    fn bad_answer(&self, trial: &trial::Trial, unreadable: words::Unreadable) -> Error {
        self.shared.unreadable(trial, unreadable.0)
    }
}
