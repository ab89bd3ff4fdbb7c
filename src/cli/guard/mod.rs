//! `fencepost guard`: the resource's half of fencing.
//!
//! Some of its commands talk to a cluster and some do not; [`LOCAL`] names the latter.

mod probe;
mod register;
mod report;
mod sql;

use super::{caller, connection, exit};
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
  fencepost guard probe http://127.0.0.1:8080/accounts/{resource}      # writes: a test instance only
Or let the cluster be the guard of what has no table, and hear whether a restore went wrong:
  TOKEN=$(fencepost acquire door-7 --quiet)
  fencepost guard admit door-7 \"$TOKEN\" && open-door
  fencepost guard report door-7 \"$TOKEN\""
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
    /// Present a token to the cluster's own guard register
    Admit(register::AdmitArgs),
    /// Show the highest token that the register has admitted for a resource
    HighWater(register::HighWaterArgs),
    /// Tell the issuer what guards have admitted, and hear whether it was ever issued
    Report(report::Args),
}

/// The commands below `guard` that talk to no cluster, and therefore hide the connection options.
const LOCAL: [&str; 2] = ["sql", "probe"];

/// Hides the connection options where they have no meaning.
pub(crate) fn hide_connection(command: clap::Command) -> clap::Command {
    LOCAL.iter().fold(command, |command, name| {
        command.mut_subcommand(name, connection::hide)
    })
}

pub(crate) fn run(args: &Args, connection: &connection::Options) -> exit::Outcome {
    match &args.command {
        Command::Sql(args) => sql::run(args),
        Command::Probe(args) => probe::run(args),
        Command::Admit(args) => caller::run(connection, |caller| register::admit(args, caller)),
        Command::HighWater(args) => {
            caller::run(connection, |caller| register::high_water(args, caller))
        }
        Command::Report(args) => caller::run(connection, |caller| report::run(args, caller)),
    }
}
