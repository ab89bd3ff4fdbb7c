//! `fencepost bench`: load against a running cluster, and what came of it.
//!
//! The load shares its machine with the nodes in most measurements, so it must be cheap itself: one thread
//! runs all workers, each call goes straight to the leader over connections that are kept, and nothing is
//! printed while it measures but one line a second.

mod calls;
mod churn;
mod expire;
mod fleet;
mod handover;
mod hold;
mod keep_alive;
mod latency;
mod load;
mod nodes;
mod order;
mod progress;
mod record;
mod report;

use super::{caller, connection, exit};
use load::Operation;

/// Arguments of `fencepost bench`.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_value_name = "SCENARIO",
    subcommand_help_heading = "Scenarios",
    after_help = "\
Without a scenario: acquire-release. Options come after the scenario's name. Latencies are those of whole \
calls as a user of the client library sees them, repeats included. Each worker has resources of its own \
unless there are fewer resources than workers; then workers refuse each other, which is counted apart. \
Grants that are left over end with their TTL. Ctrl-C ends a run early, and tells what it measured so far.

Examples:
  fencepost bench
  fencepost bench --concurrency 256 --connections 4 --duration 30s
  fencepost bench acquire --resources 100000 --ttl 1h     # 100,000 live leases
  fencepost bench renew --concurrency 64 --output json"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    scenario: Option<Scenario>,
    #[command(flatten)]
    calls: calls::Settings,
}

/// What is measured.
#[derive(Debug, clap::Subcommand)]
enum Scenario {
    /// Acquire a free resource and release it: a pair
    #[command(
        after_help = "Examples:\n  fencepost bench acquire-release --concurrency 256 --streams 4"
    )]
    AcquireRelease(calls::Settings),
    /// Acquire again what it holds: a new grant each time
    #[command(
        after_help = "Examples:\n  fencepost bench acquire --resources 100000 --ttl 1h     # 100,000 live leases"
    )]
    Acquire(calls::Settings),
    /// Renew what it holds
    #[command(after_help = "Examples:\n  fencepost bench renew --concurrency 64 --output json")]
    Renew(calls::Settings),
    /// Ask who holds a resource
    #[command(
        after_help = "Examples:\n  fencepost bench inspect --concurrency 64 --metrics 127.0.0.1:7300"
    )]
    Inspect(calls::Settings),
    /// Take turns with one resource: how many hand-overs a second, and exactly in order
    Handover(handover::Args),
    /// Keep leases alive: how many a second
    KeepAlive(keep_alive::Args),
    /// Hold many leases in the background: none is lost, and acquires are hardly slower
    Hold(hold::Args),
    /// Let many leases run out together: how late the last one ends, and how the others fare
    Expire(expire::Args),
    /// Let leases, watches and waits come and go: the memory of the nodes stays flat
    Churn(churn::Args),
}

/// Runs the load on this thread alone.
pub(crate) fn run(args: &Args, options: &connection::Options) -> exit::Outcome {
    let load = async {
        match &args.scenario {
            None => calls::run(Operation::AcquireRelease, &args.calls, options).await,
            Some(Scenario::AcquireRelease(args)) => {
                calls::run(Operation::AcquireRelease, args, options).await
            }
            Some(Scenario::Acquire(args)) => calls::run(Operation::Acquire, args, options).await,
            Some(Scenario::Renew(args)) => calls::run(Operation::Renew, args, options).await,
            Some(Scenario::Inspect(args)) => calls::run(Operation::Inspect, args, options).await,
            Some(Scenario::Handover(args)) => handover::run(args, options).await,
            Some(Scenario::KeepAlive(args)) => keep_alive::run(args, options).await,
            Some(Scenario::Expire(args)) => expire::run(args, options).await,
            Some(Scenario::Churn(args)) => churn::run(args, options).await,
            Some(Scenario::Hold(args)) => hold::run(args, options).await,
        }
    };
    caller::runtime()?.block_on(load)
}
