//! The holder's verbs: acquire, renew, release.

use super::ask::Ask;
use super::call::Answer;
use super::clock::BootInstant;
use super::error::{Error, ErrorKind};
use super::method::{Acquire, Inspect, Method, Release, Renew};
use super::outcome::{AcquireOutcome, Acquired, ReleaseOutcome, RenewOutcome, Renewal};
use super::trial::Trial;
use super::words::{self, Unreadable};
use super::{Client, seen::Seen};
use crate::grant::{AskedAt, RequestId, Ttl};
use crate::resource::{Holder, ResourceName};
use crate::sequencer::Sequencer;
use crate::token::TokenValue;
use crate::wire::v1::{self, acquire_response, release_response, renew_outcome};
use std::time::Duration;

impl Client {
    /// Asks for `resource` in the name of `holder`.
    ///
    /// Retries under one request id, so it takes effect at most once. Dropping the future is safe: a
    /// grant that nobody learned of ends with its TTL. To go on after a failure, use
    /// [`acquire_with`](Self::acquire_with).
    ///
    /// # Errors
    ///
    /// See [`Error::may_retry`] and [`Error::can_have_had_effect`].
    pub async fn acquire(
        &self,
        resource: &ResourceName,
        holder: &Holder,
        ttl: Ttl,
    ) -> Result<AcquireOutcome, Error> {
        let mut ask = self.ask(resource.clone(), holder.clone(), ttl);
        self.acquire_with(&mut ask).await
    }

    /// An asking for `resource` under a request id of its own, for [`acquire_with`](Self::acquire_with).
    #[must_use]
    pub fn ask(&self, resource: ResourceName, holder: Holder, ttl: Ttl) -> Ask {
        Ask::new(resource, holder, ttl, self.request_id())
    }

    /// Sends `ask`, again if it was sent before. All sends of one [`Ask`] have one effect together.
    ///
    /// # Errors
    ///
    /// See [`Error::may_retry`] and [`Error::can_have_had_effect`]; `ask` may be passed again.
    pub async fn acquire_with(&self, ask: &mut Ask) -> Result<AcquireOutcome, Error> {
        let mut trial = self.shared.trial::<Acquire>();
        // An earlier call may have left its outcome open; nothing that fails in this one closes it.
        trial.open = ask.open;
        let outcome = self.acquire_within(&mut trial, ask).await;
        if matches!(
            outcome,
            Ok(AcquireOutcome::Held(_) | AcquireOutcome::Ended(_))
        ) {
            // The cluster remembers a refusal, so this id is never granted: the next call is a new one.
            ask.begin_anew(self.request_id(), None);
        }
        ask.open = outcome.as_ref().is_err_and(Error::can_have_had_effect);
        outcome
    }

    async fn acquire_within(
        &self,
        trial: &mut Trial,
        ask: &mut Ask,
    ) -> Result<AcquireOutcome, Error> {
        loop {
            self.shared.verify(trial).await?;
            if ask.key.asked_at.is_none() {
                ask.key.asked_at = self.seen(Seen::asked_at);
            }
            let answer = self
                .shared
                .call::<Acquire>(trial, |now| {
                    ask.count_send(now);
                    request(ask)
                })
                .await;
            match answer {
                Ok(answer) => return self.acquired(ask, answer, trial),
                Err(error) if *error.kind() == ErrorKind::TooOld => {
                    self.begin_anew(ask, trial).await?
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// The cluster may have forgotten the id, and stored nothing: what an earlier send of it did is not
    /// known. A new id supersedes it, and needs a fresh moment to go with it.
    async fn begin_anew(&self, ask: &mut Ask, trial: &mut Trial) -> Result<(), Error> {
        trial.tried.clear();
        let mut look = self.shared.trial_within::<Inspect>(trial);
        let resource = ask.resource.to_string();
        self.shared
            .call::<Inspect>(&mut look, |_| v1::InspectRequest {
                holder: String::new(),
                resource: resource.clone(),
            })
            .await
            .map_err(|error| error.on_behalf_of(trial.operation, true))?;
        ask.begin_anew(self.request_id(), self.seen(Seen::asked_at));
        Ok(())
    }

    fn acquired(
        &self,
        ask: &Ask,
        answer: Answer<v1::AcquireResponse>,
        trial: &Trial,
    ) -> Result<AcquireOutcome, Error> {
        use acquire_response::Outcome;
        let read = || -> Result<AcquireOutcome, Unreadable> {
            Ok(match words::required(answer.response.outcome, "outcome")? {
                Outcome::Granted(granted) => AcquireOutcome::Granted(self.granted(ask, granted)?),
                Outcome::Held(held) => AcquireOutcome::Held(words::held(held)?),
                Outcome::Ended(ended) => AcquireOutcome::Ended(words::ended(ended)?),
                Outcome::Left(_) => return Err(Unreadable("left, without waiting".to_owned())),
            })
        };
        read().map_err(|unreadable| self.bad_answer(trial, unreadable))
    }

    fn granted(&self, ask: &Ask, granted: v1::Granted) -> Result<Acquired, Unreadable> {
        let token = crate::wire::words::token(granted.token)?;
        let lease = Duration::from_millis(granted.lease_ms);
        let issuer = words::required(self.seen(|seen| seen.issuer.clone()), "issuer")?;
        // A grant out of a queue, or an answer given before, began at a moment that is not known here.
        let start_is_known = !granted.after_wait && !granted.replayed;
        let start = ask.known_start().filter(|_| start_is_known);
        Ok(Acquired {
            resource: ask.resource.clone(),
            holder: ask.holder.clone(),
            token,
            sequencer: Sequencer {
                issuer,
                resource: ask.resource.clone(),
                token: token.value(),
            },
            lease,
            replayed: granted.replayed,
            granted_at_unix_ms: granted.granted_at_unix_ms,
            safe_until: start.map(|start| start.plus(lease)),
        })
    }

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

    fn request_id(&self) -> RequestId {
        RequestId::from(self.shared.dice.request_id())
    }
}

fn request(ask: &Ask) -> v1::AcquireRequest {
    v1::AcquireRequest {
        resource: ask.resource.to_string(),
        holder: ask.holder.to_string(),
        ttl_ms: ask.ttl.as_ms(),
        request_id: ask.key.request_id.as_bytes().to_vec().into(),
        attempt: ask.key.attempts,
        asked_at: ask
            .key
            .asked_at
            .map(|AskedAt { cluster, applied }| v1::AskedAt {
                cluster_id: cluster.to_string(),
                applied_index: applied,
            }),
        wait_ms: 0,
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
