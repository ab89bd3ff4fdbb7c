//! Expiry: very many leases with the same deadline run out together, while others are renewed.
//!
//! A service that loses a whole site sees this: every lease of it ends at once. The cluster must end them
//! all soon, none of them early, and must not neglect those who are still there (etcd#9496, #9360).

use super::super::acquire::millis;
use super::super::caller::Next;
use super::super::exit::{self, Failure, UNEXPECTED};
use super::super::{connection, duration};
use super::fleet::{Fleet, Spoiled};
use super::latency::{HEAD, Latencies, Latency, Row, many};
use super::load::{self, Load, Operation, Shared, Window};
use super::nodes::{Site, Spent};
use super::progress::{meanwhile, say};
use super::record::{Record, tell_errors};
use fencepost::client::{
    BootInstant, Change, Client, Error, RenewOutcome, Renewal, Watch, Watching,
};
use fencepost::grant::{EndedHow, Ttl};
use serde::Serialize;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;

/// How many leases get their deadline in one message.
const PER_MESSAGE: usize = 400;

/// How long leases live while they are gathered; a run that is killed leaves them for no longer.
const GATHERING_MS: u64 = 600_000;

/// How long after its deadline a lease is waited for.
const LATE_MAX: Duration = Duration::from_secs(60);

/// Arguments of `fencepost bench expire`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
First all leases are acquired with a long TTL, then they are renewed with --ttl as fast as it goes, and then \
nobody renews them any more. A watch tells when each one ended; it is late by the time since its holder's \
own deadline, which counts from the send of its last renewal. Beside that other workers renew leases of \
the same TTL, and acquire and release, without a pause; what counts of them is what began between the first \
deadline and the last end. A lease that ends early, or not within a minute, is a failure: code 1.

Examples:
  fencepost bench expire
  fencepost bench expire --leases 100000 --ttl 10s --renewers 64
  fencepost bench expire --leases 10000 --metrics 127.0.0.1:7300")]
pub(super) struct Args {
    /// How many leases run out together
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    leases: u32,

    /// How many clients get them, each with a stream of its own
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    streams: u32,

    /// How long a lease lives without a renewal, 100ms to 24h
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_ttl, default_value = "10s")]
    ttl: Ttl,

    /// How many workers renew other leases meanwhile
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    renewers: u32,

    /// How many workers acquire and release meanwhile
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    acquirers: u32,

    #[command(flatten)]
    site: Site,
}

/// What a run measured. Its field names are stable; latencies are microseconds.
#[derive(Serialize)]
struct Report {
    operation: &'static str,
    leases: u32,
    streams: u32,
    ttl_ms: u64,
    cluster_id: String,
    version: String,
    /// From the first deadline to the last.
    deadlines_within_ms: u64,
    expired: u64,
    /// Before their holder's own deadline: never.
    early: u64,
    /// By something else than their time.
    ended_otherwise: u64,
    /// Not within a minute of the last deadline.
    missing: u64,
    /// From the holder's own deadline to the end, by the lease.
    late_us: Latency,
    renewers: u32,
    renew_us: Option<Latency>,
    acquirers: u32,
    acquire_us: Option<Latency>,
    failed: u64,
    errors: BTreeMap<String, u64>,
    /// From the first deadline on.
    spent: Spent,
}

/// The deadline of each lease that is to run out, by its token.
type Deadlines = BTreeMap<u64, BootInstant>;

/// How the leases ended.
#[derive(Default)]
struct Ends {
    expired: u64,
    early: u64,
    otherwise: u64,
    late: Latencies,
}

