//! The workers: each does its operation over and over, one call at a time.

use super::super::exit::{Failure, USAGE};
use super::record::{Call, Record};
use fencepost::client::{
    AcquireOutcome, BootInstant, Client, Error, ReleaseOutcome, RenewOutcome, Renewal,
};
use fencepost::grant::Ttl;
use fencepost::resource::{Holder, ResourceName};
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;

/// What a worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    /// Acquire a free resource and release it: a pair.
    AcquireRelease,
    /// Acquire again what it holds: a new grant each time.
    Acquire,
    /// Renew what it holds.
    Renew,
    /// Ask who holds a resource.
    Inspect,
}

impl Operation {
    /// The word for it, as it is given.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::AcquireRelease => "acquire-release",
            Self::Acquire => "acquire",
            Self::Renew => "renew",
            Self::Inspect => "inspect",
        }
    }
}

/// What is to be done by how many.
#[derive(Debug, Clone)]
pub(super) struct Load {
    pub(super) operation: Operation,
    /// Workers.
    pub(super) concurrency: u32,
    pub(super) resources: u32,
    pub(super) ttl: Ttl,
    /// Of the names of resources and holders.
    pub(super) prefix: String,
}

/// The time that counts. Calls that began before it warm up; none begins after it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) begin: BootInstant,
    pub(super) end: BootInstant,
}

impl Window {
    /// A window of `duration`, `warm_up` from `now`.
    pub(super) fn after(now: BootInstant, warm_up: Duration, duration: Duration) -> Self {
        let begin = now.plus(warm_up);
        Self {
            begin,
            end: begin.plus(duration),
        }
    }

    /// How much of it was over at `now`: a run that ended early is judged by the time that it had.
    pub(super) fn over(&self, now: BootInstant) -> Duration {
        now.since(self.begin).min(self.end.since(self.begin))
    }

    /// What goes on at `now`, and for how many seconds more; `None` once it is over.
    pub(super) fn phase(&self, now: BootInstant) -> Option<(&'static str, u128)> {
        let (phase, end) = match now < self.begin {
            true => ("warming up", self.begin),
            false => ("measuring", self.end),
        };
        // Rounded: the ticks come a little after the full second.
        let left = (end.since(now).as_millis() + 500) / 1_000;
        (left > 0).then_some((phase, left))
    }
}

/// The sums of all workers, shared.
pub(super) type Shared = Arc<Mutex<Record>>;

/// Looks at what was recorded; a worker that panicked has left it whole.
pub(super) fn lock(record: &Mutex<Record>) -> MutexGuard<'_, Record> {
    record.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One worker, with the names made beforehand.
struct Worker {
    client: Client,
    window: Window,
    record: Shared,
    holder: Holder,
    resources: Vec<ResourceName>,
    ttl: Ttl,
}

/// The failure of a name that is made of a prefix which does not fit.
pub(super) fn misnamed(error: impl fmt::Display) -> Failure {
    Failure::new(USAGE, format_args!("--prefix does not fit: {error}"))
}

/// Starts all workers on this thread.
pub(super) fn start(
    load: &Load,
    client: &Client,
    window: Window,
    record: &Shared,
) -> Result<JoinSet<()>, Failure> {
    let (prefix, resources) = (&load.prefix, load.resources);
    let mut workers = JoinSet::new();
    for number in 0..load.concurrency {
        let holder = Holder::new(format!("{prefix}-{number}")).map_err(misnamed)?;
        // Worker n has the resources n, n + concurrency, ...; with fewer resources than workers, they share.
        let step = usize::try_from(load.concurrency).unwrap_or(usize::MAX);
        let own = (number % resources..resources).step_by(step);
        let names = own.map(|resource| ResourceName::new(format!("{prefix}/{resource}")));
        let worker = Worker {
            client: client.clone(),
            window,
            record: Arc::clone(record),
            holder,
            resources: names.collect::<Result<_, _>>().map_err(misnamed)?,
            ttl: load.ttl,
        };
        workers.spawn(worker.run(load.operation));
    }
    Ok(workers)
}

impl Worker {
    async fn run(self, operation: Operation) {
        let mut held: Vec<Option<Renewal>> = vec![None; self.resources.len()];
        let mut at = 0;
        let mut now = self.client.now();
        while now < self.window.end {
            let resource = &self.resources[at];
            now = match operation {
                Operation::AcquireRelease => self.pair(resource, now).await,
                Operation::Acquire => self.acquire(resource, now).await.0,
                Operation::Renew => self.renew(resource, &mut held[at], now).await,
                Operation::Inspect => self.inspect(resource, now).await,
            };
            at = (at + 1) % self.resources.len();
        }
    }

    async fn pair(&self, resource: &ResourceName, start: BootInstant) -> BootInstant {
        let (now, renewal) = self.acquire(resource, start).await;
        let Some(renewal) = renewal else {
            return now;
        };
        let released = self
            .client
            .release(resource, &self.holder, renewal.token)
            .await;
        let end = self.client.now();
        match released {
            Ok(ReleaseOutcome::Released) => {
                self.note(start, |record| {
                    record.took(Call::Release, end.since(now));
                    record.took(Call::Pair, end.since(start));
                });
            }
            Ok(ReleaseOutcome::Ended(_) | ReleaseOutcome::Unknown) => {
                self.note(start, |record| record.refuse());
            }
            Err(error) => self.failed(start, &error),
        }
        end
    }

    /// Acquires; returns when that ended, and what it then holds.
    async fn acquire(
        &self,
        resource: &ResourceName,
        start: BootInstant,
    ) -> (BootInstant, Option<Renewal>) {
        let outcome = self.client.acquire(resource, &self.holder, self.ttl).await;
        let end = self.client.now();
        match outcome {
            Ok(AcquireOutcome::Granted(acquired)) => {
                self.note(start, |record| record.took(Call::Acquire, end.since(start)));
                return (end, Some(acquired.renewal()));
            }
            Ok(AcquireOutcome::Held(_) | AcquireOutcome::Ended(_) | AcquireOutcome::Left(_)) => {
                self.note(start, |record| record.refuse());
            }
            Err(error) => self.failed(start, &error),
        }
        (end, None)
    }

    async fn renew(
        &self,
        resource: &ResourceName,
        held: &mut Option<Renewal>,
        start: BootInstant,
    ) -> BootInstant {
        let Some(renewal) = held else {
            let (now, renewal) = self.acquire(resource, start).await;
            *held = renewal;
            return now;
        };
        let outcomes = self.client.renew(std::slice::from_ref(renewal)).await;
        let end = self.client.now();
        match outcomes.as_deref() {
            Ok([RenewOutcome::Renewed { .. }]) => {
                self.note(start, |record| record.took(Call::Renew, end.since(start)));
            }
            Ok(_) => {
                *held = None;
                self.note(start, |record| record.refuse());
            }
            Err(error) => self.failed(start, error),
        }
        end
    }

    async fn inspect(&self, resource: &ResourceName, start: BootInstant) -> BootInstant {
        let outcome = self.client.inspect(resource).await;
        let end = self.client.now();
        match outcome {
            Ok(_) => self.note(start, |record| record.took(Call::Inspect, end.since(start))),
            Err(error) => self.failed(start, &error),
        }
        end
    }

    /// Takes note of what began at `start`, if that counts.
    fn note(&self, start: BootInstant, note: impl FnOnce(&mut Record)) {
        let mut record = lock(&self.record);
        record.counts = start >= self.window.begin;
        note(&mut record);
    }

    fn failed(&self, start: BootInstant, error: &Error) {
        self.note(start, |record| record.error(error));
    }
}
