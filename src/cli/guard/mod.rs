//! `fencepost guard`: the resource's half of fencing.
//!
//! Some of its commands talk to a cluster and some do not; [`LOCAL`] names the latter.

mod probe;
mod sql;

use super::{connection, exit};
use clap::Subcommand;

/// Arguments of `fencepost guard`.
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
A token protects nothing until the resource refuses lower ones. Make a table refuse stale writers by itself:
  fencepost guard sql --dialect postgres --table accounts --add-column > guard-accounts.sql
  less guard-accounts.sql                                      # review it
  psql -v ON_ERROR_STOP=1 -f guard-accounts.sql bank           # apply it
Hold a web service, in any language, to the contract of the headers:
  fencepost guard probe --list-checks
  fencepost guard probe http://127.0.0.1:8080/accounts/{resource}      # writes: a test instance only"
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

/// What can be done about guards.
#[derive(Debug, Subcommand)]
enum Command {
    /// Print SQL that makes a database refuse stale writers by itself
    Sql(sql::Args),
    /// Hold an HTTP service, in any language, to the header contract
    Probe(probe::Args),
}

/// The commands below `guard` that talk to no cluster, and therefore hide the connection options.
const LOCAL: [&str; 2] = ["sql", "probe"];

/// Hides the connection options where they have no meaning. They are offered once the command line knows
/// of a command that has a use for them.
pub(crate) fn hide_connection(command: clap::Command) -> clap::Command {
    let all_local = command
        .get_subcommands()
        .all(|command| LOCAL.contains(&command.get_name()));
    let command = LOCAL.iter().fold(command, |command, name| {
        command.mut_subcommand(name, connection::hide)
    });
    match all_local {
        true => connection::hide(command),
        false => command,
    }
}

pub(crate) fn run(args: &Args, _connection: &connection::Options) -> exit::Outcome {
    match &args.command {
        Command::Sql(args) => sql::run(args),
        Command::Probe(args) => probe::run(args),
    }
}
