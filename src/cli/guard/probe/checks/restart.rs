//! Marks must survive the process that keeps them.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use fencepost::resource::ResourceName;

use super::super::check::{Check, Findings, Stop, Takes};
use super::super::service::Unreachable;
use super::super::session::{Session, Write};

pub(super) const CHECKS: [Check; 1] = [Check {
    name: "restart",
    promise: "marks survive a restart of the service",
    why: "marks in memory are gone with the process: after each deployment, every stale holder is admitted once more",
    needs: &["stale-token"],
    takes: &[Takes::RestartCommand],
    run: restart,
}];

/// Between two tries to reach a service that starts.
const BETWEEN_TRIES: Duration = Duration::from_millis(50);

fn restart(session: &Session<'_>) -> Result<Findings, Stop> {
    let mut findings = Findings::default();
    let Some(command) = &session.shape.restart_command else {
        return Ok(findings);
    };
    let resource = session.supply.resource("restart");
    let lower = session.supply.tokens(3);
    let mark = lower + 1;
    let write = session.write(&resource, mark)?;
    if !findings.admitted(
        &write.exchange,
        "no higher token was sent for this resource",
    ) {
        return Ok(findings);
    }
    run(command)?;
    let stale = first_answer(session, &resource, lower)?;
    let because =
        format!("{mark} had been admitted for this resource before the service was restarted");
    if findings.stale(&stale.exchange, because) {
        let write = session.write(&resource, mark + 1)?;
        findings.admitted(&write.exchange, format_args!("{mark} is the mark"));
    }
    Ok(findings)
}

fn run(command: &str) -> Result<(), Stop> {
    let output = Command::new("sh")
        .args(["-c", command])
        .stdin(Stdio::null())
        // Its own words would stand in the middle of the report.
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    match output {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Stop::Restart(format!("`{command}` ended with {status}"))),
        Err(error) => Err(Stop::Restart(format!("sh could not be run: {error}"))),
    }
}

/// Sends the write until somebody answers it: a service that starts refuses connections, or drops
/// them, and both say nothing about its marks.
fn first_answer(
    session: &Session<'_>,
    resource: &ResourceName,
    token: u64,
) -> Result<Write, Unreachable> {
    let deadline = now() + session.shape.restart_timeout;
    loop {
        let outcome = session.write(resource, token);
        let is_answered = outcome
            .as_ref()
            .is_ok_and(|write| write.exchange.answer.is_ok());
        if is_answered || now() >= deadline {
            return outcome;
        }
        pause();
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "it bounds the patience with a service that starts, and decides nothing else"
)]
fn now() -> Instant {
    Instant::now()
}

#[expect(
    clippy::disallowed_methods,
    reason = "a service that does not listen yet has no event to wait for"
)]
fn pause() {
    std::thread::sleep(BETWEEN_TRIES);
}
