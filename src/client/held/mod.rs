//! Holding: acquire, keep alive in the background, know at once when it is lost, give back.
//!
//! ```no_run
//! # use fencepost::client::{Client, Options};
//! # use std::time::Duration;
//! # async fn work(_: fencepost::token::Token) -> Result<(), Box<dyn std::error::Error>> { Ok(()) }
//! # async fn example(client: Client) -> Result<(), Box<dyn std::error::Error>> {
//! let (resource, holder) = ("nightly-report".parse()?, "worker-7".parse()?);
//! let held = client.hold(&resource, &holder).wait(Duration::from_secs(60)).await?.held()?;
//! held.while_held(work(held.token())).await??;
//! held.release().await?;
//! # Ok(())
//! # }
//! ```
//!
//! # What it promises
//!
//! * The token is there at once. [`Held::safe_until`] says no more than is known: it counts from the send of
//!   the renewal that was acknowledged, or from the first send of the request, never from a repeat.
//! * [`Held::lost`] completes before the lease ends, and so before anybody else can have been granted the
//!   resource, also when nobody answers, and on a clock that goes on while the machine sleeps. The first thing
//!   that is looked at, always, is the clock. One thing cannot be told in time: a grant that was taken away, by
//!   an operator's revocation or by the same holder elsewhere. The next renewal tells it.
//! * Lost is final. No handle is acquired again behind its holder's back, and a success that comes too late
//!   is released.
//! * Nothing is left behind: a cancelled [`Hold`] has no task, and what it was granted unheard ends with its
//!   TTL. Dropping a [`Held`] releases it in the background.
//! * One task a client and up to 400 leases a message: thousands of leases cost little.
//!
//! # What it does not
//!
//! Stop your code. Between a look at the lease and the write that follows, the process may stand still for a
//! minute. Only the guard at the resource refuses that write, by the token.

mod handle;
mod holders;
mod keeper;
mod lease;
mod lost;
mod schedule;

pub use handle::Held;
pub use holders::{Holders, Holding};
pub(super) use keeper::Keeper;
pub use lost::{Lost, LostHow};

use super::outcome::{AcquireOutcome, Acquired, Ended, HeldBy};
use super::{Client, Error};
use crate::grant::{LeftHow, Ttl};
use crate::resource::{Holder, ResourceName};
use std::fmt;
use std::pin::Pin;
use std::time::Duration;

/// What is left of a wait is worth another place in line from here on.
const WORTH_WAITING: Duration = Duration::from_secs(1);

/// The pause before another campaign.
const AGAIN: Duration = Duration::from_secs(1);

/// An acquire that is to be kept alive; see [`Client::hold`]. Await it.
#[derive(Clone)]
#[must_use = "nothing is asked for until it is awaited"]
pub struct Hold {
    client: Client,
    resource: ResourceName,
    holder: Holder,
    ttl: Ttl,
    wait: Duration,
}

/// How a [`Hold`] came out.
#[derive(Debug)]
#[must_use = "dropping a handle releases its lease"]
pub enum HoldOutcome {
    /// It is yours, and kept alive until the handle goes.
    Held(Held),
    /// Somebody else has it; nothing has changed.
    Refused(HeldBy),
    /// It was granted, and that grant had ended before its answer got through.
    Ended(Ended),
    /// It stood in line, and its place ended without a grant.
    Left(LeftHow),
}

/// Why a resource is not held.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotHeld {
    /// Somebody else has it.
    #[error("it is {0}")]
    Refused(HeldBy),
    /// It was granted, and that grant had ended before its answer got through.
    #[error("it was granted with token {}, and that grant is {}", .0.token, .0.how)]
    Ended(Ended),
    /// It stood in line, and its place ended without a grant.
    #[error("its place in line was {0}")]
    Left(LeftHow),
}

