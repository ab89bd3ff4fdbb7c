//! Asking for a resource, and waiting in line for it.

use super::ask::Ask;
use super::call::Answer;
use super::error::{Error, ErrorKind};
use super::method::{Acquire, Inspect};
use super::outcome::{AcquireOutcome, Acquired};
use super::trial::Trial;
use super::withdraw::IfDropped;
use super::words::{self, Unreadable};
use super::{Client, seen::Seen};
use crate::grant::{RequestId, Ttl};
use crate::resource::{Holder, ResourceName};
use crate::sequencer::Sequencer;
use crate::wire::v1::{self, acquire_response};
use std::time::Duration;

impl Client {
    /// Asks for `resource` in the name of `holder`, without waiting in line.
    ///
    /// Retries under one request id, so it takes effect at most once. Dropping the future is safe: see
    /// [`acquire_with`](Self::acquire_with), which also waits, and goes on after a failure.
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
    /// With a [wait](Ask::wait) it stands in line, first come first served, for as long as that. A lost
    /// connection, a node that has no leader, an election: it comes back at another node under the same
    /// request id, which keeps its place as long as it is back within 2 s. Without a quorum it goes on
    /// trying until the wait and the [timeout](super::Options::timeout) are over.
    ///
    /// It never joins a line twice behind your back: a place that was lost (because no node that the
    /// cluster could reach had this call for 2 s) is told as `Left(Detached)`. Whether to stand at the
    /// end of the line is yours to say; call again with the same `ask`, which then has a new request id.
    ///
    /// **Dropping the future** gives up. In the background it leaves the line, or releases the grant if
    /// it had come to that ([`settled`](Self::settled) waits for it). If no node can be reached to say
    /// so, the grant ends with its TTL, or after 2 s if it came out of the line.
    ///
    /// ```no_run
    /// # use fencepost::client::{AcquireOutcome, Client};
    /// # use fencepost::grant::Ttl;
    /// # use std::time::Duration;
    /// # async fn example(client: Client) -> Result<(), Box<dyn std::error::Error>> {
    /// let mut ask = client
    ///     .ask("nightly-report".parse()?, "worker-7".parse()?, Ttl::default())
    ///     .wait(Duration::from_secs(60));
    /// match client.acquire_with(&mut ask).await? {
    ///     AcquireOutcome::Granted(acquired) => {
    ///         // A grant that came out of the line lives 2 s until its first renewal: send that at once.
    ///         client.renew(&[acquired.renewal()]).await?;
    ///     }
    ///     AcquireOutcome::Left(how) => println!("not granted within a minute: {how}"),
    ///     other => println!("{other:?}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// See [`Error::may_retry`] and [`Error::can_have_had_effect`]; `ask` may be passed again.
    pub async fn acquire_with(&self, ask: &mut Ask) -> Result<AcquireOutcome, Error> {
        let mut trial = self.shared.trial::<Acquire>().waiting(ask.wait);
        // An earlier call may have left its outcome open; nothing that fails in this one closes it.
        trial.open = ask.open;
        let mut asking = IfDropped::withdraw(self, ask);
        let outcome = self.acquire_within(&mut trial, asking.ask()).await;
        let ask = asking.over();
        if is_spent(&outcome) {
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
                    ask.request()
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
    /// known. A new id supersedes its grant, or takes over its place, for the rest of the wait, and needs
    /// a fresh moment to go with it.
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
        ask.wait_that_is_sent = trial.rest_of_wait(self.shared.clock.now());
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
                Outcome::Left(left) => AcquireOutcome::Left(words::left(left)?),
            })
        };
        read().map_err(|unreadable| self.bad_answer(trial, unreadable))
    }

    pub(super) fn granted(&self, ask: &Ask, granted: v1::Granted) -> Result<Acquired, Unreadable> {
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
            after_wait: granted.after_wait,
            replayed: granted.replayed,
            granted_at_unix_ms: granted.granted_at_unix_ms,
            safe_until: start.map(|start| start.plus(lease)),
        })
    }

    pub(super) fn request_id(&self) -> RequestId {
        RequestId::from(self.shared.dice.request_id())
    }
}

/// Whether the id that was asked under can come to nothing any more, so that the next call takes a new one.
/// The cluster remembers refusals, those by its limits too.
fn is_spent(outcome: &Result<AcquireOutcome, Error>) -> bool {
    match outcome {
        Ok(AcquireOutcome::Granted(_)) => false,
        Ok(AcquireOutcome::Held(_) | AcquireOutcome::Ended(_) | AcquireOutcome::Left(_)) => true,
        Err(error) => *error.kind() == ErrorKind::Exhausted && !error.can_have_had_effect(),
    }
}
