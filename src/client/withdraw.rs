//! Leaving the line: on purpose, and when whoever asked has gone.

use super::Client;
use super::ask::{Ask, Place};
use super::call::Shared;
use super::error::Error;
use super::method::{Release, Withdraw};
use super::outcome::WithdrawOutcome;
use super::words::{self, Unreadable};
use crate::grant::LeftHow;
use crate::wire::v1::{self, withdraw_response::Outcome};
use std::sync::Arc;

use tokio::runtime::Handle;
use tracing::debug;

impl Client {
    /// Takes `ask` back: leaves the line, if it stands in one. A grant is never touched; if there is one
    /// already, the answer has it, to be [released](Self::release).
    ///
    /// Copies of the request that are still on their way have no effect when they arrive. Dropping the
    /// future of [`acquire_with`](Self::acquire_with) does the same in the background; this is for askings
    /// that another process began ([`Ask::resume`]), or that ended with an unknown outcome.
    ///
    /// # Errors
    ///
    /// It is safe to repeat.
    pub async fn withdraw(&self, ask: &mut Ask) -> Result<WithdrawOutcome, Error> {
        if ask.key.attempts == 0 {
            return Ok(WithdrawOutcome::Left(LeftHow::Withdrawn));
        }
        let mut trial = self.shared.trial::<Withdraw>();
        let request = |_| ask.place().request();
        let answer = self.shared.call::<Withdraw>(&mut trial, request).await?;
        let read = || -> Result<WithdrawOutcome, Unreadable> {
            Ok(match words::required(answer.response.outcome, "outcome")? {
                Outcome::Left(left) => WithdrawOutcome::Left(words::left(left)?),
                Outcome::Granted(granted) => {
                    // When it began is not known here.
                    let granted = v1::Granted {
                        replayed: true,
                        ..granted
                    };
                    WithdrawOutcome::Granted(self.granted(ask, granted)?)
                }
                Outcome::Ended(ended) => WithdrawOutcome::Ended(words::ended(ended)?),
                Outcome::Stale(_) => WithdrawOutcome::Stale,
                Outcome::Refused(_) => WithdrawOutcome::Refused,
            })
        };
        let outcome = read().map_err(|unreadable| self.bad_answer(&trial, unreadable))?;
        if !matches!(
            outcome,
            WithdrawOutcome::Granted(_) | WithdrawOutcome::Stale
        ) {
            ask.begin_anew(self.request_id(), None);
            ask.open = false;
        }
        Ok(outcome)
    }

    /// Waits until every acquire whose future was dropped has been taken back, or has been given up on
    /// after the [timeout](super::Options::timeout). A program that ends right after giving up calls this
    /// first.
    pub async fn settled(&self) {
        self.shared.background.wait().await;
    }
}

/// Takes an asking back when its future is dropped in the middle.
pub(super) struct IfDropped<'a> {
    client: &'a Client,
    /// `None` once it is over.
    ask: Option<&'a mut Ask>,
    /// How often it had been sent before.
    attempts: u32,
    /// Whoever drops a future may do so anywhere; the work goes to where it was polled.
    runtime: Handle,
}

impl<'a> IfDropped<'a> {
    /// Must be called within a runtime.
    pub(super) fn withdraw(client: &'a Client, ask: &'a mut Ask) -> Self {
        Self {
            client,
            attempts: ask.key.attempts,
            ask: Some(ask),
            runtime: Handle::current(),
        }
    }

    pub(super) fn ask(&mut self) -> &mut Ask {
        self.ask.as_mut().expect("it is there until it is over")
    }

    /// The asking has come to an end of its own.
    pub(super) fn over(mut self) -> &'a mut Ask {
        self.ask.take().expect("it is there until it is over")
    }
}

impl Drop for IfDropped<'_> {
    fn drop(&mut self) {
        let Some(ask) = self.ask.take() else {
            return;
        };
        if ask.key.attempts == self.attempts {
            return;
        }
        let place = ask.place();
        // The id ends as withdrawn, so the next call takes a new one.
        ask.begin_anew(self.client.request_id(), None);
        ask.open = false;
        let shared = Arc::clone(&self.client.shared);
        let background = &self.client.shared.background;
        background.spawn_on(take_back(shared, place), &self.runtime);
    }
}

/// Leaves the line, and gives back what was granted before that.
async fn take_back(shared: Arc<Shared>, place: Place) {
    let mut trial = shared.trial::<Withdraw>();
    let request = |_| place.request();
    let answer = shared.call::<Withdraw>(&mut trial, request).await;
    let outcome = answer.map(|answer| answer.response.outcome);
    let failed = match outcome {
        Ok(Some(Outcome::Granted(granted))) => {
            let mut trial = shared.trial::<Release>();
            let token = granted.token.map_or(0, |token| token.value);
            let request = |_| v1::ReleaseRequest {
                resource: place.resource.to_string(),
                holder: place.holder.to_string(),
                token,
            };
            shared.call::<Release>(&mut trial, request).await.err()
        }
        Ok(_) => None,
        Err(error) => Some(error),
    };
    if let Some(error) = failed {
        // The cluster ends it without us: nobody renews.
        let (resource, holder) = (&place.resource, &place.holder);
        debug!(%resource, %holder, %error, "an acquire that was dropped could not be taken back");
    }
}
