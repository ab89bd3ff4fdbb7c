//! `fencepost demo`: what fencing tokens are for, as a story with real parts.
//!
//! Real nodes, a real holder that is really stopped, a real file with a guard, real kills. Each claim
//! on the screen is checked when it is made, and the first one that does not hold ends the story with
//! an exit code other than 0. Whatever happens, no process and no file is left behind, save what
//! `--keep` or a failed claim keeps to be looked at.

mod holder;
mod leash;
mod nodes;
mod puppet;
mod screen;
mod stage;
mod story;

use std::time::Duration;

use clap::Subcommand;

use super::{
    duration,
    exit::{self, Failure},
    stop::Stop,
};
use screen::Screen;
use stage::Stage;

const AFTER_HELP: &str = "\
It needs nothing and leaves nothing behind: three nodes on free ports of 127.0.0.1, in a temporary
directory. It checks each of its claims and exits with 1 if one does not hold.

Next: fencepost dev, a cluster to play with";

/// Arguments of `fencepost demo`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    /// How long to wait after each chapter, for reading; nothing is waited for where no terminal shows it
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, default_value = "3s")]
    reading: Duration,

    /// Keep the directory with the nodes' data and logs, and say where it is
    #[arg(long)]
    keep: bool,

    #[command(subcommand)]
    part: Option<Part>,
}

/// The parts that processes of the story play.
#[derive(Debug, Subcommand)]
enum Part {
    #[command(name = leash::NAME, hide = true)]
    Leashed(leash::Args),
    #[command(name = holder::NAME, hide = true)]
    Holder(holder::Args),
}

/// Tells the story, or plays a part in it.
pub(crate) fn run(args: &Args) -> exit::Outcome {
    if let Some(Part::Leashed(part)) = &args.part {
        return leash::run(part);
    }
    // One thread: the kernel ends a leashed process with the *thread* that started it.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    match &args.part {
        Some(Part::Holder(part)) => runtime.block_on(holder::run(part)),
        _ => runtime.block_on(perform(args)),
    }
}

async fn perform(args: &Args) -> exit::Outcome {
    let mut stop = Stop::listen()?;
    let mut screen = Screen::new(args.reading);
    screen.headline(
        "fencepost demo: what fencing tokens are for, with real processes and real kills",
    )?;
    let mut stage = Stage::set().await?;
    let (told, keep) = tokio::select! {
        told = story::tell(&mut screen, &mut stage) => {
            // What went wrong is to be looked at; a reader who went away is nothing wrong.
            let failed = told.as_ref().is_err_and(|failure| !failure.is_silent());
            (told, args.keep || failed)
        }
        code = stop.requested() => (Err(Failure::silent(code)), args.keep),
    };
    let kept = stage.strike(keep).await;
    if let Err(failure) = told {
        return Err(match kept {
            Ok(Some(kept)) => failure.hint(format_args!(
                "the nodes' data and logs are kept in {}",
                kept.display()
            )),
            _ => failure,
        });
    }
    let (claims, seconds) = (screen.claims(), screen.elapsed().as_secs_f64());
    screen.headline(format_args!(
        "\nAll {claims} claims held, in {seconds:.1} s."
    ))?;
    match kept? {
        Some(kept) => screen.tell(&format!(
            "The nodes' data and logs are in {}.",
            kept.display()
        ))?,
        None => screen.tell("All processes are gone, and so is the directory they used.")?,
    }
    screen.tell("To go on: fencepost dev")?;
    Ok(())
}
