//! Hand-overs: many clients take turns with one resource, each waiting in line for its next turn.
//!
//! One watch goes along and judges the order: a fast queue that lets somebody through out of turn is worth
//! nothing.

use super::super::acquire::millis;
use super::super::exit::{self, Failure, UNAVAILABLE, UNEXPECTED};
use super::super::{connection, duration};
use super::fleet::Fleet;
use super::latency::{HEAD, Latencies, Latency, Row, many, rate};
use super::load::{Window, misnamed};
use super::nodes::{Site, Spent};
use super::order::{Happened, Judgement, Order};
use super::progress::{meanwhile, say};
use super::record::{Errors, tell_errors};
use fencepost::client::{
    AcquireOutcome, Acquired, BootInstant, Change, Client, Error, Moment, ReleaseOutcome, Watch,
    Watching,
};
use fencepost::grant::Ttl;
use fencepost::resource::{Holder, ResourceName};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;

/// How long the watch may lag behind the clients in the end.
const SETTLE_MAX: Duration = Duration::from_secs(10);

/// Arguments of `fencepost bench handover`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Each client asks for the same resource with a wait, releases it as soon as it has it, and asks again. A \
hand-over is a grant that came after waiting. A watch goes along and checks that the queue is served \
exactly in the order in which the cluster took it, that no two grants overlap, that tokens rise, and that \
each client got the grant that the watch told of. Anything else is a failure: the command then ends with \
code 1.

Examples:
  fencepost bench handover
  fencepost bench handover --clients 64 --streams 64 --duration 30s
  fencepost bench handover --clients 1000 --metrics 127.0.0.1:7300")]
pub(super) struct Args {
    /// How many clients take turns
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=8_000))]
    clients: u32,

    /// How many connections they share, each with streams of its own
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    streams: u32,

    /// How long to measure
    #[arg(long, short, value_name = "DURATION", value_parser = duration::parse, default_value = "10s")]
    duration: Duration,

    /// How long to run before measuring
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "2s")]
    warm_up: Duration,

    /// How long grants live without a renewal, 100ms to 24h
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_ttl, default_value = "30s")]
    ttl: Ttl,

    /// How long a client waits for its turn, up to 24h
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_positive, default_value = "1m")]
    wait: Duration,

    #[command(flatten)]
    site: Site,
}

/// What was counted.
#[derive(Default)]
struct Tally {
    /// Hand-overs, warm-up included.
    all: u64,
    /// Hand-overs in the window.
    handovers: u64,
    refused: u64,
    errors: Errors,
    turns: Latencies,
    releases: Latencies,
    order: Order,
    /// Why the watch ended before everything else.
    unwatched: Option<String>,
}

/// What a run measured. Its field names are stable; latencies are microseconds.
#[derive(Serialize)]
struct Report {
    operation: &'static str,
    clients: u32,
    streams: u32,
    ttl_ms: u64,
    wait_ms: u64,
    duration_ms: u64,
    cluster_id: String,
    version: String,
    handovers: u64,
    per_second: f64,
    refused: u64,
    failed: u64,
    errors: BTreeMap<String, u64>,
    order: OrderReport,
    latency_us: BTreeMap<&'static str, Latency>,
    spent: Spent,
}

/// How the queue was served.
#[derive(Serialize)]
struct OrderReport {
    /// Exactly first come first served, from the first grant to the last.
    exact: bool,
    /// Grants that were looked at.
    grants: u64,
    fault_count: u64,
    /// The first faults, in words.
    faults: Vec<String>,
    /// Why not everything was looked at.
    unwatched: Option<String>,
}

/// One client.
struct Taker {
    client: Client,
    resource: ResourceName,
    holder: Holder,
    ttl: Ttl,
    wait: Duration,
    window: Window,
    tally: Arc<Mutex<Tally>>,
}

