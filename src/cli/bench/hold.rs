//! Holding: many leases kept alive in the background for a long time, and what that does to an acquire.

use super::super::acquire::millis;
use super::super::caller::Next;
use super::super::exit::{self, Failure, UNEXPECTED};
use super::super::{connection, duration};
use super::calls;
use super::fleet::{Fleet, Named, Spoiled, taken};
use super::latency::{HEAD, Latency, Row, many, rate};
use super::load::{self, Load, Operation, Window};
use super::nodes::{Sample, Site, Spent};
use super::progress::{meanwhile, say};
use super::record::Record;
use fencepost::client::{Client, Held};
use fencepost::grant::Ttl;
use serde::Serialize;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::task::JoinSet;

/// How often progress is told: a look at each of 100,000 leases is work, too.
const LOOK: Duration = Duration::from_secs(10);

/// How many releases are under way at a time in the end.
const RELEASING: usize = 256;

/// Arguments of `fencepost bench hold`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each stream is a client with a connection of its own, that keeps its share of the leases alive as a holder's \
library does: at a third of the TTL, many in a message. Before the leases are taken, and again while they \
are held, other workers acquire and release for --beside, so that the two can be compared. A lost lease is \
a failure: the command then ends with code 1.

Examples:
  fencepost bench hold --leases 10000 --streams 100 --ttl 10s --duration 10m
  fencepost bench hold --leases 100000 --streams 100 --ttl 30s --duration 5m
  fencepost bench hold --metrics 127.0.0.1:7300     # counts the log entries of renewals, too")]
pub(super) struct Args {
    /// How many leases are held
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    leases: u32,

    /// How many clients hold them, each with a stream of its own
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    streams: u32,

    /// How long a lease lives without a renewal, 100ms to 24h
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_ttl, default_value = "10s")]
    ttl: Ttl,

    /// How long they are held, the load beside them not counted
    #[arg(long, short, value_name = "DURATION", value_parser = duration::parse, default_value = "1m")]
    duration: Duration,

    /// How long the load beside them runs, once without and once with them; 0s for none
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "10s")]
    beside: Duration,

    /// How many workers that load has
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    concurrency: u32,

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
    held_ms: u64,
    concurrency: u32,
    cluster_id: String,
    version: String,
    /// Leases that were lost while they were held.
    lost: u64,
    /// How the first of them was lost.
    first_lost: Option<String>,
    /// Log entries of renewals a second, while nothing else went on. With `--metrics` those entries
    /// alone; without, all that the log grew by.
    renewal_entries_per_second: f64,
    /// Of an acquire, without the leases.
    alone_us: Option<Latency>,
    /// Of an acquire, beside them.
    beside_us: Option<Latency>,
    /// The p99 beside the leases over the one without.
    p99_ratio: Option<f64>,
    /// While nothing else went on.
    spent: Spent,
}

/// Holds leases.
pub(super) async fn run(args: &Args, options: &connection::Options) -> exit::Outcome {
    let fleet = Fleet::open(options, args.streams).await?;
    let alone_us = load_beside(args, &fleet, "without leases").await?;
    let held = hold_all(args, &fleet).await?;
    let quiet = Quiet::begin(args, &fleet).await?;
    let completed = wait(args, &fleet, &held).await?;
    let (renewal_entries_per_second, spent) = quiet.end(args, &fleet).await?;
    let held_ms = millis(fleet.caller.client.now().since(quiet.started));
    let beside_us = match completed {
        true => load_beside(args, &fleet, "beside the leases").await?,
        false => None,
    };
    let (lost, first_lost) = lost(&held);
    let report = Report {
        operation: "hold",
        leases: args.leases,
        streams: args.streams,
        ttl_ms: args.ttl.as_ms(),
        held_ms,
        concurrency: args.concurrency,
        cluster_id: fleet.status.cluster_id.clone(),
        version: fleet.status.version.clone(),
        lost,
        first_lost,
        renewal_entries_per_second,
        p99_ratio: ratio(alone_us.as_ref(), beside_us.as_ref()),
        alone_us,
        beside_us,
        spent,
    };
    fleet.caller.answer(&report.to_string(), &report)?;
    give_back(held).await?;
    match lost {
        0 => Ok(()),
        _ => Err(Failure::new(UNEXPECTED, "leases were lost, see above")),
    }
}

/// Acquires all leases, to be kept alive in the background from there on.
async fn hold_all(args: &Args, fleet: &Fleet) -> Result<Vec<Held>, Failure> {
    let (prefix, ttl) = (format!("{}-held", args.site.prefix), args.ttl);
    let hold = move |client: Client, number| {
        let named = Named::numbered(&prefix, number);
        async move {
            let named = named?;
            let outcome = client.hold(&named.resource, &named.holder).ttl(ttl).await?;
            let held = outcome.held();
            held.map_err(|why| Spoiled::from(taken(&named.resource, why)))
        }
    };
    let held = fleet.prepare("taking leases", args.leases, hold).await?;
    Ok(held.into_iter().flatten().collect())
}

