//! The process that ends the command when nobody else can.
//!
//! `fencepost hold` may be stopped (SIGSTOP, a debugger), killed, or starved. So a second process knows until
//! when the lease is safe, on the clock that goes on while the machine sleeps, and kills the command's group
//! at that moment unless it was told of a later one. When `hold` is gone its pipe ends, and the group is
//! killed at once.

use std::{io, os::fd::AsFd as _, process::Stdio, time::Duration};

use fencepost::client::{BootClock, BootInstant, Clock};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::{
    io::{AsyncBufRead, AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    net::unix::pipe::Receiver,
    process::{Child, ChildStdin},
};

use super::{
    super::{caller, exit, stop::Stop},
    command,
};

/// The name of this part.
pub(super) const NAME: &str = "guardian";
/// How long it may take to hear; only one that is stopped does not.
const PATIENCE: Duration = Duration::from_millis(50);
/// What it is told when the command has ended.
const DONE: &str = "done";

/// Whom to guard.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The process group to be killed.
    #[arg(long)]
    group: i32,
    /// The first deadline.
    #[arg(long)]
    until: u64,
}

/// Guards until the command has ended. Deadlines come as lines on standard input: microseconds since the
/// machine started.
pub(super) fn run(args: &Args) -> exit::Outcome {
    caller::runtime()?.block_on(async {
        // A polite kill of everything called fencepost must not take the guardian first.
        let _deaf = Stop::listen()?;
        let orders = Receiver::from_owned_fd(io::stdin().as_fd().try_clone_to_owned()?)?;
        if !done(args.until, BufReader::new(orders)).await
            && let Some(group) = Pid::from_raw(args.group)
        {
            // Nobody may be left in it.
            let _ = kill_process_group(group, Signal::KILL);
        }
        Ok(())
    })
}

/// Whether the command ended in good time.
async fn done(until: u64, input: impl AsyncBufRead + Unpin) -> bool {
    let mut lines = input.lines();
    let mut deadline = BootInstant::from_boot(Duration::from_micros(until));
    loop {
        let line = tokio::select! {
            biased;
            () = BootClock.sleep_until(deadline) => return false,
            line = lines.next_line() => line,
        };
        match line {
            Ok(Some(line)) if line == DONE => return true,
            Ok(Some(line)) => match line.parse() {
                Ok(micros) => deadline = BootInstant::from_boot(Duration::from_micros(micros)),
                Err(_) => return false,
            },
            Ok(None) | Err(_) => return false,
        }
    }
}

/// The guardian, as `hold` sees it.
pub(super) struct Guardian {
    process: Child,
    orders: ChildStdin,
}

impl Guardian {
    /// Starts it for `group`, which may run until `deadline`.
    pub(super) fn start(group: Pid, deadline: BootInstant) -> io::Result<Self> {
        let group = group.as_raw_nonzero().to_string();
        let until = deadline.since_boot().as_micros().to_string();
        let mut command = command::of_part(&[NAME, "--group", &group, "--until", &until])?;
        command
            .stdin(Stdio::piped())
            // Whoever reads the command's output must not wait for the guardian's end, too.
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut process = command.spawn()?;
        let orders = process.stdin.take();
        let orders =
            orders.ok_or_else(|| io::Error::other("the guardian has no standard input"))?;
        Ok(Self { process, orders })
    }

    /// Its process id, while it runs.
    pub(super) fn pid(&self) -> Option<Pid> {
        let pid = self.process.id().and_then(|id| i32::try_from(id).ok());
        pid.and_then(Pid::from_raw)
    }

    /// Tells it until when the command may run.
    pub(super) async fn extend(&mut self, deadline: BootInstant) -> io::Result<()> {
        let micros = deadline.since_boot().as_micros();
        self.tell(&micros.to_string()).await
    }

    /// Tells it that the command has ended, and waits until it is gone, too.
    pub(super) async fn dismiss(mut self) {
        if self.tell(DONE).await.is_err() {
            // It has gone already.
        }
        drop(self.orders);
        // It ends by itself within a moment.
        let _ = tokio::time::timeout(Duration::from_secs(1), self.process.wait()).await;
    }

    async fn tell(&mut self, line: &str) -> io::Result<()> {
        let line = format!("{line}\n");
        let told = self.orders.write_all(line.as_bytes());
        match tokio::time::timeout(PATIENCE, told).await {
            Ok(told) => told,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}
