//! Watching over the command while it runs: the lease, the signals, its end.

use std::{
    ffi::OsString, io, os::unix::process::ExitStatusExt as _, process::ExitStatus, time::Duration,
};

use fencepost::client::{BootClock, BootInstant, Clock as _, Held, Lost};
use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind, signal};

use super::{
    super::{
        duration,
        exit::{self, Failure, HOLD_FAILED, LEASE_LOST},
        holder::quoted,
    },
    command::Running,
    guardian::Guardian,
    say,
    signals::Signals,
    terminal::Terminal,
};

/// The guardian strikes this long before the lease ends at most, and after we should have done it.
const STRIKE_BEFORE: Duration = Duration::from_millis(50);

/// How the command came to its end.
enum End {
    /// By itself, or by a signal that somebody sent.
    Own(ExitStatus),
    /// It was asked to end, because renewals did not come through.
    Asked,
    /// It was killed, because the lease was lost.
    Killed(Lost),
}

/// Runs the command to its end.
pub(super) async fn run(
    command: &[OsString],
    held: &Held,
    grace: Duration,
    signals: Signals,
) -> exit::Outcome {
    let failed = |error| {
        Failure::new(
            HOLD_FAILED,
            format_args!("the command cannot be run: {error}"),
        )
    };
    let watch = Watch::begin(command, held, grace, signals).await;
    let mut watch = watch.map_err(failed)?;
    let end = watch.until_the_end().await;
    if !matches!(end, Ok(End::Killed(_))) {
        watch.clear().await;
    }
    if let Some(terminal) = &watch.terminal {
        terminal.take_back(watch.running.group);
    }
    watch.guardian.dismiss().await;
    let resource = quoted(held.resource().as_str());
    match end.map_err(failed)? {
        End::Own(status) => own(status),
        End::Asked => Err(Failure::new(
            LEASE_LOST,
            format_args!("the command was ended, because no renewal of {resource} came through"),
        )),
        End::Killed(lost) => Err(Failure::new(
            LEASE_LOST,
            format_args!("the command was ended: {lost}"),
        )),
    }
}

/// When the guardian is to strike.
fn strike_at(held: &Held, safe_until: BootInstant) -> BootInstant {
    safe_until.minus((held.acquired().lease / 40).min(STRIKE_BEFORE))
}

/// The command's own code is ours.
fn own(status: ExitStatus) -> exit::Outcome {
    let code = match (status.code(), status.signal()) {
        (Some(code), _) => code,
        (None, Some(signal)) => 128 + signal,
        (None, None) => HOLD_FAILED.into(),
    };
    match u8::try_from(code) {
        Ok(0) => Ok(()),
        Ok(code) => Err(Failure::silent(code)),
        Err(_) => Err(Failure::silent(HOLD_FAILED)),
    }
}

struct Watch<'a> {
    running: Running,
    held: &'a Held,
    grace: Duration,
    guardian: Guardian,
    signals: Signals,
    /// Rings when a child has ended or was stopped.
    children: unix::Signal,
    terminal: Option<Terminal>,
}

impl<'a> Watch<'a> {
    /// Starts the command: only once its guardian knows the deadline and the terminal is lent does it go on
    /// from where it stands still.
    async fn begin(
        command: &[OsString],
        held: &'a Held,
        grace: Duration,
        signals: Signals,
    ) -> io::Result<Self> {
        let mut children = signal(SignalKind::child())?;
        let mut running = Running::start(command, held)?;
        // What was lost already is killed at once.
        let deadline = held
            .safe_until()
            .map_or_else(|| BootClock.now(), |until| strike_at(held, until));
        let guardian = match Guardian::start(running.group, deadline) {
            Ok(guardian) => guardian,
            Err(error) => {
                running.kill().await;
                return Err(error);
            }
        };
        let terminal = Terminal::ours();
        if let Some(terminal) = &terminal {
            terminal.lend(running.group);
        }
        if running.ready(&mut children).await {
            running.signal(Signal::CONT);
        }
        Ok(Self {
            running,
            held,
            grace,
            guardian,
            signals,
            children,
            terminal,
        })
    }

    /// Returns when the first process of the command has ended.
    async fn until_the_end(&mut self) -> io::Result<End> {
        let mut lost = std::pin::pin!(self.held.lost());
        let mut running_out = std::pin::pin!(self.held.running_out(self.grace));
        let mut asked = false;
        let mut told = None;
        loop {
            tokio::select! {
                // After a pause of this process the first thing to look at is the lease.
                biased;
                lost = &mut lost => {
                    self.running.kill().await;
                    return Ok(End::Killed(lost));
                }
                ended = self.running.ended() => {
                    return ended.map(|status| if asked { End::Asked } else { End::Own(status) });
                }
                () = &mut running_out, if !asked => {
                    asked = true;
                    self.ask_to_end();
                }
                safe_until = self.held.safe_until_after(told) => {
                    told = safe_until;
                    if let Some(safe_until) = safe_until {
                        self.extend(safe_until).await;
                    }
                }
                signal = self.signals.next() => self.running.signal(signal),
                _ = self.children.recv() => self.look_after_children(),
            }
        }
    }

    fn look_after_children(&self) {
        let group = self.running.group;
        let own: Vec<_> = self.guardian.pid().into_iter().chain([group]).collect();
        self.running.bury_orphans(&own);
        let (Some(terminal), Some(signal)) = (&self.terminal, self.running.stopped_by()) else {
            return;
        };
        if [Signal::TTIN, Signal::TTOU].contains(&signal) && terminal.is_in_front(group) {
            // It was quicker at the terminal than we were to lend it.
            terminal.lend(group);
        } else {
            let resource = quoted(self.held.resource().as_str());
            let left = duration::human(self.held.remaining());
            say(&format!(
                "stopped, and not renewing: unless it goes on, {resource} is lost in {left}"
            ));
            terminal.stop_too(group);
        }
        // Not when the lease was lost meanwhile: then the stopped command is killed as it stands.
        if self.held.check().is_ok() {
            self.running.signal(Signal::CONT);
        }
    }

    fn ask_to_end(&self) {
        let resource = quoted(self.held.resource().as_str());
        let left = duration::human(self.held.remaining());
        say(&format!(
            "no renewal of {resource} comes through, and its lease ends in {left}: ending the command"
        ));
        self.running.signal(Signal::TERM);
        // What is stopped could not act on it.
        self.running.signal(Signal::CONT);
    }

    async fn extend(&mut self, safe_until: BootInstant) {
        let deadline = strike_at(self.held, safe_until);
        if self.guardian.extend(deadline).await.is_ok() {
            return;
        }
        // Somebody killed or stopped it. Without a second one this process still does what it can.
        if let Ok(guardian) = Guardian::start(self.running.group, deadline) {
            self.guardian = guardian;
        }
    }

    /// Ends what the command has left behind, within the lease.
    async fn clear(&mut self) {
        tokio::select! {
            biased;
            _ = self.held.lost() => {}
            () = self.running.sweep(self.grace) => return,
        }
        self.running.kill().await;
    }
}
