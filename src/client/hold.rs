//! What a holder does with what it has: renew, release.

use super::Client;
use super::clock::BootInstant;
use super::error::Error;
use super::method::{Method, Release, Renew};
use super::outcome::{ReleaseOutcome, RenewOutcome, Renewal};
use super::trial::Trial;
use super::words::{self, Unreadable};
use crate::grant::Ttl;
use crate::resource::{Holder, ResourceName};
use crate::token::TokenValue;
use crate::wire::v1::{self, release_response, renew_outcome};
use std::time::Duration;

impl Client {
    /// Keeps grants alive, 1 to 400 in one call; each gets its own outcome, in the order of `renewals`.
    ///
    /// # Errors
    ///
    /// A failure says nothing about any of the grants: renew again, it is safe to repeat.
    pub async fn renew(&self, renewals: &[Renewal]) -> Result<Vec<RenewOutcome>, Error> {
        self.renew_within(self.shared.trial::<Renew>(), renewals)
            .await
    }

    /// As [`renew`](Self::renew), with less patience than the options have: for a silent node at first, and
    /// in all.
    pub(super) async fn renew_in_haste(
        &self,
        renewals: &[Renewal],
        first_send: Duration,
        within: Duration,
    ) -> Result<Vec<RenewOutcome>, Error> {
        let within = within.min(self.shared.options.timeout);
        let trial = Trial::new(Renew::NAME, Renew::REPEAT, self.now(), within);
        self.renew_within(trial.hasten(first_send), renewals).await
    }

    async fn renew_within(
        &self,
        mut trial: Trial,
        renewals: &[Renewal],
    ) -> Result<Vec<RenewOutcome>, Error> {
        let request = |_: BootInstant| v1::RenewRequest {
            items: renewals.iter().map(renew_item).collect(),
        };
        let answer = self.shared.call::<Renew>(&mut trial, request).await?;
        let outcomes = answer.response.outcomes;
        if outcomes.len() != renewals.len() {
            let count = format!(
                "{} outcomes for {} renewals",
                outcomes.len(),
                renewals.len()
            );
            return Err(self.bad_answer(&trial, Unreadable(count)));
        }
        let read = outcomes
            .into_iter()
            .map(|outcome| renewed(outcome, answer.sent));
        read.collect::<Result<_, _>>()
            .map_err(|unreadable| self.bad_answer(&trial, unreadable))
    }

    /// Gives `resource` back. Never touches a grant with another token.
    ///
    /// # Errors
    ///
    /// It is safe to repeat: a release that already happened says [`ReleaseOutcome::Released`].
    pub async fn release(
        &self,
        resource: &ResourceName,
        holder: &Holder,
        token: TokenValue,
    ) -> Result<ReleaseOutcome, Error> {
        use release_response::Outcome;
        let mut trial = self.shared.trial::<Release>();
        let request = |_: BootInstant| v1::ReleaseRequest {
            resource: resource.to_string(),
            holder: holder.to_string(),
            token: token.get(),
        };
        let answer = self.shared.call::<Release>(&mut trial, request).await?;
        let read = || -> Result<ReleaseOutcome, Unreadable> {
            Ok(match words::required(answer.response.outcome, "outcome")? {
                Outcome::Released(_) => ReleaseOutcome::Released,
                Outcome::Ended(ended) => ReleaseOutcome::Ended(words::ended(ended)?),
                Outcome::Unknown(_) => ReleaseOutcome::Unknown,
            })
        };
        read().map_err(|unreadable| self.bad_answer(&trial, unreadable))
    }
}

fn renew_item(renewal: &Renewal) -> v1::RenewItem {
    v1::RenewItem {
        resource: renewal.resource.to_string(),
        holder: renewal.holder.to_string(),
        token: renewal.token.get(),
        ttl_ms: renewal.ttl.map_or(0, Ttl::as_ms),
    }
}

fn renewed(outcome: v1::RenewOutcome, sent: BootInstant) -> Result<RenewOutcome, Unreadable> {
    use renew_outcome::Outcome;
    Ok(match words::required(outcome.outcome, "outcome")? {
        Outcome::Renewed(renewed) => {
            let lease = Duration::from_millis(renewed.lease_ms);
            RenewOutcome::Renewed {
                lease,
                safe_until: sent.plus(lease),
            }
        }
        Outcome::Ended(ended) => RenewOutcome::Ended(words::ended(ended)?),
        Outcome::Unknown(_) => RenewOutcome::Unknown,
    })
}
