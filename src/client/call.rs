//! One call: send, and send again where that is safe, until an answer comes or time is up.

use super::address::Address;
use super::backoff;
use super::clock::{BootInstant, Clock};
use super::error::{Cause, Error, ErrorKind, Verdict, leaves_open, verdict};
use super::method::Method;
use super::nodes::Nodes;
use super::options::Options;
use super::random::Dice;
use super::route::Route;
use super::seen::{self, Mismatch, Seen, Unfit};
use super::trial::{Fault, Next, Trial};
use crate::wire::failure::{Failure, Reason};
use crate::wire::v1::ResponseHeader;
use std::error::Error as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tonic::{Code, ConnectError, Request, Status};

/// What all clones of one client share.
pub(crate) struct Shared {
    pub(crate) options: Options,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) dice: Dice,
    pub(crate) nodes: Nodes,
    pub(crate) resends: AtomicU64,
    /// All endpoints that could be asked belong to one cluster.
    pub(crate) verified: AtomicBool,
    /// One task verifies, the others wait for it.
    pub(crate) verifying: tokio::sync::Mutex<()>,
    known: Mutex<Known>,
}

/// What the answers so far have taught.
pub(crate) struct Known {
    pub(crate) route: Route,
    pub(crate) seen: Option<Seen>,
    /// Two clusters among the endpoints: every further call is refused.
    mismatch: Option<Box<Mismatch>>,
}

/// An answer, and when the send that it belongs to left.
pub(crate) struct Answer<R> {
    pub(crate) response: R,
    pub(crate) sent: BootInstant,
}

impl Shared {
    pub(crate) fn new(
        options: Options,
        clock: Arc<dyn Clock>,
        dice: Dice,
        nodes: Nodes,
        route: Route,
    ) -> Self {
        Self {
            options,
            clock,
            dice,
            nodes,
            resends: AtomicU64::new(0),
            verified: AtomicBool::new(false),
            verifying: tokio::sync::Mutex::new(()),
            known: Mutex::new(Known {
                route,
                seen: None,
                mismatch: None,
            }),
        }
    }

