//! `fencepost bench`: load against a running cluster, and what came of it.
//!
//! The load shares its machine with the nodes in most measurements, so it must be cheap itself: one thread
//! runs all workers, each call goes straight to the leader over connections that are kept, and nothing is
//! printed while it measures but one line a second.

mod load;
mod record;
mod report;

use super::caller::{self, Caller, Next};
use super::exit::{self, Failure, UNAVAILABLE};
use super::{connection, duration};
use clap::ValueEnum;
use fencepost::client::BootInstant;
use fencepost::grant::Ttl;
use record::Record;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Arguments of `fencepost bench`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Latencies are those of whole calls as a user of the client library sees them, repeats included. Each worker \
has resources of its own unless there are fewer resources than workers; then workers refuse each other, \
which is counted apart. Grants that are left over end with their TTL.

Examples:
  fencepost bench
  fencepost bench --concurrency 256 --connections 4 --duration 30s
  fencepost bench acquire --resources 100000 --ttl 1h     # 100,000 live leases
  fencepost bench renew --concurrency 64 --output json")]
pub(crate) struct Args {
    /// What each worker does over and over
    #[arg(value_enum, default_value = "acquire-release")]
    operation: Operation,

    /// How many workers there are, each with one call under way
    #[arg(long, short, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    concurrency: u32,

    /// How many connections they share
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=64))]
    connections: u32,

    /// How long to measure
    #[arg(long, short, value_name = "DURATION", value_parser = duration::parse, default_value = "10s")]
    duration: Duration,

    /// How long to run before measuring
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "2s")]
    warm_up: Duration,

    /// How many resources there are; one for each worker unless set
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    resources: Option<u32>,

    /// How long grants live without a renewal, 100ms to 24h
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_ttl, default_value = "30s")]
    ttl: Ttl,

    /// What the names of resources and holders begin with
    #[arg(long, default_value = "bench")]
    prefix: String,
}

/// What a worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Operation {
    /// Acquire a free resource and release it: a pair
    AcquireRelease,
    /// Acquire again what it holds: a new grant each time
    Acquire,
    /// Renew what it holds
    Renew,
    /// Ask who holds a resource
    Inspect,
}

impl Operation {
    /// The word for it, as it is given.
    fn as_str(self) -> &'static str {
        match self {
            Self::AcquireRelease => "acquire-release",
            Self::Acquire => "acquire",
            Self::Renew => "renew",
            Self::Inspect => "inspect",
        }
    }
}

/// Runs the load on this thread alone.
pub(crate) fn run(args: &Args, options: &connection::Options) -> exit::Outcome {
    let connections = usize::try_from(args.connections).unwrap_or(1);
    let caller = Caller::open(options, connections)?;
    caller::runtime()?.block_on(measure(args, &caller))
}

async fn measure(args: &Args, caller: &Caller) -> exit::Outcome {
    // The first call finds the leader, so that the load goes there and fails early if nobody is there.
    let status = caller.client.status().await;
    let status = status.map_err(|error| caller.failed(&error, &Next::none()))?;
    let resources = args.resources.unwrap_or(args.concurrency);
    let record = Arc::new(Mutex::new(Record::new(args.operation)));
    let begin = caller.client.now().plus(args.warm_up);
    let window = load::Window {
        begin,
        end: begin.plus(args.duration),
    };
    let mut workers = load::start(args, resources, caller, window, &record)?;
    watch(caller, window, &record, &mut workers).await?;
    workers.shutdown().await;
    let record = record.lock().unwrap_or_else(PoisonError::into_inner);
    // A run that was ended early is judged by the time that it had.
    let took = caller.client.now().since(window.begin).min(args.duration);
    let report = report::Report::new(
        args,
        resources,
        &status,
        took,
        caller.client.resends(),
        &record,
    );
    caller.answer(&report.to_string(), &report)?;
    if report.is_empty() {
        let message = "not one call succeeded; see the errors above";
        return Err(Failure::new(UNAVAILABLE, message));
    }
    Ok(())
}

/// Shows progress once a second until the window is over, all workers have ended, or Ctrl-C.
async fn watch(
    caller: &Caller,
    window: load::Window,
    record: &Mutex<Record>,
    workers: &mut tokio::task::JoinSet<()>,
) -> exit::Outcome {
    let mut second = tokio::time::interval(Duration::from_secs(1));
    second.tick().await;
    let mut last = 0;
    loop {
        tokio::select! {
            joined = workers.join_next() => if joined.is_none() { return Ok(()) },
            interrupted = tokio::signal::ctrl_c() => return Ok(interrupted?),
            _ = second.tick() => last = progress(caller.client.now(), window, record, last),
        }
    }
}

/// Writes one line of progress, and returns how many operations had succeeded by then.
fn progress(now: BootInstant, window: load::Window, record: &Mutex<Record>, last: u64) -> u64 {
    let record = record.lock().unwrap_or_else(PoisonError::into_inner);
    let (count, failed) = (record.completed, record.failed());
    drop(record);
    let (phase, end) = match now < window.begin {
        true => ("warming up", window.begin),
        false => ("measuring", window.end),
    };
    // Rounded: the ticks come a little after the full second.
    let left = (end.since(now).as_millis() + 500) / 1_000;
    if left == 0 {
        return count;
    }
    let rate = count.saturating_sub(last);
    // Nobody may be there to read progress, which is no reason to stop measuring.
    let _ = writeln!(
        io::stderr().lock(),
        "{phase}, {left} s left: {rate}/s, {failed} failed"
    );
    count
}
