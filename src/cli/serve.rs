//! `fencepost serve`: one node of a cluster.

use std::{
    io::{self, Write},
    path::PathBuf,
    process,
};

use clap::{Arg, ArgAction, ArgMatches, Command, FromArgMatches};
use fencepost::server::{
    config::{
        Config, ConfigErrors, Sources, report,
        settings::{CONFIG_ENV, Kind, SETTINGS, Setting},
    },
    node::{self, Addresses, EndKind, Listeners, NodeError},
    telemetry::{LogFormat, start_logging},
};

use super::exit::{self, Failure};

const ABOUT: &str = "Run one node of a cluster";

const AFTER_HELP: &str = "\
Every setting can be given as a flag, as an environment variable (--peer-listen is FENCEPOST_PEER_LISTEN)
or in a TOML file (peer_listen); a flag wins over a variable, that over the file, that over the default.

Examples:
  fencepost serve --node-id 1 --data-dir data --peers 1=127.0.0.1:7200     # one node, for experiments
  fencepost serve --config node-1.toml --check                            # what is in force, and why
  fencepost serve --node-id 4 --data-dir data-4 --join                    # then: fencepost cluster add-node

On SIGTERM, SIGINT or SIGHUP a node hands leadership over, lets the calls under way end, and exits with 0; a
second signal ends it at once. Started with SIGHUP ignored (nohup), it goes on ignoring it. Exit codes: 10 configuration, 11 identity, 12 storage damaged, 13 disk full, 14 Raft
stopped itself, 15 address in use.";

/// Arguments of `fencepost serve`: made from the table of settings, so that they cannot disagree.
#[derive(Debug)]
pub(crate) struct Args {
    sources: Sources,
    file: Option<PathBuf>,
    check: bool,
}