/// Measures hand-overs.
pub(super) async fn run(args: &Args, options: &connection::Options) -> exit::Outcome {
    let fleet = Fleet::open(options, args.streams).await?;
    let client = &fleet.caller.client;
    // Of this run alone: what an earlier one left in the queue would be in the way of the judge.
    let name = format!("{}/handover/{}", args.site.prefix, std::process::id());
    let resource = ResourceName::new(name).map_err(misnamed)?;
    let tally = Arc::new(Mutex::new(Tally::default()));
    let watching = tokio::spawn(watch(
        open_watch(&fleet, &resource).await?,
        Arc::clone(&tally),
    ));
    let before = args.site.sample().await?;
    let started = client.now();
    let window = Window::after(started, args.warm_up, args.duration);
    take_turns(args, &fleet, &resource, window, &tally).await?;
    let now = client.now();
    let spent = args.site.spent_since(&before, now.since(started)).await?;
    settle(&tally).await;
    watching.abort();
    let report = report(args, &fleet, window.over(now), spent, &mut lock(&tally));
    fleet.caller.answer(&report.to_string(), &report)?;
    match report.handovers {
        _ if !report.order.exact => Err(Failure::new(
            UNEXPECTED,
            "the order is not proved, see above",
        )),
        0 => Err(Failure::new(UNAVAILABLE, "nothing was handed over")),
        _ => Ok(()),
    }
}

/// Opens a watch that misses nothing of what is asked from now on.
async fn open_watch(fleet: &Fleet, resource: &ResourceName) -> Result<Watch, Failure> {
    let mut watch = fleet.caller.client.watch(Watching::resource(resource));
    match watch.next().await {
        Some(Ok(_)) => Ok(watch),
        Some(Err(error)) => Err(fleet
            .caller
            .failed(&error, &super::super::caller::Next::none())),
        None => Err(Failure::new(UNEXPECTED, "the watch ended at once")),
    }
}

/// Feeds the judge until the watch ends.
async fn watch(mut watch: Watch, tally: Arc<Mutex<Tally>>) {
    while let Some(moment) = watch.next().await {
        match moment {
            Ok(moment) => feed(&moment, &mut lock(&tally).order),
            Err(error) if error.may_retry() => {}
            Err(error) => lock(&tally).unwatched = Some(error.to_string()),
        }
    }
}

/// Tells the judge what happened.
fn feed(moment: &Moment, order: &mut Order) {
    for event in &moment.events {
        let holder = event.holder.as_str();
        let happened = match event.change {
            Change::Queued { position } => Happened::Queued { holder, position },
            Change::Granted {
                token, after_wait, ..
            } => Happened::Granted {
                holder,
                token: token.value().get(),
                after_wait,
            },
            Change::Ended { token, .. } => Happened::Ended {
                token: token.value().get(),
            },
            Change::Left { .. } => Happened::Left { holder },
            // Nobody renews here, and news of another kind would be none of the order.
            _ => continue,
        };
        order.happened(happened);
    }
}

/// Starts all clients, and waits until each has had its last turn.
async fn take_turns(
    args: &Args,
    fleet: &Fleet,
    resource: &ResourceName,
    window: Window,
    tally: &Arc<Mutex<Tally>>,
) -> exit::Outcome {
    let mut takers = JoinSet::new();
    for (number, client) in (0..args.clients).zip(fleet.clients.iter().cycle()) {
        let holder = Holder::new(format!("{}-{number}", args.site.prefix)).map_err(misnamed)?;
        let taker = Taker {
            client: client.clone(),
            resource: resource.clone(),
            holder,
            ttl: args.ttl,
            wait: args.wait,
            window,
            tally: Arc::clone(tally),
        };
        takers.spawn(taker.run());
    }
    let mut last = 0;
    let all = async { while takers.join_next().await.is_some() {} };
    meanwhile(Duration::from_secs(1), all, || {
        let (count, failed) = {
            let tally = lock(tally);
            (tally.all, tally.errors.count())
        };
        if let Some((phase, left)) = window.phase(fleet.caller.client.now()) {
            let rate = count.saturating_sub(last);
            say(format_args!(
                "{phase}, {left} s left: {rate} hand-overs/s, {failed} failed"
            ));
        }
        last = count;
    })
    .await?;
    Ok(())
}

