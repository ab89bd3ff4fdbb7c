//! The load of single calls: many workers, each with one operation under way.

use super::super::caller::{Caller, Next};
use super::super::exit::{self, Failure, UNAVAILABLE};
use super::super::{connection, duration};
use super::load::{self, Load, Operation, Shared, Window};
use super::nodes::Site;
use super::progress::{meanwhile, say};
use super::record::Record;
use super::report::Report;
use fencepost::grant::Ttl;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Arguments of a load of single calls.
#[derive(Debug, clap::Args)]
pub(crate) struct Settings {
    /// How many workers there are, each with one call under way
    #[arg(long, short, default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(super) concurrency: u32,

    /// How many connections they share, each with a stream that carries the calls
    #[arg(long, visible_alias = "streams", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(super) connections: u32,

    /// How long to measure
    #[arg(long, short, value_name = "DURATION", value_parser = duration::parse, default_value = "10s")]
    duration: Duration,

    /// How long to run before measuring
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "2s")]
    pub(super) warm_up: Duration,

    /// How many resources there are; one for each worker unless set
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    resources: Option<u32>,

    /// How long grants live without a renewal, 100ms to 24h
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_ttl, default_value = "30s")]
    ttl: Ttl,

    #[command(flatten)]
    site: Site,
}

/// Measures one operation.
pub(super) async fn run(
    operation: Operation,
    args: &Settings,
    options: &connection::Options,
) -> exit::Outcome {
    let connections = usize::try_from(args.connections).unwrap_or(1);
    let caller = Caller::open(options, connections)?;
    // The first call finds the leader, so that the load goes there and fails early if nobody is there.
    let status = caller.client.status().await;
    let status = status.map_err(|error| caller.failed(&error, &Next::none()))?;
    let load = Load {
        operation,
        concurrency: args.concurrency,
        resources: args.resources.unwrap_or(args.concurrency),
        ttl: args.ttl,
        prefix: args.site.prefix.clone(),
    };
    let before = args.site.sample().await?;
    let started = caller.client.now();
    let window = Window::after(started, args.warm_up, args.duration);
    let record = Arc::new(Mutex::new(Record::new(operation)));
    through(&caller, &load, window, &record).await?;
    let now = caller.client.now();
    // What is spent is spent in the warm-up, too.
    let spent = args.site.spent_since(&before, now.since(started)).await?;
    let record = load::lock(&record);
    let report = Report::new(args, &load, &status, window.over(now), &record)
        .resends(caller.client.resends())
        .spent(spent.over(record.completed));
    caller.answer(&report.to_string(), &report)?;
    if report.is_empty() {
        let message = "not one call succeeded; see the errors above";
        return Err(Failure::new(UNAVAILABLE, message));
    }
    Ok(())
}

/// Runs `load` until the window is over, all workers have ended, or Ctrl-C; with progress once a second.
pub(super) async fn through(
    caller: &Caller,
    load: &Load,
    window: Window,
    record: &Shared,
) -> exit::Outcome {
    let client = &caller.client;
    let mut workers = load::start(load, client, window, record)?;
    let mut last = 0;
    let all = async { while workers.join_next().await.is_some() {} };
    meanwhile(Duration::from_secs(1), all, || {
        let (count, failed) = {
            let record = load::lock(record);
            (record.completed, record.errors.count())
        };
        if let Some((phase, left)) = window.phase(client.now()) {
            let rate = count.saturating_sub(last);
            say(format_args!(
                "{phase}, {left} s left: {rate}/s, {failed} failed"
            ));
        }
        last = count;
    })
    .await?;
    Ok(())
}
