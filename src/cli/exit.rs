//! How a run ends: the exit codes, and the failure that carries one.
//!
//! `docs/operations.md` has the same table, and a test compares the two. Numbers are never reused.

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;

/// A failure that has no code of its own.
pub(crate) const UNEXPECTED: u8 = 1;
/// Bad flags or argument values.
pub(crate) const USAGE: u8 = 2;
/// The rules said no: held by another, not the holder any more, stale, ended.
pub(crate) const REFUSED: u8 = 3;
/// No answer could be had, and the call certainly had no effect: try again.
pub(crate) const UNAVAILABLE: u8 = 4;
/// The call may or may not have taken effect.
pub(crate) const UNKNOWN_OUTCOME: u8 = 5;
/// A watch cannot go on without a gap: the history does not reach back to its cursor.
pub(crate) const HISTORY_LOST: u8 = 6;
/// A node's setting is wrong, missing or contradictory; nothing was written.
pub(crate) const CONFIGURATION: u8 = 10;
/// Wrong cluster, a node id used before, a wiped or busy directory, a peer with another list.
pub(crate) const IDENTITY: u8 = 11;
/// The data directory lost or changed something that this node had acknowledged.
pub(crate) const STORAGE_DAMAGED: u8 = 12;
/// No space; a restart with space recovers all that was acknowledged.
pub(crate) const DISK_FULL: u8 = 13;
/// Raft or the state machine stopped itself.
pub(crate) const RAFT_FATAL: u8 = 14;
/// A port is busy or an address cannot be bound.
pub(crate) const ADDRESS_IN_USE: u8 = 15;

/// `hold` could not ask the cluster; the command did not run.
pub(crate) const HOLD_UNAVAILABLE: u8 = 122;
/// `hold` was refused, or its wait ended without a grant; the command did not run.
pub(crate) const NOT_HELD: u8 = 123;
/// `hold` ended the command, because the lease could not be kept.
pub(crate) const LEASE_LOST: u8 = 124;
/// `hold` itself failed: its arguments, or something unexpected.
pub(crate) const HOLD_FAILED: u8 = 125;
/// `hold` found the command, and could not run it.
pub(crate) const COMMAND_NOT_RUNNABLE: u8 = 126;
/// `hold` did not find the command.
pub(crate) const COMMAND_NOT_FOUND: u8 = 127;

/// What a command returns.
pub(crate) type Outcome = Result<(), Failure>;

/// Why a run ends with another code than 0: one sentence of what happened, and what to do about it.
#[derive(Debug)]
pub(crate) struct Failure {
    code: u8,
    message: String,
    hints: Vec<String>,
}

impl Failure {
    /// `message` says what happened, without a full stop. An empty one prints nothing: the command has
    /// said all there is to say.
    pub(crate) fn new(code: u8, message: impl fmt::Display) -> Self {
        Self {
            code,
            message: message.to_string(),
            hints: Vec::new(),
        }
    }

    /// The command has already printed its answer; only the code is left to give.
    pub(crate) fn silent(code: u8) -> Self {
        Self::new(code, "")
    }

    /// The same words with another code.
    pub(crate) fn recoded(mut self, recode: impl FnOnce(u8) -> u8) -> Self {
        self.code = recode(self.code);
        self
    }

    /// The same code, without a word: a script was told already.
    pub(crate) fn quiet(self) -> Self {
        Self::silent(self.code)
    }

    /// Whether nothing is left to be told.
    pub(crate) fn is_silent(&self) -> bool {
        self.message.is_empty()
    }

    /// Adds a line that says what to do next.
    pub(crate) fn hint(mut self, hint: impl fmt::Display) -> Self {
        self.hints.push(hint.to_string());
        self
    }
}

/// A reader that goes away (`fencepost list | head -1`) has seen what it wanted: not a failure worth a
/// word, and the conventional code for it is the one of a shell whose child died of SIGPIPE.
const BROKEN_PIPE: u8 = 141;

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self::silent(BROKEN_PIPE);
        }
        Self::new(UNEXPECTED, format_args!("input or output failed: {error}"))
    }
}

/// Prints what clap found wrong, or the help page that was asked for; `code` is for what is wrong.
pub(crate) fn usage(error: &clap::Error, code: u8) -> ExitCode {
    // Nobody is left to be told when this fails.
    let _ = error.print();
    match error.exit_code() {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::from(code),
    }
}

/// Prints a failure, if there is one, and gives the code of the process.
pub(crate) fn report(outcome: Outcome) -> ExitCode {
    let Err(failure) = outcome else {
        return ExitCode::SUCCESS;
    };
    let mut stderr = io::stderr().lock();
    // A closed standard error leaves the code as the only messenger.
    if !failure.is_silent() {
        let _ = writeln!(stderr, "fencepost: {}", failure.message);
    }
    for hint in &failure.hints {
        for line in hint.lines() {
            let _ = writeln!(stderr, "  {line}");
        }
    }
    ExitCode::from(failure.code)
}