/// Measures a mass expiry.
pub(super) async fn run(args: &Args, options: &connection::Options) -> exit::Outcome {
    let fleet = Fleet::open(options, args.streams).await?;
    let client = fleet.caller.client.clone();
    let prefix = format!("{}-due", args.site.prefix);
    let gathering = Ttl::from_ms(GATHERING_MS).unwrap_or_default();
    let leases = fleet.leases(&prefix, args.leases, gathering).await?;
    let mut watch = client.watch(Watching::prefix(format!("{prefix}/")));
    let opened = watch.next().await;
    opened.transpose().map_err(|error| failed(&fleet, &error))?;

    let mut due = set_deadlines(args, &fleet, leases).await?;
    let first = due.values().min().copied().unwrap_or_else(|| client.now());
    let last = due.values().max().copied().unwrap_or(first);
    // It ends when everything has ended, which nobody knows yet.
    let window = Window {
        begin: first,
        end: last.plus(LATE_MAX),
    };
    let (renewing, mut renewers) = beside(args, &fleet, Operation::Renew, window)?;
    let (acquiring, mut acquirers) = beside(args, &fleet, Operation::AcquireRelease, window)?;
    tokio::time::sleep(first.since(client.now())).await;
    let before = args.site.sample().await?;
    let ends = ends(&client, &mut watch, &mut due, window.end).await?;
    let ends = ends.map_err(|error| failed(&fleet, &error))?;
    renewers.abort_all();
    acquirers.abort_all();
    let time = client.now().since(first);
    let spent = args.site.spent_since(&before, time).await?;
    let (renewing, acquiring) = (load::lock(&renewing), load::lock(&acquiring));
    let mut errors = renewing.errors.by_kind().clone();
    for (kind, count) in acquiring.errors.by_kind() {
        *errors.entry(kind.clone()).or_default() += count;
    }
    let report = Report {
        operation: "expire",
        leases: args.leases,
        streams: args.streams,
        ttl_ms: args.ttl.as_ms(),
        cluster_id: fleet.status.cluster_id.clone(),
        version: fleet.status.version.clone(),
        deadlines_within_ms: millis(last.since(first)),
        expired: ends.expired,
        early: ends.early,
        ended_otherwise: ends.otherwise,
        missing: u64::try_from(due.len()).unwrap_or(u64::MAX),
        late_us: ends.late.summary(),
        renewers: args.renewers,
        renew_us: renewing.latencies().remove("renew"),
        acquirers: args.acquirers,
        acquire_us: acquiring.latencies().remove("acquire"),
        failed: renewing.errors.count() + acquiring.errors.count(),
        errors,
        spent: spent.over(ends.expired),
    };
    fleet.caller.answer(&report.to_string(), &report)?;
    match report.early + report.missing + report.ended_otherwise {
        0 => Ok(()),
        _ => {
            let what = "leases ended early, not at all, or otherwise, see above";
            Err(Failure::new(UNEXPECTED, what))
        }
    }
}

fn failed(fleet: &Fleet, error: &Error) -> Failure {
    fleet.caller.failed(error, &Next::none())
}

/// Renews every lease with the TTL that it is to run out by, a message of each client at a time.
async fn set_deadlines(
    args: &Args,
    fleet: &Fleet,
    leases: Vec<Vec<Renewal>>,
) -> Result<Deadlines, Failure> {
    say(format_args!("setting the deadlines"));
    let mut setting = JoinSet::new();
    for (client, mut leases) in fleet.clients.iter().cloned().zip(leases) {
        leases
            .iter_mut()
            .for_each(|lease| lease.ttl = Some(args.ttl));
        setting.spawn(async move {
            let mut due = Vec::new();
            for leases in leases.chunks(PER_MESSAGE) {
                let outcomes = client.renew(leases).await?;
                due.extend(
                    leases
                        .iter()
                        .zip(outcomes)
                        .map(|(lease, outcome)| match outcome {
                            RenewOutcome::Renewed { safe_until, .. } => {
                                (lease.token.get(), Some(safe_until))
                            }
                            RenewOutcome::Ended(_) | RenewOutcome::Unknown => {
                                (lease.token.get(), None)
                            }
                        }),
                );
            }
            Ok::<_, Spoiled>(due)
        });
    }
    let mut deadlines = Deadlines::new();
    while let Some(joined) = setting.join_next().await {
        let due = joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()));
        let due = due.map_err(|spoiled| fleet.explain(spoiled))?;
        for (token, safe_until) in due {
            let lost = || {
                Failure::new(
                    UNEXPECTED,
                    format_args!("token {token} was lost before its time"),
                )
            };
            deadlines.insert(token, safe_until.ok_or_else(lost)?);
        }
    }
    Ok(deadlines)
}