impl Taker {
    async fn run(self) {
        let mut now = self.client.now();
        while now < self.window.end {
            let ask = self
                .client
                .ask(self.resource.clone(), self.holder.clone(), self.ttl);
            let mut ask = ask.wait(self.wait);
            let outcome = self.client.acquire_with(&mut ask).await;
            let granted_at = self.client.now();
            match outcome {
                Ok(AcquireOutcome::Granted(acquired)) => {
                    self.turn(&acquired, now, granted_at);
                    self.release(&acquired, granted_at).await;
                }
                Ok(_) => lock(&self.tally).refused += 1,
                Err(error) => self.failed(&error),
            }
            now = self.client.now();
        }
    }

    /// Counts a turn. What counts is when it came, since whoever waits now asked long ago.
    fn turn(&self, acquired: &Acquired, asked_at: BootInstant, granted_at: BootInstant) {
        let mut tally = lock(&self.tally);
        let token = acquired.token.value().get();
        tally.order.client_was_granted(self.holder.as_str(), token);
        let handed_over = u64::from(acquired.after_wait);
        tally.all += handed_over;
        if self.window.begin <= granted_at && granted_at < self.window.end {
            tally.handovers += handed_over;
            tally.turns.took(granted_at.since(asked_at));
        }
    }

    async fn release(&self, acquired: &Acquired, granted_at: BootInstant) {
        let token = acquired.token.value();
        let released = self.client.release(&self.resource, &self.holder, token);
        match released.await {
            Ok(ReleaseOutcome::Released) => {
                let took = self.client.now().since(granted_at);
                lock(&self.tally).releases.took(took);
            }
            // Its short lease ran out before the release arrived.
            Ok(_) => lock(&self.tally).refused += 1,
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&self, error: &Error) {
        lock(&self.tally).errors.note(error);
    }
}

/// Waits until the watch has told of every grant that the clients know of.
async fn settle(tally: &Mutex<Tally>) {
    let settled = async {
        while !lock(tally).order.is_settled() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    // What is missing then is the judge's to tell.
    let _ = tokio::time::timeout(SETTLE_MAX, settled).await;
}

fn lock(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

fn report(args: &Args, fleet: &Fleet, took: Duration, spent: Spent, tally: &mut Tally) -> Report {
    let Judgement {
        grants,
        fault_count,
        faults,
    } = std::mem::take(&mut tally.order).judge();
    let unwatched = tally.unwatched.take();
    Report {
        operation: "handover",
        clients: args.clients,
        streams: args.streams,
        ttl_ms: args.ttl.as_ms(),
        wait_ms: millis(args.wait),
        duration_ms: millis(took),
        cluster_id: fleet.status.cluster_id.clone(),
        version: fleet.status.version.clone(),
        handovers: tally.handovers,
        per_second: rate(tally.handovers, took),
        refused: tally.refused,
        failed: tally.errors.count(),
        errors: tally.errors.by_kind().clone(),
        order: OrderReport {
            exact: fault_count == 0 && unwatched.is_none(),
            grants,
            fault_count,
            faults,
            unwatched,
        },
        latency_us: BTreeMap::from([
            ("turn", tally.turns.summary()),
            ("release", tally.releases.summary()),
        ]),
        spent: spent.over(tally.all),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{}: {} of one resource, {}, {:.1} s",
            self.operation,
            many(self.clients, "client"),
            many(self.streams, "connection"),
            Duration::from_millis(self.duration_ms).as_secs_f64(),
        )?;
        writeln!(
            f,
            "\n  {:.0} hand-overs a second ({} in all)",
            self.per_second, self.handovers
        )?;
        writeln!(f, "  {} refused, {} failed", self.refused, self.failed)?;
        tell_errors(f, &self.errors)?;
        let order = &self.order;
        match (order.exact, &order.unwatched) {
            (true, _) => writeln!(f, "  exactly in order, over {} grants", order.grants)?,
            (false, Some(why)) => writeln!(f, "  the watch of the order ended: {why}")?,
            (false, None) => writeln!(f, "  not in order: {} faults", order.fault_count)?,
        }
        for fault in &order.faults {
            writeln!(f, "    {fault}")?;
        }
        self.spent.tell(f)?;
        writeln!(f, "\n{HEAD}")?;
        for (call, latency) in &self.latency_us {
            writeln!(f, "{}", Row(call, latency))?;
        }
        Ok(())
    }
}
