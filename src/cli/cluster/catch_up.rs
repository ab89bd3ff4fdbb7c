//! Waiting until a new node holds what the leader holds, with progress on standard error.

use super::super::caller::{Caller, Next};
use super::super::duration;
use super::super::exit::{Failure, REFUSED, UNAVAILABLE};
use fencepost::client::BootInstant;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// How often the leader is asked how far the node has come.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Returns once `node_id` holds the log up to where the leader's ended a moment before.
pub(super) async fn wait(caller: &Caller, node_id: u64, patience: Duration) -> Result<(), Failure> {
    let deadline = caller.client.now().plus(patience);
    let mut progress = Progress::new(node_id);
    let mut goal = None;
    loop {
        let status = caller.client.status().await;
        let status = status.map_err(|error| caller.failed(&error, &Next::none()))?;
        let Some(member) = status
            .members
            .iter()
            .find(|member| member.node_id == node_id)
        else {
            let gone = format!("the cluster has no node {node_id}");
            return Err(
                Failure::new(REFUSED, gone).hint("`fencepost cluster status` lists the nodes.")
            );
        };
        // Only the leader knows; without one there is nothing to measure for now.
        if let Some(matched) = member.matched_index {
            if goal.is_some_and(|goal| matched >= goal) {
                progress.done(matched);
                return Ok(());
            }
            progress.show(matched, status.last_log_index);
            goal = Some(status.last_log_index);
        }
        if is_over(caller.client.now(), deadline) {
            let message = format!(
                "node {node_id} has not caught up within {}",
                duration::human(patience)
            );
            return Err(Failure::new(UNAVAILABLE, message)
                .hint("It goes on catching up by itself: look with `fencepost cluster status`.")
                .hint(format_args!(
                    "Then give it a vote: fencepost cluster promote {node_id}"
                )));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

fn is_over(now: BootInstant, deadline: BootInstant) -> bool {
    now >= deadline
}

/// One line that is rewritten on a terminal, and a line for each change elsewhere.
struct Progress {
    node_id: u64,
    terminal: bool,
    shown: Option<(u64, u64)>,
}

impl Progress {
    fn new(node_id: u64) -> Self {
        Self {
            node_id,
            terminal: io::stderr().is_terminal(),
            shown: None,
        }
    }

    fn show(&mut self, matched: u64, last: u64) {
        if self.shown.replace((matched, last)) == Some((matched, last)) {
            return;
        }
        let percent = matched
            .min(last)
            .saturating_mul(100)
            .checked_div(last)
            .unwrap_or(100);
        let line = format!(
            "node {} has {matched} of {last} log entries ({percent} %)",
            self.node_id
        );
        self.write(&line, false);
    }

    fn done(&mut self, matched: u64) {
        let line = format!(
            "node {} has caught up, at log entry {matched}",
            self.node_id
        );
        self.write(&line, true);
    }

    /// Progress that nobody can read any more is no reason to fail.
    fn write(&self, line: &str, last: bool) {
        let mut stderr = io::stderr().lock();
        let _ = match (self.terminal, last) {
            (true, false) => write!(stderr, "\r\x1b[K{line}"),
            (true, true) => writeln!(stderr, "\r\x1b[K{line}"),
            (false, _) => writeln!(stderr, "{line}"),
        };
        let _ = stderr.flush();
    }
}
