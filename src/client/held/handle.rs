//! The handle of a lease that is kept alive: what a holder has in hand.

use super::keeper::Keeper;
use super::lease::{Lease, Standing};
use super::lost::Lost;
use super::schedule::LeaseId;
use crate::client::clock::BootInstant;
use crate::client::{Acquired, Client, Error, ReleaseOutcome};
use crate::resource::{Holder, ResourceName};
use crate::sequencer::Sequencer;
use crate::token::Token;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::sync::watch;

/// A resource that is held. Its lease is renewed in the background, at a third of the TTL and then every
/// 100 ms, until this handle is [released](Self::release) or dropped, or the lease is [lost](Self::lost).
///
/// Send [`token`](Self::token) or [`sequencer`](Self::sequencer) along with every request to the resource.
/// Nothing else protects it: this process may be stopped between looking at the lease and writing.
///
/// A handle that was lost stays lost. It is never acquired again behind its back, and a renewal that comes
/// through too late is given back.
#[must_use = "dropping the handle releases the lease"]
pub struct Held {
    client: Client,
    lease: Arc<Lease>,
    id: LeaseId,
    given_back: bool,
}

impl Held {
    pub(super) fn begin(client: &Client, acquired: Acquired) -> Self {
        let lease = Arc::new(Lease::new(acquired, client.now()));
        let id = Keeper::keep(client, Arc::clone(&lease));
        Self {
            client: client.clone(),
            lease,
            id,
            given_back: false,
        }
    }

    /// The fencing token. It never changes, whether or not the lease lives.
    #[must_use]
    pub fn token(&self) -> Token {
        self.lease.acquired.token
    }

    /// Issuer, resource and token together: what a guard wants to see.
    #[must_use]
    pub fn sequencer(&self) -> &Sequencer {
        &self.lease.acquired.sequencer
    }

    /// What is held.
    #[must_use]
    pub fn resource(&self) -> &ResourceName {
        &self.lease.acquired.resource
    }

    /// In whose name.
    #[must_use]
    pub fn holder(&self) -> &Holder {
        &self.lease.acquired.holder
    }

    /// The grant as it was acquired.
    #[must_use]
    pub fn acquired(&self) -> &Acquired {
        &self.lease.acquired
    }

    /// Until when the lease certainly lives, on the clock of [`Client::now`]: the send of the renewal that
    /// was acknowledged last, plus the lease. Nobody else is granted the resource before, unless an
    /// operator revokes it or the same holder asks again.
    ///
    /// `None` once it is lost; and before the first renewal of a grant whose start is not known here (it
    /// came after waiting, or its answer was lost and given again), see [`claimed`](Self::claimed).
    #[must_use]
    pub fn safe_until(&self) -> Option<BootInstant> {
        self.standing().safe_until
    }

    /// Waits until [`safe_until`](Self::safe_until) is another than `known`, and gives it: after each renewal,
    /// and once more when the lease is lost.
    pub async fn safe_until_after(&self, known: Option<BootInstant>) -> Option<BootInstant> {
        let mut changes = self.lease.subscribe();
        let change = |standing: &Standing| {
            let now = standing.safe_until;
            (now != known).then_some(now)
        };
        until(&mut changes, change).await
    }

    /// How much of the lease certainly lies ahead; zero when [`safe_until`](Self::safe_until) is `None`.
    #[must_use]
    pub fn remaining(&self) -> Duration {
        let now = self.client.now();
        let safe_until = self.lease.standing(now).safe_until;
        safe_until.map_or(Duration::ZERO, |until| until.since(now))
    }

    /// Whether it is still held at this moment, by the clock.
    ///
    /// # Errors
    ///
    /// How it was lost.
    pub fn check(&self) -> Result<(), Lost> {
        self.standing().lost().cloned().map_or(Ok(()), Err)
    }

    fn standing(&self) -> Standing {
        self.lease.standing(self.client.now())
    }