impl HoldOutcome {
    /// The handle, or why there is none.
    ///
    /// # Errors
    ///
    /// When it is not held.
    pub fn held(self) -> Result<Held, NotHeld> {
        match self {
            Self::Held(held) => Ok(held),
            Self::Refused(by) => Err(NotHeld::Refused(by)),
            Self::Ended(ended) => Err(NotHeld::Ended(ended)),
            Self::Left(how) => Err(NotHeld::Left(how)),
        }
    }
}

impl Client {
    /// Acquires `resource` in the name of `holder` and keeps it: the lease is renewed in the background until
    /// the handle is released, dropped or lost.
    ///
    /// The same holder asking again supersedes its own grant, so give each process, or each task that
    /// competes, a holder's name of its own.
    pub fn hold(&self, resource: &ResourceName, holder: &Holder) -> Hold {
        Hold {
            client: self.clone(),
            resource: resource.clone(),
            holder: holder.clone(),
            ttl: Ttl::default(),
            wait: Duration::ZERO,
        }
    }

    /// Keeps a grant alive that was acquired by [`acquire_with`](Self::acquire_with), from this moment on.
    /// Call it at once: what is not renewed runs out.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn keep(&self, acquired: Acquired) -> Held {
        Held::begin(self, acquired)
    }
}

impl Hold {
    /// How long the lease lives without a renewal, 100 ms to 24 h; 30 s unless set. A holder that dies blocks
    /// the resource for that long; one that is cut off or paused has two thirds of it to come back.
    pub fn ttl(mut self, ttl: Ttl) -> Self {
        self.ttl = ttl;
        self
    }

    /// Stands in line for at most this long when somebody else has it, up to 24 h; zero, which is the default,
    /// does not wait.
    ///
    /// A place that the cluster took for deserted, because it could not reach the node that this client
    /// waited at, is asked for anew for the rest of the time, at the end of the line.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Campaigns: stands in line for as long as it takes, through elections and outages, and joins the line
    /// again whenever its place ended. The [wait](Self::wait), if one is set, is that of one place.
    ///
    /// Dropping the future is safe, and leaves the line.
    ///
    /// # Errors
    ///
    /// Those that trying again does not mend.
    pub async fn until_held(mut self) -> Result<Held, Error> {
        if self.wait.is_zero() {
            self.wait = Duration::from_millis(crate::limits::WAIT_MS_MAX);
        }
        loop {
            match self.clone().await {
                Ok(HoldOutcome::Held(held)) => return Ok(held),
                // Somebody else of the same name has taken the place over, or withdrawn it, or the grant ended
                // unheard. Not at once again: two of one name would chase each other.
                Ok(_) => tokio::time::sleep(AGAIN).await,
                Err(error) if error.may_retry() => tokio::time::sleep(AGAIN).await,
                Err(error) => return Err(error),
            }
        }
    }

    async fn ask(self) -> Result<HoldOutcome, Error> {
        let client = self.client;
        let begin = client.now();
        let mut wait = self.wait;
        loop {
            let ask = client.ask(self.resource.clone(), self.holder.clone(), self.ttl);
            let outcome = client.acquire_with(&mut ask.wait(wait)).await?;
            wait = self.wait.saturating_sub(client.now().since(begin));
            // From the answer to the handle there is no await: whoever drops this future has left nothing
            // behind that would be renewed.
            return Ok(match outcome {
                AcquireOutcome::Granted(acquired) => HoldOutcome::Held(client.keep(acquired)),
                AcquireOutcome::Held(by) => HoldOutcome::Refused(by),
                AcquireOutcome::Ended(ended) => HoldOutcome::Ended(ended),
                AcquireOutcome::Left(LeftHow::Detached) if wait >= WORTH_WAITING => continue,
                AcquireOutcome::Left(how) => HoldOutcome::Left(how),
            });
        }
    }
}

impl IntoFuture for Hold {
    type Output = Result<HoldOutcome, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    /// Asks, and goes on through elections and unreachable nodes for as long as the client's options say.
    /// Dropping the future is safe.
    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.ask())
    }
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold")
            .field("resource", &self.resource)
            .field("holder", &self.holder)
            .field("ttl", &self.ttl)
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}