/// Starts a load that goes on beside the expiry.
fn beside(
    args: &Args,
    fleet: &Fleet,
    operation: Operation,
    window: Window,
) -> Result<(Shared, JoinSet<()>), Failure> {
    let concurrency = match operation {
        Operation::Renew => args.renewers,
        _ => args.acquirers,
    };
    let load = Load {
        operation,
        concurrency,
        resources: concurrency,
        ttl: args.ttl,
        prefix: format!("{}-{}", args.site.prefix, operation.as_str()),
    };
    let record = Arc::new(Mutex::new(Record::new(operation)));
    let workers = load::start(&load, &fleet.caller.client, window, &record)?;
    Ok((record, workers))
}

/// Reads the watch until every lease in `due` has ended, or `until`. What ended is taken out of `due`.
async fn ends(
    client: &Client,
    watch: &mut Watch,
    due: &mut Deadlines,
    until: BootInstant,
) -> Result<Result<Ends, Error>, Failure> {
    let mut ends = Ends::default();
    let left = Cell::new(due.len());
    let reading = async {
        while !due.is_empty() {
            let moment = match watch.next().await {
                Some(Ok(moment)) => moment,
                Some(Err(error)) if error.may_retry() => continue,
                Some(Err(error)) => return Err(error),
                None => break,
            };
            let now = client.now();
            for event in moment.events {
                if let Change::Ended { token, how, .. } = event.change
                    && let Some(deadline) = due.remove(&token.value().get())
                {
                    ends.count(how, deadline, now);
                }
            }
            left.set(due.len());
        }
        Ok(())
    };
    let bounded = tokio::time::timeout(until.since(client.now()), reading);
    let told = meanwhile(Duration::from_secs(1), bounded, || {
        say(format_args!("running out: {} left", left.get()));
    });
    Ok(match told.await? {
        Some(Ok(Err(error))) => Err(error),
        // All have ended, or the time is up, or Ctrl-C: the rest is missing.
        _ => Ok(ends),
    })
}

impl Ends {
    /// Counts the end of a lease that was told of `now`.
    fn count(&mut self, how: EndedHow, deadline: BootInstant, now: BootInstant) {
        match how {
            EndedHow::Expired if now < deadline => self.early += 1,
            EndedHow::Expired => {
                self.expired += 1;
                self.late.took(now.since(deadline));
            }
            EndedHow::Released | EndedHow::Revoked | EndedHow::Superseded => self.otherwise += 1,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} of {}, deadlines within {}",
            self.operation,
            many(self.leases, "lease"),
            duration::human_ms(self.ttl_ms),
            duration::human_ms(self.deadlines_within_ms),
        )?;
        let late = duration::human_ms(self.late_us.max / 1_000);
        writeln!(f, "\n  {} expired, the last one {late} late", self.expired)?;
        writeln!(
            f,
            "  {} early, {} ended otherwise, {} missing",
            self.early, self.ended_otherwise, self.missing
        )?;
        writeln!(f, "  meanwhile {} calls of the others failed", self.failed)?;
        tell_errors(f, &self.errors)?;
        self.spent.tell(f)?;
        writeln!(f, "\n{HEAD}\n{}", Row("late by", &self.late_us))?;
        if let Some(renew) = &self.renew_us {
            writeln!(f, "{}", Row("renew", renew))?;
        }
        match &self.acquire_us {
            Some(acquire) => writeln!(f, "{}", Row("acquire", acquire)),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_before_its_deadline_is_early_however_little() {
        let at = |ms| BootInstant::from_boot(Duration::from_millis(ms));
        let mut ends = Ends::default();
        ends.count(EndedHow::Expired, at(1_000), at(999));
        ends.count(EndedHow::Expired, at(1_000), at(1_250));
        ends.count(EndedHow::Revoked, at(1_000), at(2_000));
        assert_eq!((ends.early, ends.expired, ends.otherwise), (1, 1, 1));
        let late = ends.late.summary();
        assert_eq!((late.count, late.max / 1_000), (1, 250));
    }
}