    /// Completes when the lease is lost: before it can have been granted to anybody else, also when no node
    /// answers any more. That is a twentieth of the lease (100 ms at most) before
    /// [`safe_until`](Self::safe_until), or as soon as the cluster says that it has ended. After a sleep of
    /// the machine it is the first thing that happens; each look at this future looks at the clock first.
    ///
    /// Of a grant whose start is not known that can be said only once it is [claimed](Self::claimed): it may
    /// have run out before the first renewal arrives. If none is acknowledged it is lost one lease after the
    /// answer came, at the latest.
    ///
    /// Any number of tasks may wait, and the future outlives the handle.
    pub fn lost(&self) -> impl Future<Output = Lost> + Send + use<> {
        let mut changes = self.lease.subscribe();
        let (lease, clock) = (
            Arc::clone(&self.lease),
            Arc::clone(&self.client.shared.clock),
        );
        async move {
            let mut told = pin!(until(&mut changes, |standing| standing.lost().cloned()));
            poll_fn(|context| {
                let standing = lease.standing(clock.now());
                match standing.lost() {
                    Some(lost) => Poll::Ready(lost.clone()),
                    None => told.as_mut().poll(context),
                }
            })
            .await
        }
    }

    /// Completes when less than `left` of the lease is left because renewals do not come through, or when it
    /// is lost: time to finish in good order. `left` should be less than two thirds of the TTL; while all is
    /// well no less is left.
    pub fn running_out(&self, left: Duration) -> impl Future<Output = ()> + Send + use<> {
        let mut changes = self.lease.subscribe();
        let (lease, clock) = (
            Arc::clone(&self.lease),
            Arc::clone(&self.client.shared.clock),
        );
        async move {
            loop {
                changes.mark_unchanged();
                let standing = lease.standing(clock.now());
                let moment = standing.lost_at.minus(left);
                if standing.lost().is_some() || moment <= clock.now() {
                    return;
                }
                tokio::select! {
                    () = clock.sleep_until(moment) => {}
                    // The lease keeps the sender for as long as this future lives.
                    _ = changes.changed() => {}
                }
            }
        }
    }

    /// Waits until [`safe_until`](Self::safe_until) is known. Of most grants it is known at once; one that
    /// came after waiting in line is claimed by the first renewal, which is already on its way.
    ///
    /// # Errors
    ///
    /// When the lease is lost first.
    pub async fn claimed(&self) -> Result<BootInstant, Lost> {
        let mut changes = self.lease.subscribe();
        let known = until(&mut changes, |standing| standing.safe_until);
        tokio::select! {
            biased;
            lost = self.lost() => Err(lost),
            safe_until = known => Ok(safe_until),
        }
    }

    /// Runs `work` for as long as the lease lives, and drops it where it stands when the lease is lost.
    ///
    /// # Errors
    ///
    /// How it was lost. What `work` had sent before may still arrive; the guard refuses it if somebody newer
    /// was there.
    pub async fn while_held<W: Future>(&self, work: W) -> Result<W::Output, Lost> {
        tokio::select! {
            biased;
            lost = self.lost() => Err(lost),
            done = work => Ok(done),
        }
    }

    /// Gives the resource back and tells how that came out. Renewals stop at once. Dropping the future does
    /// not take it back: the release goes on in the background.
    ///
    /// # Errors
    ///
    /// When no node answered in time; the lease then ends with its TTL.
    pub async fn release(mut self) -> Result<ReleaseOutcome, Error> {
        self.given_back = true;
        let answer = Keeper::give_back(&self.client, self.id, &self.lease);
        match answer.await {
            Ok(outcome) => outcome,
            // The runtime that the background ran on has shut down meanwhile.
            Err(_) => {
                let acquired = &self.lease.acquired;
                let token = acquired.token.value();
                self.client
                    .release(&acquired.resource, &acquired.holder, token)
                    .await
            }
        }
    }
}

/// Waits until a look at the standing gives something.
async fn until<T>(
    changes: &mut watch::Receiver<Standing>,
    look: impl Fn(&Standing) -> Option<T>,
) -> T {
    loop {
        if let Some(found) = look(&changes.borrow_and_update()) {
            return found;
        }
        if changes.changed().await.is_err() {
            // Not while somebody has the lease, and whoever waits here has it.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.given_back {
            self.client.keeper.let_go(self.id);
        }
    }
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held")
            .field("sequencer", self.sequencer())
            .field("holder", self.holder())
            .field("safe_until", &self.safe_until())
            .finish_non_exhaustive()
    }
}
