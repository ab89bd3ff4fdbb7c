//! `fencepost raise-floor`: lift all further tokens.

use super::caller::{Caller, Next};
use super::exit;
use serde::Serialize;

/// Arguments of `fencepost raise-floor`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
For migrations, and after a restore gone wrong (`fencepost guard report` tells): when guards have already \
admitted tokens of another system, or of a lost past, name the highest of them, and every token from now on is \
greater. It can be repeated, and never lowers anything. It is refused beyond the \
number of microseconds since 1970, so that a later restore from a backup can still go higher.

Example:
  fencepost raise-floor 5000000
  fencepost raise-floor --above 5000000       # the same")]
pub(crate) struct Args {
    /// The number that all further tokens must exceed
    #[arg(required_unless_present = "named", conflicts_with = "named")]
    above: Option<u64>,
    /// The same, by name
    #[arg(long = "above", value_name = "ABOVE")]
    named: Option<u64>,
}

pub(crate) async fn run(args: Args, caller: Caller) -> exit::Outcome {
    let above = args.above.or(args.named).unwrap_or_default();
    let before = caller.client.status().await;
    let before = before.map_err(|error| caller.failed(&error, &Next::none()))?;
    let floor = caller.client.raise_floor(above).await;
    let next = Next::repeat(
        "It is safe to repeat this command: the floor is absolute, and never lowered.",
    );
    let floor = floor.map_err(|error| caller.failed(&error, &next))?;
    // The floor never falls: if it was as high before, this command has not moved it.
    let every = match floor == before.floor {
        true => "Nothing had to change: every",
        false => "Every",
    };
    let human = format!("{every} token from now on is greater than {above}. The floor is {floor}.");
    let json = FloorJson {
        outcome: "raised",
        above: above.to_string(),
        floor: floor.to_string(),
    };
    caller.answer(&human, &json)
}

#[derive(Serialize)]
struct FloorJson {
    outcome: &'static str,
    above: String,
    floor: String,
}
