//! The command line. This file is the root: what commands there are, and how a run ends.
//!
//! Commands that talk to a cluster take the [`connection`] options before or after their name; those
//! that do not (`serve`, `dev`, ...) hide them, so that each `--help` shows only what has a meaning.
//! A command returns [`exit::Outcome`]; only [`main`] prints a failure and turns it into a code.

mod acquire;
mod bench;
mod caller;
mod cluster;
mod completions;
mod connection;
mod demo;
mod dev;
#[cfg(test)]
mod documents;
mod duration;
mod end;
mod exit;
mod floor;
mod guard;
mod hold;
mod holder;
mod in_line;
mod leash;
mod look;
mod man;
mod number;
mod ports;
mod serve;
mod status;
mod stop;
mod wait;
mod watch;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use std::process::ExitCode;

/// What stands above the list of commands in `fencepost --help`.
const ABOUT: &str = "Issues fencing tokens: exclusive, time-limited access to named resources";

/// The tutorial part of `fencepost --help`.
const AFTER_HELP: &str = "\
A grant carries a fencing token, greater than the token of every grant before it. Send the token along \
with each write; the resource refuses a lower one than it has seen. So a holder that was paused or cut off \
does no harm.

Try it:
  fencepost demo                          # the idea, in 20 seconds
  fencepost dev                           # a cluster of three on this machine; then, elsewhere:
  fencepost acquire nightly-report
  fencepost hold nightly-report -- ./run-report   # acquires, renews, runs, releases
  fencepost list

Exit codes: 0 done; 1 unexpected; 2 usage; 3 refused by the rules (held by another, not the holder any \
more); 4 unavailable, certainly without effect; 5 unknown outcome; 6 a watch would have a gap. Those of a \
node, and of `hold`, are in docs/operations.md.";

/// The root of the command line.
#[derive(Debug, Parser)]
#[command(name = "fencepost", version, about = ABOUT, after_long_help = AFTER_HELP, max_term_width = 100)]
#[command(
    subcommand_required = true,
    arg_required_else_help = true,
    disable_help_subcommand = true
)]
struct Cli {
    #[command(flatten)]
    connection: connection::Options,
    #[command(subcommand)]
    command: Command,
}

/// What `fencepost` can do; the order is the one of the help page.
#[derive(Debug, Subcommand)]
enum Command {
    /// Run one node of a cluster
    Serve(serve::Args),
    /// Ask for a resource
    Acquire(acquire::Args),
    /// Run a command while holding a resource
    Hold(hold::Args),
    /// Keep a grant alive for another TTL
    Renew(end::RenewArgs),
    /// Give a resource back
    Release(end::ReleaseArgs),
    /// Show who holds a resource
    Inspect(look::InspectArgs),
    /// List what is held
    List(look::ListArgs),
    /// Tell what happens to resources, as it happens
    Watch(watch::Args),
    /// Wait until a resource is free
    Wait(wait::Args),
    /// Take a grant away from its holder
    Revoke(end::RevokeArgs),
    /// Show how the cluster is
    Status(status::Args),
    /// Change the membership, hand over leadership, look at every node
    Cluster(cluster::Args),
    /// Lift all further tokens above a number
    RaiseFloor(floor::Args),
    /// The resource's half: make it refuse stale writers
    Guard(guard::Args),
    /// Measure a running cluster under load
    Bench(bench::Args),
    /// Run a whole cluster on this machine, to play with
    Dev(dev::Args),
    /// See what fencing tokens are for: a story of 20 seconds, with real processes
    Demo(demo::Args),
    /// Print a completion script for a shell
    Completions(completions::Args),
    /// Print the manual page, or write one page a command into a directory
    Man(man::Args),
    /// What `hold` starts beside and before the command
    #[command(name = hold::PART, hide = true)]
    HoldPart(hold::PartArgs),
}

/// The commands that talk to no cluster, and therefore hide the connection options.
const LOCAL: [&str; 6] = ["serve", "dev", "demo", "completions", "man", hold::PART];

/// The whole command tree as clap sees it, also for completions and manual pages.
fn command() -> clap::Command {
    let root = Cli::command().mut_subcommand("guard", guard::hide_connection);
    LOCAL.iter().fold(root, |root, name| {
        if root.find_subcommand(name).is_none() {
            return root;
        }
        root.mut_subcommand(name, connection::hide)
    })
}

/// Parses the arguments, runs the command, reports a failure on standard error.
pub(crate) fn main() -> ExitCode {
    let cli = match command()
        .try_get_matches()
        .and_then(|matches| Cli::from_arg_matches(&matches))
    {
        Ok(cli) => cli,
        Err(error) => return exit::usage(&error, hold::usage_code()),
    };
    exit::report(run(cli))
}

fn run(cli: Cli) -> exit::Outcome {
    let connection = &cli.connection;
    match cli.command {
        Command::Serve(args) => serve::run(args),
        Command::Acquire(args) => caller::run(connection, |caller| acquire::run(args, caller)),
        Command::Hold(args) => hold::run(args, connection),
        Command::HoldPart(args) => hold::part(args),
        Command::Renew(args) => caller::run(connection, |caller| end::renew(args, caller)),
        Command::Release(args) => caller::run(connection, |caller| end::release(args, caller)),
        Command::Inspect(args) => caller::run(connection, |caller| look::inspect(args, caller)),
        Command::List(args) => caller::run(connection, |caller| look::list(args, caller)),
        Command::Watch(args) => caller::run(connection, |caller| watch::run(args, caller)),
        Command::Wait(args) => caller::run(connection, |caller| wait::run(args, caller)),
        Command::Revoke(args) => caller::run(connection, |caller| end::revoke(args, caller)),
        Command::Status(_) => caller::run(connection, status::run),
        Command::Cluster(args) => caller::run(connection, |caller| cluster::run(args, caller)),
        Command::Bench(args) => bench::run(&args, connection),
        Command::RaiseFloor(args) => caller::run(connection, |caller| floor::run(args, caller)),
        Command::Guard(args) => guard::run(&args, connection),
        Command::Dev(args) => dev::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_tree_is_consistent() {
        super::command().debug_assert();
    }
}