/// Waits for as long as the leases are to be held. False if Ctrl-C came first.
async fn wait(args: &Args, fleet: &Fleet, held: &[Held]) -> Result<bool, Failure> {
    let client = &fleet.caller.client;
    let end = client.now().plus(args.duration);
    let time = tokio::time::sleep(args.duration);
    let waited = meanwhile(LOOK, time, || {
        let left = end.since(client.now()).as_secs();
        let (lost, _) = lost(held);
        say(format_args!(
            "holding, {left} s left: {lost} of {} lost",
            held.len()
        ));
    });
    Ok(waited.await?.is_some())
}

/// How many leases were lost, and how the first of them was.
fn lost(held: &[Held]) -> (u64, Option<String>) {
    let mut lost = held.iter().filter_map(|held| held.check().err());
    let first = lost.next().map(|lost| lost.to_string());
    let others = u64::try_from(lost.count()).unwrap_or(u64::MAX);
    (others + u64::from(first.is_some()), first)
}

/// Acquires and releases for a while; what an acquire took.
async fn load_beside(args: &Args, fleet: &Fleet, what: &str) -> Result<Option<Latency>, Failure> {
    if args.beside.is_zero() {
        return Ok(None);
    }
    say(format_args!("acquiring and releasing {what}"));
    let load = Load {
        operation: Operation::AcquireRelease,
        concurrency: args.concurrency,
        resources: args.concurrency,
        ttl: Ttl::default(),
        prefix: format!("{}-beside", args.site.prefix),
    };
    let record = Arc::new(Mutex::new(Record::new(load.operation)));
    let warm_up = args.beside / 10;
    let window = Window::after(fleet.caller.client.now(), warm_up, args.beside);
    calls::through(&fleet.caller, &load, window, &record).await?;
    let latency = load::lock(&record).latencies().remove("acquire");
    Ok(latency.filter(|latency| latency.count > 0))
}

fn ratio(alone: Option<&Latency>, beside: Option<&Latency>) -> Option<f64> {
    let (alone, beside) = (alone?, beside?);
    Some(beside.p99 as f64 / alone.p99.max(1) as f64)
}

/// Releases everything, as fast as the cluster takes it. What cannot be released ends with its TTL.
async fn give_back(held: Vec<Held>) -> exit::Outcome {
    say(format_args!("releasing {}", many(held.len(), "lease")));
    let all = async {
        let mut releasing = JoinSet::new();
        for held in held {
            releasing.spawn(async move { drop(held.release().await) });
            if releasing.len() >= RELEASING {
                releasing.join_next().await;
            }
        }
        while releasing.join_next().await.is_some() {}
    };
    meanwhile(LOOK, all, || ()).await?;
    Ok(())
}

/// The time in which nothing but renewals goes on.
struct Quiet {
    started: fencepost::client::BootInstant,
    before: Sample,
    log_index: u64,
}

impl Quiet {
    async fn begin(args: &Args, fleet: &Fleet) -> Result<Self, Failure> {
        Ok(Self {
            log_index: log_index(fleet).await?,
            before: args.site.sample().await?,
            started: fleet.caller.client.now(),
        })
    }

    /// Log entries of renewals a second, and what was spent.
    async fn end(&self, args: &Args, fleet: &Fleet) -> Result<(f64, Spent), Failure> {
        let time = fleet.caller.client.now().since(self.started);
        let spent = args.site.spent_since(&self.before, time).await?;
        let grown = log_index(fleet).await?.saturating_sub(self.log_index);
        let entries = spent.entries_per_second("renew");
        let entries = entries.unwrap_or_else(|| rate(grown, time));
        Ok((entries, spent.over(u64::from(args.leases))))
    }
}

async fn log_index(fleet: &Fleet) -> Result<u64, Failure> {
    let caller = &fleet.caller;
    let status = caller.client.status().await;
    let status = status.map_err(|error| caller.failed(&error, &Next::none()))?;
    Ok(status.last_log_index)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} of {} on {}, {:.1} s",
            self.operation,
            many(self.leases, "lease"),
            duration::human_ms(self.ttl_ms),
            many(self.streams, "stream"),
            Duration::from_millis(self.held_ms).as_secs_f64(),
        )?;
        writeln!(f, "\n  {} lost", self.lost)?;
        if let Some(first) = &self.first_lost {
            writeln!(f, "    the first: {first}")?;
        }
        let entries = self.renewal_entries_per_second;
        writeln!(f, "  {entries:.1} log entries a second for renewals")?;
        self.spent.tell(f)?;
        let (Some(alone), Some(beside)) = (&self.alone_us, &self.beside_us) else {
            return Ok(());
        };
        let workers = many(self.concurrency, "worker");
        writeln!(
            f,
            "\n  An acquire of {workers}, without the leases and beside them:\n\n{HEAD}"
        )?;
        writeln!(f, "{}", Row("without", alone))?;
        writeln!(f, "{}", Row("beside", beside))?;
        writeln!(
            f,
            "\n  p99 beside them: {:.2} times the one without",
            self.p99_ratio.unwrap_or(0.0)
        )
    }
}
