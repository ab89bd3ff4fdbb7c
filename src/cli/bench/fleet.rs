//! Many clients at once, each with connections of its own, as so many processes would have.

use super::super::caller::{Caller, Next};
use super::super::connection;
use super::super::exit::{Failure, REFUSED};
use super::load::misnamed;
use super::progress::{meanwhile, say};
use fencepost::client::{AcquireOutcome, Client, Error, NodeStatus, Renewal};
use fencepost::grant::Ttl;
use fencepost::resource::{Holder, ResourceName};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

/// How many calls prepare a load at a time, over all clients.
const PREPARING: u32 = 256;

/// The clients, and the caller that answers for them.
pub(super) struct Fleet {
    /// A client apart, for looking at the cluster and for a load beside.
    pub(super) caller: Caller,
    pub(super) clients: Vec<Client>,
    pub(super) status: NodeStatus,
}

/// Why a load could not be prepared.
pub(super) enum Spoiled {
    /// A call failed.
    Call(Error),
    /// Its outcome was not the one that the load needs.
    Outcome(Failure),
}

impl From<Error> for Spoiled {
    fn from(error: Error) -> Self {
        Self::Call(error)
    }
}

impl From<Failure> for Spoiled {
    fn from(failure: Failure) -> Self {
        Self::Outcome(failure)
    }
}

/// A lease that is part of a load.
#[derive(Debug, Clone)]
pub(super) struct Named {
    pub(super) resource: ResourceName,
    pub(super) holder: Holder,
}

impl Named {
    /// Number `n` of the leases below `prefix`.
    pub(super) fn numbered(prefix: &str, n: u32) -> Result<Self, Failure> {
        Ok(Self {
            resource: ResourceName::new(format!("{prefix}/{n:06}")).map_err(misnamed)?,
            holder: Holder::new(format!("{prefix}-{n}")).map_err(misnamed)?,
        })
    }

    /// Acquires it. Whoever had it must have been another run under the same prefix.
    pub(super) async fn acquire(self, client: &Client, ttl: Ttl) -> Result<Renewal, Spoiled> {
        match client.acquire(&self.resource, &self.holder, ttl).await? {
            AcquireOutcome::Granted(acquired) => Ok(acquired.renewal()),
            AcquireOutcome::Held(by) => Err(taken(&self.resource, by).into()),
            AcquireOutcome::Ended(ended) => Err(taken(&self.resource, ended.how).into()),
            AcquireOutcome::Left(how) => Err(taken(&self.resource, how).into()),
        }
    }
}

/// Something else than the expected grant.
pub(super) fn taken(resource: &ResourceName, why: impl std::fmt::Display) -> Failure {
    Failure::new(REFUSED, format_args!("{resource} could not be had: {why}"))
        .hint("Does another load run under the same --prefix?")
}

impl Fleet {
    /// Opens `count` clients, and finds the leader.
    pub(super) async fn open(options: &connection::Options, count: u32) -> Result<Self, Failure> {
        let caller = Caller::open(options, 1)?;
        let clients = (0..count).map(|_| Ok(Caller::open(options, 1)?.client));
        let clients = clients.collect::<Result<_, Failure>>()?;
        let status = caller.client.status().await;
        let status = status.map_err(|error| caller.failed(&error, &Next::none()))?;
        Ok(Self {
            caller,
            clients,
            status,
        })
    }

    /// Does `work` for each of `count` numbers, spread over the clients, with progress. Returns what each
    /// client got.
    pub(super) async fn prepare<T, F>(
        &self,
        what: &str,
        count: u32,
        work: impl Fn(Client, u32) -> F + Clone + Send + 'static,
    ) -> Result<Vec<Vec<T>>, Failure>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Spoiled>> + Send,
    {
        let done = Arc::new(AtomicU32::new(0));
        let clients = u32::try_from(self.clients.len()).unwrap_or(u32::MAX);
        // A whole number of tasks for each client.
        let tasks = (PREPARING / clients).max(1) * clients;
        let mut running = JoinSet::new();
        for (task, (at, client)) in (0..tasks).zip(self.clients.iter().enumerate().cycle()) {
            let (client, work, done) = (client.clone(), work.clone(), Arc::clone(&done));
            running.spawn(async move {
                let mut got = Vec::new();
                for number in (task..count).step_by(usize::try_from(tasks).unwrap_or(usize::MAX)) {
                    got.push(work(client.clone(), number).await?);
                    done.fetch_add(1, Ordering::Relaxed);
                }
                Ok::<_, Spoiled>((at, got))
            });
        }
        let all = async {
            let mut each: Vec<Vec<T>> = self.clients.iter().map(|_| Vec::new()).collect();
            while let Some(joined) = running.join_next().await {
                let (at, got) =
                    joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))?;
                each[at].extend(got);
            }
            Ok::<_, Spoiled>(each)
        };
        let tell = || {
            say(format_args!(
                "{what}: {} of {count}",
                done.load(Ordering::Relaxed)
            ))
        };
        match meanwhile(Duration::from_secs(1), all, tell).await? {
            Some(Ok(each)) => Ok(each),
            Some(Err(spoiled)) => Err(self.explain(spoiled)),
            None => Err(interrupted()),
        }
    }

    /// The end of a command whose load could not be prepared.
    pub(super) fn explain(&self, spoiled: Spoiled) -> Failure {
        match spoiled {
            Spoiled::Call(error) => self.caller.failed(&error, &Next::none()),
            Spoiled::Outcome(failure) => failure,
        }
    }

    /// Acquires `count` leases below `prefix`.
    pub(super) async fn leases(
        &self,
        prefix: &str,
        count: u32,
        ttl: Ttl,
    ) -> Result<Vec<Vec<Renewal>>, Failure> {
        let prefix = prefix.to_owned();
        self.prepare("acquiring leases", count, move |client, number| {
            let lease = Named::numbered(&prefix, number);
            async move { lease?.acquire(&client, ttl).await }
        })
        .await
    }
}

/// Ctrl-C came before there was anything to tell.
pub(super) fn interrupted() -> Failure {
    Failure::new(
        super::super::exit::UNEXPECTED,
        "interrupted before anything was measured",
    )
}