impl clap::Args for Args {
    fn augment_args(command: Command) -> Command {
        let command = command
            .about(ABOUT)
            .after_help(AFTER_HELP)
            .arg(
                Arg::new("config")
                    .long("config")
                    .value_name("FILE")
                    .value_parser(clap::value_parser!(PathBuf))
                    .help(format!(
                        "A TOML file with settings [env: {CONFIG_ENV}]"
                    )),
            )
            .arg(
                Arg::new("check")
                    .long("check")
                    .action(ArgAction::SetTrue)
                    .help("Print what is in force and where it comes from, or everything that is wrong"),
            );
        SETTINGS
            .iter()
            .fold(command, |command, setting| command.arg(flag(setting)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// The flag of a setting. Its value is judged together with those of the other sources.
fn flag(setting: &'static Setting) -> Arg {
    let default = setting
        .default
        .filter(|_| setting.kind != Kind::Switch)
        .map(|default| format!(" [default: {default}]"))
        .unwrap_or_default();
    let help = format!("{}{default} [env: {}]", setting.help, setting.env());
    let arg = Arg::new(setting.name)
        .long(setting.name)
        .help_heading(setting.group)
        .help(help);
    if setting.kind == Kind::Switch {
        return arg.action(ArgAction::SetTrue);
    }
    arg.value_name(setting.placeholder)
        .allow_hyphen_values(true)
}

impl FromArgMatches for Args {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Vec::new();
        for setting in SETTINGS {
            let given = match setting.kind {
                Kind::Switch => matches.get_flag(setting.name).then(|| "true".to_owned()),
                Kind::Value | Kind::Peers => matches.get_one::<String>(setting.name).cloned(),
            };
            flags.extend(given.map(|text| (setting.name, text)));
        }
        Ok(Args {
            sources: Sources::from_flags(flags),
            file: matches.get_one::<PathBuf>("config").cloned(),
            check: matches.get_flag("check"),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

/// Runs the node until it is told to stop, or has to.
pub(crate) fn run(args: Args) -> exit::Outcome {
    let check = args.check;
    let config = configuration(args).map_err(|errors| failure(&errors.into()))?;
    if check {
        io::stdout().lock().write_all(report(&config).as_bytes())?;
        return Ok(());
    }
    start_logging(config.log_format, &config.log_level)
        .map_err(|why| Failure::new(exit::CONFIGURATION, why))?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("fencepost")
        .build()?;
    let ended = runtime.block_on(async {
        let listeners = Listeners::bind(&config).await?;
        let shutdown = signals().map_err(|error| NodeError::Serve {
            port: "signal",
            why: error.to_string(),
        })?;
        node::run(&config, listeners, shutdown, |addresses| {
            announce(&config, addresses);
        })
        .await
    });
    // A thread that hangs in the kernel on a dead disk must not keep the process.
    runtime.shutdown_background();
    ended.map_err(|error| tell(&error, config.log_format))
}

/// Reads the environment and the file, and judges everything together.
fn configuration(args: Args) -> Result<Config, ConfigErrors> {
    let variables = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let mut sources = args.sources.with_environment(variables);
    let named = std::env::var_os(CONFIG_ENV).filter(|path| !path.is_empty());
    if let Some(path) = args.file.or_else(|| named.map(PathBuf::from)) {
        sources = sources
            .with_file(&path)
            .map_err(|error| ConfigErrors(vec![error]))?;
    }
    Config::from_sources(&sources)
}

/// One line for programs on standard output, one for people in the log.
fn announce(config: &Config, addresses: &Addresses) {
    let Addresses { client, peer, http } = addresses;
    tracing::info!(node_id = config.node_id, %client, %peer, %http, "listening");
    let line = serde_json::json!({
        "event": "listening",
        "node_id": config.node_id,
        "client": client,
        "peer": peer,
        "http": http,
    });
    // Nobody may be reading: the node does not depend on it.
    let _ = writeln!(io::stdout().lock(), "{line}");
}

/// Ends at the first SIGTERM, SIGINT or SIGHUP: a terminal that is closed is no reason to leave without
/// a word. A second one ends the process at once, as it would one that knows no signals.
fn signals() -> io::Result<impl Future<Output = ()>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = match hangup_is_ignored() {
        true => None,
        false => Some(signal(SignalKind::hangup())?),
    };
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = received(&mut hangup) => {}
        }
        tokio::spawn(async move {
            let code = tokio::select! {
                _ = terminate.recv() => 143,
                _ = interrupt.recv() => 130,
                () = received(&mut hangup) => 129,
            };
            end_at_once(code);
        });
    })
}

/// The next signal of a kind that is listened for, or never.
async fn received(signal: &mut Option<tokio::signal::unix::Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Whether whoever started this process made it ignore SIGHUP, as nohup does: listening for it would
/// undo that. What the system does not tell counts as no.
fn hangup_is_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    // Bit n stands for signal n + 1, and SIGHUP is 1.
    mask.is_some_and(|mask| mask & 1 == 1)
}

#[expect(
    clippy::exit,
    clippy::disallowed_methods,
    reason = "whoever sends a second signal does not want to wait for anything"
)]
fn end_at_once(code: i32) {
    process::exit(code);
}

/// Says once why the node ended: a log of JSON lines gets a line of that kind, a text log the sentence.
fn tell(error: &NodeError, format: LogFormat) -> Failure {
    let failure = failure(error);
    if format == LogFormat::Json && tracing::enabled!(tracing::Level::ERROR) {
        tracing::error!(%error, "this node ended");
        return failure.quiet();
    }
    failure
}

/// The code of an end: `docs/operations.md` has the same table.
pub(crate) fn failure(error: &NodeError) -> Failure {
    let code = match error.kind() {
        EndKind::Configuration => exit::CONFIGURATION,
        EndKind::Identity => exit::IDENTITY,
        EndKind::StorageDamaged => exit::STORAGE_DAMAGED,
        EndKind::DiskFull => exit::DISK_FULL,
        EndKind::RaftFatal => exit::RAFT_FATAL,
        EndKind::AddressInUse => exit::ADDRESS_IN_USE,
        EndKind::Unexpected => exit::UNEXPECTED,
    };
    match error {
        NodeError::Config(errors) => errors.0.iter().fold(
            Failure::new(code, "the configuration is not valid"),
            |failure, error| failure.hint(error),
        ),
        error => Failure::new(code, error),
    }
}
