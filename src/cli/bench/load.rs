//! The workers: each does its operation over and over, one call at a time.

use super::super::caller::Caller;
use super::super::exit::{Failure, USAGE};
use super::record::{Call, Record};
use super::{Args, Operation};
use fencepost::client::{
    AcquireOutcome, BootInstant, Client, Error, ReleaseOutcome, RenewOutcome, Renewal,
};
use fencepost::grant::Ttl;
use fencepost::resource::{Holder, ResourceName};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::task::JoinSet;

/// The time that counts. Calls that began before it warm up; none begins after it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Window {
    pub(super) begin: BootInstant,
    pub(super) end: BootInstant,
}

/// One worker, with the names made beforehand.
struct Worker {
    client: Client,
    window: Window,
    record: Arc<Mutex<Record>>,
    holder: Holder,
    resources: Vec<ResourceName>,
    ttl: Ttl,
}

/// Starts all workers on this thread.
pub(super) fn start(
    args: &Args,
    resources: u32,
    caller: &Caller,
    window: Window,
    record: &Arc<Mutex<Record>>,
) -> Result<JoinSet<()>, Failure> {
    let named = |error| Failure::new(USAGE, format_args!("--prefix does not fit: {error}"));
    let mut workers = JoinSet::new();
    for number in 0..args.concurrency {
        let holder = Holder::new(format!("{}-{number}", args.prefix)).map_err(named)?;
        // Worker n has the resources n, n + concurrency, ...; with fewer resources than workers, they share.
        let step = usize::try_from(args.concurrency).unwrap_or(usize::MAX);
        let own = (number % resources..resources).step_by(step);
        let names = own.map(|resource| ResourceName::new(format!("{}/{resource}", args.prefix)));
        let worker = Worker {
            client: caller.client.clone(),
            window,
            record: Arc::clone(record),
            holder,
            resources: names.collect::<Result<_, _>>().map_err(named)?,
            ttl: args.ttl,
        };
        workers.spawn(worker.run(args.operation));
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
        let mut record = self.record();
        record.counts = start >= self.window.begin;
        note(&mut record);
    }

    fn failed(&self, start: BootInstant, error: &Error) {
        self.note(start, |record| record.error(error));
    }

    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
