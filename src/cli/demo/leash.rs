//! Child processes that cannot outlive the demonstration, however it ends.
//!
//! A child is started as `fencepost demo leashed -- ARGUMENTS`: it asks the kernel to kill it when its
//! parent ends, even by `kill -9`, and then becomes `fencepost ARGUMENTS`. Beside that, a child dies
//! when the value that holds it is dropped, and it has a process group of its own, so that Ctrl-C
//! reaches the demonstration alone, which then takes everything down in order.

use std::{env, ffi::OsString, io, os::unix::process::CommandExt as _, process::Stdio};

use tokio::process::Command;

use super::super::exit::{self, Failure, UNEXPECTED};

/// The name of the hidden command that puts a process on the leash.
pub(super) const NAME: &str = "leashed";

/// What the process is to become.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The process that started this one.
    #[arg(long)]
    parent: u32,
    /// The arguments of `fencepost`.
    #[arg(last = true, required = true)]
    arguments: Vec<OsString>,
}

/// A command that runs this program, leashed, with none of our variables in its environment.
pub(super) fn command(arguments: &[OsString]) -> io::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command
        .args([
            "demo",
            NAME,
            "--parent",
            &std::process::id().to_string(),
            "--",
        ])
        .args(arguments)
        .stdin(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("FENCEPOST_") {
            command.env_remove(name);
        }
    }
    Ok(command)
}

/// The hidden command: takes the leash, then becomes what it was told to be.
pub(super) fn run(args: &Args) -> exit::Outcome {
    let failed = |what: &str, error: io::Error| {
        Failure::new(UNEXPECTED, format_args!("{what} failed: {error}"))
    };
    super::super::leash::take(args.parent)?;
    let program = env::current_exe().map_err(|error| failed("finding this program", error))?;
    let error = std::process::Command::new(program)
        .args(&args.arguments)
        .exec();
    Err(failed("starting a process", error))
}
