//! Churn: very many leases, watches and waits that come and go, and what the nodes keep of them: nothing.
//!
//! Memory that grows with what has *been* ends every server some day. The memory of each node is read after
//! each round, so that a slope shows, and not only an end.

use super::super::caller::Next;
use super::super::connection;
use super::super::exit::{self, Failure, UNEXPECTED, USAGE};
use super::fleet::{Fleet, Named, Spoiled, taken};
use super::nodes::{Sample, Site, mebibytes};
use super::progress::say;
use fencepost::client::{AcquireOutcome, Client, Renewal, Watching};
use fencepost::grant::Ttl;
use fencepost::resource::ResourceName;
use serde::Serialize;
use std::fmt;
use std::time::Duration;

/// How long a wait would last if nobody cancelled it.
const WAIT: Duration = Duration::from_secs(3_600);

/// How long a wait that is to be cancelled may take to stand in line.
const JOIN_MAX: Duration = Duration::from_secs(10);

/// How long the nodes have to come to rest before their memory is read: longer than a place that nobody
/// vouches for lives.
const REST: Duration = Duration::from_secs(3);

/// Arguments of `fencepost bench churn`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
In each round its share of the resources is acquired and released, of the watches opened, read once and \
dropped, and of the waits put in line behind a held resource and cancelled there. Then the memory of every \
node is read: the first rounds fill what has a fixed size (the memory of request ids, the history for \
watches, the newest entries), and after that it stays flat but for snapshots. --metrics is required.

Examples:
  fencepost bench churn --metrics 127.0.0.1:7300
  fencepost bench churn --cycles 1000000 --watches 50000 --waits 50000 --metrics 10.0.0.1:7300,10.0.0.2:7300")]
pub(super) struct Args {
    /// How many acquires and releases in all
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=100_000_000))]
    cycles: u32,

    /// How many watches are opened and dropped in all
    #[arg(long, default_value_t = 50_000)]
    watches: u32,

    /// How many waits are begun and cancelled in all
    #[arg(long, default_value_t = 50_000)]
    waits: u32,

    /// In how many rounds
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: u32,

    /// How many clients do it, each with a stream of its own
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    streams: u32,

    #[command(flatten)]
    site: Site,
}

/// What a run measured. Its field names are stable.
#[derive(Serialize)]
struct Report {
    operation: &'static str,
    cluster_id: String,
    version: String,
    streams: u32,
    /// The first is the one before anything was done.
    rounds: Vec<Round>,
    /// What was left in the state of a node at the end: what others hold.
    live_leases: u64,
}

/// The nodes after so much.
#[derive(Serialize)]
struct Round {
    cycles: u32,
    watches: u32,
    waits: u32,
    /// In the order of `--metrics`.
    node_resident_bytes: Vec<u64>,
}

/// Measures what is left of what came and went.
pub(super) async fn run(args: &Args, options: &connection::Options) -> exit::Outcome {
    if args.site.metrics.is_empty() {
        let message = "churn reads the memory of the nodes: name their HTTP ports with --metrics";
        return Err(Failure::new(USAGE, message));
    }
    let fleet = Fleet::open(options, args.streams).await?;
    let before = fleet.status.live_leases;
    let mut rounds = vec![Round::after(args, 0, &args.site.sample().await?)];
    for round in 1..=args.rounds {
        cycles(args, &fleet, round).await?;
        watches(args, &fleet, round).await?;
        waits(args, &fleet, round).await?;
        tokio::time::sleep(REST).await;
        let done = Round::after(args, round, &args.site.sample().await?);
        say(format_args!("{done}"));
        rounds.push(done);
    }
    let status = fleet.caller.client.status().await;
    let status = status.map_err(|error| fleet.caller.failed(&error, &Next::none()))?;
    let report = Report {
        operation: "churn",
        cluster_id: fleet.status.cluster_id.clone(),
        version: fleet.status.version.clone(),
        streams: args.streams,
        rounds,
        live_leases: status.live_leases,
    };
    fleet.caller.answer(&report.to_string(), &report)?;
    if report.live_leases > before {
        let left = report.live_leases - before;
        return Err(Failure::new(
            UNEXPECTED,
            format_args!("{left} leases were left behind"),
        ));
    }
    Ok(())
}

/// The share of `all` that is due in `round`, so that the sum over all rounds is exact.
fn share(all: u32, round: u32, rounds: u32) -> u32 {
    upto(all, round, rounds) - upto(all, round - 1, rounds)
}

/// How much of `all` is done after `round`.
fn upto(all: u32, round: u32, rounds: u32) -> u32 {
    let done = u64::from(all) * u64::from(round) / u64::from(rounds);
    u32::try_from(done).unwrap_or(u32::MAX)
}

