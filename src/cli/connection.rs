//! The options that say which cluster to talk to and how to print its answers.

use super::duration;
use clap::ValueEnum;
use std::time::Duration;

/// Where `fencepost dev` listens; also reaches a single `fencepost serve` with its defaults.
const DEFAULT_ENDPOINTS: &str = "127.0.0.1:7100,127.0.0.1:7101,127.0.0.1:7102";

/// Accepted before and after the command's name.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct Options {
    /// Nodes of the cluster, as host:port separated by commas; any one that is up will do
    #[arg(long, global = true, env = "FENCEPOST_ENDPOINTS", value_name = "LIST")]
    #[arg(value_delimiter = ',', default_value = DEFAULT_ENDPOINTS)]
    pub(crate) endpoints: Vec<String>,

    /// How long to try, elections and retries included
    #[arg(
        long,
        global = true,
        env = "FENCEPOST_TIMEOUT",
        value_name = "DURATION"
    )]
    #[arg(value_parser = duration::parse_positive, default_value = "10s")]
    pub(crate) timeout: Duration,

    /// How to print answers
    #[arg(
        long,
        short,
        global = true,
        value_name = "FORMAT",
        default_value = "human"
    )]
    pub(crate) output: Output,
}

/// How answers are printed on standard output. Failures go to standard error in words either way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// Sentences and tables
    Human,
    /// One JSON object; tokens are strings, because JavaScript numbers end at 2^53
    Json,
}

/// Shadows the connection options in a command that talks to no cluster: they vanish from its help, and
/// giving one there is a usage error instead of being ignored.
pub(crate) fn hide(mut command: clap::Command) -> clap::Command {
    for name in ["endpoints", "timeout", "output"] {
        if command.get_arguments().any(|arg| arg.get_id() == name) {
            continue;
        }
        let arg = clap::Arg::new(name)
            .long(name)
            .hide(true)
            .value_parser(no_cluster);
        command = command.arg(arg);
    }
    command
}

fn no_cluster(_: &str) -> Result<String, &'static str> {
    Err("this command talks to no cluster")
}
