//! The command line, as a user meets it: the real binary, its words and its exit codes.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test reads clocks to bound its waiting, and a panic is its failure"
)]

#[path = "../databases/mod.rs"]
mod databases;
#[path = "../client/fake/mod.rs"]
mod fake;
#[path = "../server/ports.rs"]
mod ports;

mod answers;
mod bench;
mod cluster;
mod demo;
mod dev;
mod election;
mod failures;
mod guard_pages;
mod guard_register;
mod guard_sql;
mod help;
mod hold;
mod hold_in_a_cluster;
mod in_line;
mod in_line_in_a_cluster;
mod membership;
mod pages;
mod real;
mod running;
mod samples;
mod terminal;
mod unknown_outcome;
mod usage;
mod watching;

use std::process::Output;
use std::time::Duration;

/// A run of the binary that has ended.
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Run {
    /// The one JSON object on standard output.
    pub(crate) fn json(&self) -> serde_json::Value {
        assert_eq!(
            self.stdout.lines().count(),
            1,
            "one object on one line: {}",
            self.stdout
        );
        serde_json::from_str(&self.stdout).unwrap()
    }
}

/// The binary, with nothing of this machine's environment that it would read.
pub(crate) fn binary() -> tokio::process::Command {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_fencepost"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FENCEPOST_")) {
        command.env_remove(name);
    }
    command.env("NO_COLOR", "1").kill_on_drop(true);
    command
}

/// Runs `fencepost` with these arguments to its end.
pub(crate) async fn fencepost(args: &[&str]) -> Run {
    finish(binary().args(args)).await
}

/// Runs a command to its end, which must come.
pub(crate) async fn finish(command: &mut tokio::process::Command) -> Run {
    let output = tokio::time::timeout(Duration::from_secs(60), command.output());
    let Output {
        status,
        stdout,
        stderr,
    } = output.await.expect("it ends").unwrap();
    Run {
        code: status.code(),
        stdout: String::from_utf8(stdout).unwrap(),
        stderr: String::from_utf8(stderr).unwrap(),
    }
}
