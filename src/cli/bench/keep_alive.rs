//! Keep-alives: how many leases a cluster keeps alive a second, and what that costs.
//!
//! Peers answer keep-alives from the memory of their leader. Here each one goes through the log, so that
//! no failover loses it, and many share an entry: what is counted is what was acknowledged of that.

use super::super::acquire::millis;
use super::super::exit::{self, Failure, UNAVAILABLE};
use super::super::{connection, duration};
use super::fleet::Fleet;
use super::latency::{HEAD, Latencies, Latency, Row, many, rate};
use super::load::Window;
use super::nodes::{Site, Spent};
use super::progress::{meanwhile, say};
use super::record::{Errors, tell_errors};
use fencepost::client::{Client, RenewOutcome, Renewal};
use fencepost::grant::Ttl;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;

/// The most leases that one message can renew.
const PER_MESSAGE_MAX: i64 = 400;

/// Arguments of `fencepost bench keep-alive`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each stream is a client with a connection of its own. Every lease that is renewed is told apart, also when \
many share a message. A program with many leases renews them together, as --per-message 400 does; one \
lease a message is the load of many programs with one lease each.

Examples:
  fencepost bench keep-alive --streams 64 --in-flight 16
  fencepost bench keep-alive --streams 4 --in-flight 4 --per-message 400
  fencepost bench keep-alive --metrics 127.0.0.1:7300     # what the nodes spend on it, too")]
pub(super) struct Args {
    /// How many clients there are, each with a stream of its own
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    streams: u32,

    /// How many messages each has under way
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    in_flight: u32,

    /// How many leases a message renews
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=PER_MESSAGE_MAX))]
    per_message: u32,

    /// How long to measure
    #[arg(long, short, value_name = "DURATION", value_parser = duration::parse, default_value = "10s")]
    duration: Duration,

    /// How long to run before measuring
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "2s")]
    warm_up: Duration,

    /// How long leases live without a renewal, 100ms to 24h
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_ttl, default_value = "1m")]
    ttl: Ttl,

    #[command(flatten)]
    site: Site,
}

/// What was counted.
#[derive(Default)]
struct Tally {
    /// Leases renewed, warm-up included.
    all: u64,
    /// Leases renewed in the window.
    renewed: u64,
    lost: u64,
    errors: Errors,
    messages: Latencies,
}

/// What a run measured. Its field names are stable; latencies are microseconds, of a message.
#[derive(Serialize)]
struct Report {
    operation: &'static str,
    streams: u32,
    in_flight: u32,
    per_message: u32,
    leases: u32,
    ttl_ms: u64,
    duration_ms: u64,
    cluster_id: String,
    version: String,
    renewed: u64,
    per_second: f64,
    /// Leases that ended although they were renewed.
    lost: u64,
    failed: u64,
    errors: BTreeMap<String, u64>,
    latency_us: Latency,
    spent: Spent,
}

/// Measures renewals.
pub(super) async fn run(args: &Args, options: &connection::Options) -> exit::Outcome {
    let leases = args.streams * args.in_flight * args.per_message;
    let fleet = Fleet::open(options, args.streams).await?;
    let held = fleet.leases(&args.site.prefix, leases, args.ttl).await?;
    let caller = &fleet.caller;
    let before = args.site.sample().await?;
    let started = caller.client.now();
    let window = Window::after(started, args.warm_up, args.duration);
    let tally = Arc::new(Mutex::new(Tally::default()));
    renew_all(args, &fleet, held, window, &tally).await?;
    let now = caller.client.now();
    let spent = args.site.spent_since(&before, now.since(started)).await?;
    let tally = lock(&tally);
    let took = window.over(now);
    let report = Report {
        operation: "keep-alive",
        streams: args.streams,
        in_flight: args.in_flight,
        per_message: args.per_message,
        leases,
        ttl_ms: args.ttl.as_ms(),
        duration_ms: millis(took),
        cluster_id: fleet.status.cluster_id.clone(),
        version: fleet.status.version.clone(),
        renewed: tally.renewed,
        per_second: rate(tally.renewed, took),
        lost: tally.lost,
        failed: tally.errors.count(),
        errors: tally.errors.by_kind().clone(),
        latency_us: tally.messages.summary(),
        spent: spent.over(tally.all),
    };
    caller.answer(&report.to_string(), &report)?;
    match tally.renewed {
        0 => Err(Failure::new(UNAVAILABLE, "not one lease was kept alive")),
        _ => Ok(()),
    }
}

/// Starts all workers, and waits until the window is over.
async fn renew_all(
    args: &Args,
    fleet: &Fleet,
    held: Vec<Vec<Renewal>>,
    window: Window,
    tally: &Arc<Mutex<Tally>>,
) -> exit::Outcome {
    let mut workers = JoinSet::new();
    let size = usize::try_from(args.per_message).unwrap_or(1);
    for (client, leases) in fleet.clients.iter().zip(held) {
        for leases in leases.chunks(size) {
            workers.spawn(renew(
                client.clone(),
                leases.to_vec(),
                window,
                Arc::clone(tally),
            ));
        }
    }
    let mut last = 0;
    let all = async { while workers.join_next().await.is_some() {} };
    meanwhile(Duration::from_secs(1), all, || {
        let (count, failed) = {
            let tally = lock(tally);
            (tally.all, tally.errors.count())
        };
        if let Some((phase, left)) = window.phase(fleet.caller.client.now()) {
            let rate = count.saturating_sub(last);
            say(format_args!(
                "{phase}, {left} s left: {rate} leases/s, {failed} failed"
            ));
        }
        last = count;
    })
    .await?;
    Ok(())
}

/// Renews the same leases over and over, one message at a time.
async fn renew(client: Client, mut leases: Vec<Renewal>, window: Window, tally: Arc<Mutex<Tally>>) {
    let mut start = client.now();
    while start < window.end && !leases.is_empty() {
        let outcomes = client.renew(&leases).await;
        let end = client.now();
        let mut tally = lock(&tally);
        match outcomes {
            Ok(outcomes) => {
                let before = leases.len();
                let mut outcomes = outcomes.into_iter();
                leases.retain(|_| matches!(outcomes.next(), Some(RenewOutcome::Renewed { .. })));
                let renewed = u64::try_from(leases.len()).unwrap_or(u64::MAX);
                tally.lost += u64::try_from(before).unwrap_or(u64::MAX) - renewed;
                tally.all += renewed;
                if start >= window.begin {
                    tally.renewed += renewed;
                    tally.messages.took(end.since(start));
                }
            }
            Err(error) => tally.errors.note(&error),
        }
        start = end;
    }
}

fn lock(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {}, {} under way on each, {} a message, {:.1} s",
            self.operation,
            many(self.streams, "stream"),
            many(self.in_flight, "message"),
            many(self.per_message, "lease"),
            Duration::from_millis(self.duration_ms).as_secs_f64(),
        )?;
        writeln!(
            f,
            "\n  {:.0} leases kept alive a second ({} in all)",
            self.per_second, self.renewed
        )?;
        writeln!(f, "  {} lost, {} messages failed", self.lost, self.failed)?;
        tell_errors(f, &self.errors)?;
        self.spent.tell(f)?;
        writeln!(f, "\n{HEAD}")?;
        writeln!(f, "{}", Row("message", &self.latency_us))
    }
}
