//! The process that becomes the command, after it has put itself on the leash.

use std::{ffi::OsString, io, os::unix::process::CommandExt as _, process::Command};

use rustix::process::{Signal, getpid, kill_process};

use super::super::{
    exit::{self, COMMAND_NOT_FOUND, COMMAND_NOT_RUNNABLE, Failure, HOLD_FAILED},
    leash,
};

/// The name of this part.
pub(super) const NAME: &str = "leash";

/// What the process is to become.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The process that started this one.
    #[arg(long)]
    pub(super) parent: u32,
    /// The command and its arguments.
    #[arg(last = true, required = true)]
    pub(super) command: Vec<OsString>,
}

/// Takes the leash and becomes the command. The kernel takes the leash off when the command changes its
/// user (set-user-id programs, `sudo`): then the guardian alone is left.
pub(super) fn run(args: &Args) -> exit::Outcome {
    leash::take(args.parent)?;
    // Stands still until the guardian knows the deadline and the terminal is lent: not a moment of the
    // command is unguarded, whatever happens to `hold` meanwhile.
    let stopped = kill_process(getpid(), Signal::STOP);
    stopped.map_err(|error| Failure::new(HOLD_FAILED, format_args!("cannot stop: {error}")))?;
    let Some((program, arguments)) = args.command.split_first() else {
        return Err(Failure::silent(COMMAND_NOT_FOUND));
    };
    let error = Command::new(program).args(arguments).exec();
    let code = match error.kind() {
        io::ErrorKind::NotFound => COMMAND_NOT_FOUND,
        _ => COMMAND_NOT_RUNNABLE,
    };
    let message = format!("cannot run {}: {error}", program.display());
    Err(Failure::new(code, message))
}