    pub(crate) fn known(&self) -> MutexGuard<'_, Known> {
        // Each change under the lock is complete in itself, so a panic elsewhere leaves it whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn trial<M: Method>(&self) -> Trial {
        Trial::new(M::NAME, M::REPEAT, self.clock.now(), self.options.timeout)
    }

    /// A trial of another call that takes its time out of `trial`'s.
    pub(crate) fn trial_within<M: Method>(&self, trial: &Trial) -> Trial {
        let now = self.clock.now();
        Trial::new(M::NAME, M::REPEAT, now, trial.remaining(now))
    }

    /// Carries `M` out. `prepare` makes the request of each send and is told when it leaves.
    ///
    /// # Errors
    ///
    /// After the trial's time, or at once when a failure is final.
    pub(crate) async fn call<M: Method>(
        self: &Arc<Self>,
        trial: &mut Trial,
        mut prepare: impl FnMut(BootInstant) -> M::Request + Send,
    ) -> Result<Answer<M::Response>, Error> {
        self.verify(trial).await?;
        loop {
            let sent = self.clock.now();
            let limit = trial.limit(self.options.attempt_timeout, sent);
            if limit.is_zero() {
                return Err(self.out_of_time(trial));
            }
            let next = self.known().route.next(&trial.tried, sent);
            let Some(address) = next else {
                self.pause(trial).await?;
                continue;
            };
            trial.attempts += 1;
            if trial.attempts > 1 {
                self.resends.fetch_add(1, Ordering::Relaxed);
            }
            match self.once::<M>(&address, prepare(sent), limit).await {
                Ok(response) => return Ok(Answer { response, sent }),
                Err(fault) => {
                    if let Some(kind) = trial.take(address, fault) {
                        return Err(self.end(trial, kind));
                    }
                }
            }
            if trial.must_wait() {
                self.pause(trial).await?;
            }
        }
    }

    /// Sends `request` to `address` once and waits for at most `limit`.
    pub(crate) async fn once<M: Method>(
        &self,
        address: &Address,
        request: M::Request,
        limit: Duration,
    ) -> Result<M::Response, Fault> {
        let mut request = Request::new(request);
        request.set_timeout(limit);
        let answer =
            tokio::time::timeout(limit, M::send(self.nodes.channel(address), request)).await;
        let now = self.clock.now();
        match answer {
            Ok(Ok(response)) => {
                let response = response.into_inner();
                self.accept(M::header(&response), address, now)?;
                Ok(response)
            }
            Ok(Err(status)) => Err(self.failed(&status, address, now)),
            Err(_) => {
                self.known().route.put_aside(address, now);
                Err(silence(address, limit))
            }
        }
    }

    /// Waits between two rounds, within the trial's time.
    pub(crate) async fn pause(&self, trial: &mut Trial) -> Result<(), Error> {
        let (wait, round) = trial.new_round();
        let delay = backoff::delay(wait, round, self.dice.fraction());
        let remaining = trial.remaining(self.clock.now());
        if remaining <= delay {
            // Nothing can come of waiting until the end: say now what is known. The trial remembers
            // what the wait was for.
            trial.restore(wait);
            return Err(self.out_of_time(trial));
        }
        tokio::time::sleep(delay).await;
        Ok(())
    }

    /// Refuses when the endpoints are known to belong to different clusters.
    pub(crate) fn refuse_mismatch(&self, trial: &Trial) -> Result<(), Error> {
        let mismatch = self.known().mismatch.clone();
        mismatch.map_or(Ok(()), |mismatch| {
            Err(self.end(trial, ErrorKind::ClusterMismatch(mismatch)))
        })
    }

    pub(crate) fn end(&self, trial: &Trial, kind: ErrorKind) -> Error {
        let leader = self.known().route.leader().cloned();
        trial.end(kind, leader, self.clock.now())
    }

    /// The error of a call whose answer has come, and breaks the contract beyond its header.
    pub(crate) fn unreadable(&self, trial: &Trial, detail: String) -> Error {
        let open = trial.changes_things();
        let cause = Cause::Unreadable { detail };
        self.end(trial, ErrorKind::BadAnswer)
            .with_effect(open)
            .because(Some(cause), None)
    }

    pub(crate) fn out_of_time(&self, trial: &Trial) -> Error {
        let leader = self.known().route.leader().cloned();
        trial.out_of_time(leader, self.clock.now())
    }

    /// Checks the header of an answer, and learns from it.
    fn accept(
        &self,
        header: Option<&ResponseHeader>,
        address: &Address,
        now: BootInstant,
    ) -> Result<(), Fault> {
        let mut known = self.known();
        let Known {
            route,
            seen,
            mismatch,
        } = &mut *known;
        let unfit = match seen::check(seen, header, address) {
            Ok(()) => {
                if let Some(leader) = header.and_then(|header| header.leader.as_ref()) {
                    route.learn_leader(&leader.address, Some(leader.term), now);
                }
                return Ok(());
            }
            Err(unfit) => unfit,
        };
        let address = address.clone();
        Err(match unfit {
            Unfit::Forming => {
                route.pass_over(&address);
                Fault {
                    cause: Cause::Forming { address },
                    open: false,
                    next: Next::Elsewhere,
                }
            }
            Unfit::Other(_) if route.distrust(&address) => {
                let detail = "it belongs to another cluster".to_owned();
                Fault {
                    cause: Cause::Broken { address, detail },
                    open: true,
                    next: Next::Elsewhere,
                }
            }
            Unfit::Other(found) => {
                *mismatch = Some(found.clone());
                let detail = "it belongs to another cluster".to_owned();
                let next = Next::Stop(ErrorKind::ClusterMismatch(found));
                Fault {
                    cause: Cause::Broken { address, detail },
                    open: true,
                    next,
                }
            }
            Unfit::Malformed(detail) => {
                let detail = detail.to_owned();
                let next = Next::Stop(ErrorKind::BadAnswer);
                Fault {
                    cause: Cause::Broken { address, detail },
                    open: true,
                    next,
                }
            }
        })
    }

    /// Reads a status that is not OK, and learns from it.
    fn failed(&self, status: &Status, address: &Address, now: BootInstant) -> Fault {
        let mut known = self.known();
        if let Some(failure) = Failure::from_status(status) {
            if matches!(verdict(&failure), Verdict::Elsewhere) {
                known.route.pass_over(address);
            }
            if let Some(leader) = &failure.leader {
                known.route.learn_leader(leader, None, now);
            }
            return told(&failure, address);
        }
        known.route.put_aside(address, now);
        let address = address.clone();
        if never_sent(status) {
            let detail = innermost(status);
            let cause = Cause::Unreachable { address, detail };
            return Fault {
                cause,
                open: false,
                next: Next::Elsewhere,
            };
        }
        let detail = format!("{:?}: {}", status.code(), status.message());
        let next = match status.code() {
            // Nothing on the way, nor another node, would answer otherwise.
            Code::Unimplemented | Code::InvalidArgument | Code::OutOfRange => {
                Next::Stop(ErrorKind::BadAnswer)
            }
            _ => Next::Elsewhere,
        };
        Fault {
            cause: Cause::Broken { address, detail },
            open: true,
            next,
        }
    }
}

/// What a failure that the node itself explained means.
fn told(failure: &Failure, address: &Address) -> Fault {
    let next = match verdict(failure) {
        Verdict::Final(kind) => Next::Stop(kind),
        Verdict::Elsewhere => Next::Elsewhere,
        Verdict::Later(after) => Next::Later(after),
    };
    Fault {
        cause: Cause::Told {
            address: address.clone(),
            reason: Reason::name(failure.reason),
            message: failure.message.clone(),
        },
        open: leaves_open(failure),
        next,
    }
}

fn silence(address: &Address, waited: Duration) -> Fault {
    Fault {
        cause: Cause::NoAnswer {
            address: address.clone(),
            waited,
        },
        open: true,
        next: Next::Elsewhere,
    }
}

/// Whether no connection could be made, so that nothing has left this machine.
fn never_sent(status: &Status) -> bool {
    let mut source = status.source();
    while let Some(error) = source {
        if error.is::<ConnectError>() {
            return true;
        }
        source = error.source();
    }
    false
}

/// The innermost cause of a failed connection: what the operating system said.
fn innermost(status: &Status) -> String {
    let Some(mut error) = status.source() else {
        return status.message().to_owned();
    };
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}