/// Acquires and releases, each time another resource.
async fn cycles(args: &Args, fleet: &Fleet, round: u32) -> exit::Outcome {
    let prefix = format!("{}-cycle-{round}", args.site.prefix);
    let cycle = move |client: Client, number| {
        let named = Named::numbered(&prefix, number);
        async move {
            let named = named?;
            let renewal = named.clone().acquire(&client, Ttl::default()).await?;
            let released = client.release(&named.resource, &named.holder, renewal.token);
            released.await?;
            Ok(())
        }
    };
    let count = share(args.cycles, round, args.rounds);
    let what = format!("round {round}, acquired and released");
    fleet.prepare(&what, count, cycle).await?;
    Ok(())
}

/// Opens watches until they say where they begin, and drops them.
async fn watches(args: &Args, fleet: &Fleet, round: u32) -> exit::Outcome {
    let prefix = args.site.prefix.clone();
    let open = move |client: Client, number: u32| {
        let mut watch = client.watch(Watching::prefix(format!("{prefix}-watched-{number}/")));
        async move {
            match watch.next().await {
                Some(Ok(_)) => Ok(()),
                Some(Err(error)) => Err(Spoiled::Call(error)),
                None => Err(Failure::new(UNEXPECTED, "a watch ended at once").into()),
            }
        }
    };
    let count = share(args.watches, round, args.rounds);
    fleet
        .prepare(&format!("round {round}, watched"), count, open)
        .await?;
    Ok(())
}

/// Puts waits in line behind one lease, and cancels each once it stands there.
async fn waits(args: &Args, fleet: &Fleet, round: u32) -> exit::Outcome {
    let count = share(args.waits, round, args.rounds);
    if count == 0 {
        return Ok(());
    }
    let prefix = format!("{}-waited", args.site.prefix);
    let blocked = Named::numbered(&prefix, 0)?;
    let client = fleet.caller.client.clone();
    let ttl = Ttl::try_from(WAIT).unwrap_or_default();
    let held = blocked.clone().acquire(&client, ttl).await;
    let held: Renewal = held.map_err(|spoiled| fleet.explain(spoiled))?;
    let resource = blocked.resource.clone();
    let wait = move |client: Client, number: u32| {
        let named = Named::numbered(&prefix, number + 1);
        let resource = resource.clone();
        async move { stand_in_line(&client, resource, named?).await }
    };
    let what = format!("round {round}, waited and cancelled");
    let waited = fleet.prepare(&what, count, wait).await;
    for client in &fleet.clients {
        client.settled().await;
    }
    let released = client
        .release(&blocked.resource, &blocked.holder, held.token)
        .await;
    waited?;
    released.map_err(|error| fleet.caller.failed(&error, &Next::none()))?;
    Ok(())
}

/// Waits for `resource` until it stands in line, and cancels.
async fn stand_in_line(
    client: &Client,
    resource: ResourceName,
    named: Named,
) -> Result<(), Spoiled> {
    let mut ask = client
        .ask(resource.clone(), named.holder.clone(), Ttl::default())
        .wait(WAIT);
    let asking = client.acquire_with(&mut ask);
    let in_line = async {
        loop {
            let seen = client.position(&resource, &named.holder).await?;
            if seen.position.is_some() {
                return Ok::<_, Spoiled>(());
            }
        }
    };
    // Dropping the asking withdraws it.
    tokio::select! {
        outcome = asking => match outcome? {
            AcquireOutcome::Granted(_) => Err(taken(&resource, "it was free").into()),
            AcquireOutcome::Held(by) => Err(taken(&resource, by).into()),
            AcquireOutcome::Ended(ended) => Err(taken(&resource, ended.how).into()),
            AcquireOutcome::Left(how) => Err(taken(&resource, how).into()),
        },
        stands = tokio::time::timeout(JOIN_MAX, in_line) => match stands {
            Ok(stands) => stands,
            Err(_) => Err(taken(&resource, "the wait did not come to stand in line").into()),
        },
    }
}

impl Round {
    fn after(args: &Args, round: u32, sample: &Sample) -> Self {
        let upto = |all| upto(all, round, args.rounds);
        Self {
            cycles: upto(args.cycles),
            watches: upto(args.watches),
            waits: upto(args.waits),
            node_resident_bytes: sample.resident_bytes(),
        }
    }
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "after {:>9} cycles, {:>7} watches, {:>7} waits: {}",
            self.cycles,
            self.watches,
            self.waits,
            mebibytes(&self.node_resident_bytes)
        )
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "churn: resident memory of the nodes\n")?;
        for round in &self.rounds {
            writeln!(f, "  {round}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_of_all_rounds_are_the_whole() {
        for (all, rounds) in [(1_000_000, 10), (7, 3), (2, 10), (0, 4)] {
            let shares: u32 = (1..=rounds).map(|round| share(all, round, rounds)).sum();
            assert_eq!(shares, all, "{rounds} rounds");
        }
    }
}
