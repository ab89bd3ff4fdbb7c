//! `fencepost cluster add-node`, `promote`, `remove-node` and `transfer-leader`.

use super::super::caller::{Caller, Next};
use super::super::duration;
use super::super::exit;
use super::super::number::counted;
use super::catch_up;
use serde::Serialize;
use std::time::Duration;

/// A change whose outcome is not known may have been made: the membership tells.
fn look_first() -> Next {
    Next::new(
        "Look at the members before you try again:",
        "fencepost cluster status".to_owned(),
    )
}

/// Arguments of `fencepost cluster add-node`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The node must be running and blank, started with --join. It receives the log as a learner, without a vote, \
and cannot weaken the cluster while it catches up.

Examples:
  fencepost cluster add-node 4 10.0.0.4:7200
  fencepost cluster add-node 4 10.0.0.4:7200 --promote --wait 10m")]
pub(super) struct AddArgs {
    /// A number that no node of this cluster has had before
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    node_id: u64,
    /// host:port of its peer listener
    peer_address: String,
    /// Give it a vote as soon as it has caught up
    #[arg(long)]
    promote: bool,
    /// How long to wait until it has caught up
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "5m")]
    wait: Duration,
    /// Return as soon as it is added
    #[arg(long, conflicts_with_all = ["promote", "wait"])]
    no_wait: bool,
}

/// Arguments of `fencepost cluster promote`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  fencepost cluster promote 4")]
pub(super) struct PromoteArgs {
    /// The node that gets a vote
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    node_id: u64,
    /// How long to wait until it has caught up
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "5m")]
    wait: Duration,
}

/// Arguments of `fencepost cluster remove-node`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Works for a dead node too. Refused when the remaining nodes could not decide. The id is never used again: its \
directory can be deleted, and the machine may come back under a new id.

Example:
  fencepost cluster remove-node 2")]
pub(super) struct RemoveArgs {
    /// The node that leaves
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    node_id: u64,
}

/// Arguments of `fencepost cluster transfer-leader`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Before maintenance: no lease ends and no token is lost, and grants go on within moments.

Examples:
  fencepost cluster transfer-leader       # to the node that is furthest along
  fencepost cluster transfer-leader 3")]
pub(super) struct TransferArgs {
    /// The node that is to lead
    #[arg(value_parser = clap::value_parser!(u64).range(1..))]
    node_id: Option<u64>,
}

pub(super) async fn add(args: AddArgs, caller: Caller) -> exit::Outcome {
    let id = args.node_id;
    let member = caller.client.add_node(id, &args.peer_address).await;
    let member = member.map_err(|error| caller.failed(&error, &look_first()))?;
    let address = member.map_or(args.peer_address, |member| member.peer_address);
    let then = format!("give it a vote with `fencepost cluster promote {id}`");
    if args.no_wait {
        let human =
            format!("Added node {id} at {address} as a learner. When it has caught up, {then}.");
        return caller.answer(&human, &Done::new("added", id));
    }
    catch_up::wait(&caller, id, args.wait).await?;
    if args.promote {
        return give_vote(id, &caller).await;
    }
    let human = format!("Added node {id} at {address} as a learner. It has caught up: {then}.");
    caller.answer(&human, &Done::new("caught_up", id))
}

pub(super) async fn promote(args: PromoteArgs, caller: Caller) -> exit::Outcome {
    catch_up::wait(&caller, args.node_id, args.wait).await?;
    give_vote(args.node_id, &caller).await
}

async fn give_vote(id: u64, caller: &Caller) -> exit::Outcome {
    let promoted = caller.client.promote(id).await;
    promoted.map_err(|error| caller.failed(&error, &look_first()))?;
    caller.answer(
        &format!("Node {id} has a vote now."),
        &Done::new("promoted", id),
    )
}

pub(super) async fn remove(args: RemoveArgs, caller: Caller) -> exit::Outcome {
    let id = args.node_id;
    let removed = caller.client.remove_node(id).await;
    removed.map_err(|error| caller.failed(&error, &look_first()))?;
    // Only for people: that the node is out does not depend on it.
    let left = caller.client.status().await.ok().map(|status| {
        let voters = status.members.iter().filter(|member| member.voter).count();
        let losses = voters.saturating_sub(1) / 2;
        format!(
            "\n{} left: the cluster bears the loss of {losses}.",
            counted(voters, "voting node")
        )
    });
    let human = format!(
        "Removed node {id}. Its id is never used again; stop it if it still runs.{}",
        left.unwrap_or_default()
    );
    caller.answer(&human, &Done::new("removed", id))
}

pub(super) async fn transfer(args: TransferArgs, caller: Caller) -> exit::Outcome {
    let leader = caller.client.transfer_leader(args.node_id).await;
    let leader = leader.map_err(|error| caller.failed(&error, &look_first()))?;
    let human = match &leader {
        Some(leader) => format!(
            "Node {} ({}) leads now, in term {}.",
            leader.node_id, leader.address, leader.term
        ),
        None => "Leadership was handed over.".to_owned(),
    };
    let id = leader.map(|leader| leader.node_id).or(args.node_id);
    caller.answer(
        &human,
        &Transferred {
            outcome: "transferred",
            node_id: id,
        },
    )
}

#[derive(Serialize)]
struct Done {
    outcome: &'static str,
    node_id: u64,
}

impl Done {
    fn new(outcome: &'static str, node_id: u64) -> Self {
        Self { outcome, node_id }
    }
}

#[derive(Serialize)]
struct Transferred {
    outcome: &'static str,
    node_id: Option<u64>,
}
