//! `fencepost dev`: a whole cluster in one process, to play with and to develop against.
//!
//! It is a real cluster: nodes with real ports and real directories, which only share a process. So it
//! shows everything but what happens when one of them dies alone; `fencepost demo` shows that.

mod cluster;
mod guide;
mod place;

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use fencepost::server::telemetry::{LogFormat, check_level, start_logging};

use super::{
    exit::{self, CONFIGURATION, Failure},
    ports,
    stop::Stop,
};
use cluster::Cluster;
use place::{Place, Wanted};

const AFTER_HELP: &str = "\
Node 1 takes calls on 127.0.0.1:7100, node 2 on 7101 and so on, where the client commands look by
themselves. Peers are 100 above, metrics 200 above. If one of those is busy, a new cluster takes
others and says so; an existing one keeps its own.

Everything is kept in the directory; the same command goes on where it was. Ctrl-C stops it.

Examples:
  fencepost dev                        # three nodes, kept in ./fencepost-dev
  fencepost dev --nodes 1 --ephemeral  # the smallest, gone afterwards";

/// Arguments of `fencepost dev`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// How many nodes: 1, 3 or 5; 3 for a new cluster, and what it has for an existing one
    #[arg(long, value_name = "COUNT", value_parser = node_count)]
    nodes: Option<usize>,

    /// Where everything is kept; made if it does not exist
    #[arg(long, value_name = "DIRECTORY", default_value = "./fencepost-dev")]
    dir: PathBuf,

    /// Keep nothing: use a temporary directory, and remove it at the end
    #[arg(long, conflicts_with = "dir")]
    ephemeral: bool,

    /// The client port of node 1 in a new cluster; 7100 unless that is busy
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,

    /// What the nodes log on standard error: error, warn, info, debug, trace
    #[arg(long, value_name = "LEVEL", value_parser = log_level, default_value = "warn")]
    log_level: String,
}

fn node_count(text: &str) -> Result<usize, &'static str> {
    match text {
        "1" => Ok(1),
        "3" => Ok(3),
        "5" => Ok(5),
        "2" | "4" => {
            Err("an even number bears no more failures than the odd one below it: 1, 3 or 5")
        }
        _ => Err("it must be 1, 3 or 5"),
    }
}

fn log_level(text: &str) -> Result<String, String> {
    check_level(text).map(|()| text.to_owned())
}

/// Runs the cluster until it is told to stop.
pub(crate) fn run(args: &Args) -> exit::Outcome {
    start_logging(LogFormat::Text, &args.log_level)
        .map_err(|reason| Failure::new(CONFIGURATION, reason))?;
    let temporary = match args.ephemeral {
        true => Some(
            tempfile::Builder::new()
                .prefix("fencepost-dev-")
                .tempdir()?,
        ),
        false => None,
    };
    let directory = temporary.as_ref().map_or(&*args.dir, |it| it.path());
    let wanted = Wanted {
        nodes: args.nodes,
        port: args.port,
    };
    let place = Place::open(directory, wanted, &ports::is_free)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("fencepost")
        .build()?;
    let ran = runtime.block_on(play(&place, args.ephemeral));
    // A thread that hangs in the kernel on a dead disk must not keep the process.
    runtime.shutdown_background();
    drop(place);
    if let Some(temporary) = temporary {
        temporary.close()?;
    }
    ran
}

async fn play(place: &Place, ephemeral: bool) -> exit::Outcome {
    let mut stop = Stop::listen()?;
    greet(place, ephemeral)?;
    let mut cluster = Cluster::bind(place).await?;
    cluster.start();
    let running = async {
        let leader = cluster.formed(place).await?;
        say(&format!("node {leader} leads; all nodes are ready\n"))?;
        let steps = guide::next_steps(&place.seats, &guide::program());
        say(&format!("{steps}\n{}", parting(place, ephemeral)))?;
        Err(cluster.ended().await)
    };
    let ended: exit::Outcome = tokio::select! {
        ended = running => ended,
        _ = stop.requested() => Ok(()),
    };
    if ended.is_ok() {
        say("\nStopping ...")?;
    }
    // A second signal does not wait for a clean end; what was acknowledged is on disk anyway.
    tokio::select! {
        () = cluster.close() => ended,
        code = stop.requested() => Err(Failure::silent(code)),
    }
}

fn greet(place: &Place, ephemeral: bool) -> io::Result<()> {
    let count = match place.seats.len() {
        1 => "1 node".to_owned(),
        count => format!("{count} nodes"),
    };
    let shown = place.directory.display();
    let kept = match (ephemeral, place.goes_on) {
        (true, _) => format!("kept only while this runs, in {shown}"),
        (false, true) => format!("going on with what is in {shown}"),
        (false, false) => format!("kept in {shown}"),
    };
    say(&format!("fencepost dev: {count}, {kept}\n"))?;
    if place.moved {
        let usual = place::FIRST_PORT;
        say(&format!(
            "The usual ports from {usual} on are busy, so these are others.\n"
        ))?;
    }
    say(&guide::addresses(&place.seats))
}

/// How to stop it and come back. It is the last thing printed: from here on all is up.
fn parting(place: &Place, ephemeral: bool) -> String {
    if ephemeral {
        return "Ctrl-C stops it and removes everything.".to_owned();
    }
    let mut command = format!("{} dev", guide::program());
    if place.directory != Path::new("./fencepost-dev") {
        let directory = guide::quoted(&place.directory.display().to_string());
        command.push_str(&format!(" --dir {directory}"));
    }
    format!("Ctrl-C stops it; `{command}` goes on where it was.")
}

fn say(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}
