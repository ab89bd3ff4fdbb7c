//! `fencepost cluster`: the membership, and who leads.

mod catch_up;
mod members;
mod show;

use super::caller::Caller;
use super::exit;
use clap::Subcommand;

/// Arguments of `fencepost cluster`.
#[derive(Debug, clap::Args)]
#[command(
    arg_required_else_help = true,
    after_help = "\
To replace a node that is lost (id 2, say) by a new one under a new id:
  fencepost cluster remove-node 2                      # first, so that the dead node no longer counts
  fencepost serve --node-id 4 --join ...               # on the new machine, with a blank directory
  fencepost cluster add-node 4 new-host:7200 --promote

A node id is never used again. A change that would leave too few nodes to decide is refused."
)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

/// What can be asked about the membership.
#[derive(Debug, Subcommand)]
enum Command {
    /// Show every member: its role, how far it has come, and whether it answers
    Status(show::Args),
    /// Add a running, blank node, and wait until it has caught up
    AddNode(members::AddArgs),
    /// Give a node that has caught up a vote
    Promote(members::PromoteArgs),
    /// Take a node out, alive or dead
    RemoveNode(members::RemoveArgs),
    /// Hand leadership to another node
    TransferLeader(members::TransferArgs),
}

pub(crate) async fn run(args: Args, caller: Caller) -> exit::Outcome {
    match args.command {
        Command::Status(_) => show::run(caller).await,
        Command::AddNode(args) => members::add(args, caller).await,
        Command::Promote(args) => members::promote(args, caller).await,
        Command::RemoveNode(args) => members::remove(args, caller).await,
        Command::TransferLeader(args) => members::transfer(args, caller).await,
    }
}
