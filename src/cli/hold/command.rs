//! The command and its process group.

use std::{ffi::OsString, io, process::ExitStatus, time::Duration};

use fencepost::client::Held;
use nix::sys::wait::{self, Id, WaitPidFlag};
use rustix::{
    io::Errno,
    process::{
        Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid,
    },
};
use tokio::{
    process::{Child, Command},
    signal::unix,
};

use super::{PART, leash};

/// How often to look whether a group is empty: nothing tells when the last of it ends.
const LOOK: Duration = Duration::from_millis(5);
/// How long the kernel may take to end what was killed.
const KILLED: Duration = Duration::from_secs(2);

/// A command that runs a part of `hold` in a process group of its own.
pub(super) fn of_part(arguments: &[&str]) -> io::Result<Command> {
    // By this name also after the file was replaced, as an upgrade does.
    #[cfg(target_os = "linux")]
    let program = "/proc/self/exe";
    #[cfg(not(target_os = "linux"))]
    let program = std::env::current_exe()?;
    let mut command = Command::new(program);
    command
        .arg0("fencepost")
        .arg(PART)
        .args(arguments)
        .process_group(0)
        .kill_on_drop(true);
    Ok(command)
}

/// The running command.
pub(super) struct Running {
    process: Child,
    /// Its process group, which has the number of its first process.
    pub(super) group: Pid,
}

impl Running {
    /// Starts `command` with what it must know about `held` in its environment. It stands still before its
    /// first instruction, until it is told to go on, see [`ready`](Self::ready).
    pub(super) fn start(command: &[OsString], held: &Held) -> io::Result<Self> {
        adopt_orphans();
        let sequencer = held.sequencer();
        let json = serde_json::json!({
            "issuer": sequencer.issuer.as_str(),
            "resource": sequencer.resource.as_str(),
            // A string, because JavaScript numbers end at 2^53.
            "token": sequencer.token.to_string(),
        });
        let parent = std::process::id().to_string();
        let process = of_part(&[leash::NAME, "--parent", &parent, "--"])?
            .args(command)
            .env("FENCEPOST_RESOURCE", sequencer.resource.as_str())
            .env("FENCEPOST_TOKEN", sequencer.token.to_string())
            .env("FENCEPOST_ISSUER", sequencer.issuer.as_str())
            .env("FENCEPOST_SEQUENCER", json.to_string())
            .spawn()?;
        let pid = process.id().and_then(|id| i32::try_from(id).ok());
        let group = pid.and_then(Pid::from_raw);
        let group = group.ok_or_else(|| io::Error::other("the command has no process id"))?;
        Ok(Self { process, group })
    }

    /// Waits until it stands still; false when it has ended instead.
    pub(super) async fn ready(&mut self, children: &mut unix::Signal) -> bool {
        while self.stopped_by() != Some(Signal::STOP) {
            tokio::select! {
                _ = self.process.wait() => return false,
                _ = children.recv() => {}
            }
        }
        true
    }

    /// Waits for the end of its first process. It may be cancelled and called again.
    pub(super) async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.process.wait().await
    }

    /// The signal that stopped its first process since the last look, if one did.
    pub(super) fn stopped_by(&self) -> Option<Signal> {
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG;
        let status = waitid(WaitId::Pid(self.group), options).ok().flatten()?;
        Signal::from_named_raw(status.stopping_signal()?)
    }

    /// Waits for orphans that were adopted and have ended: they would stay for ever as dead entries. `own` are
    /// our children, whom somebody else waits for.
    pub(super) fn bury_orphans(&self, own: &[Pid]) {
        // Looks only: the children of our own must be left to those who wait for them.
        let look = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
        while let Ok(dead) = wait::waitid(Id::All, look) {
            let pid = dead.pid().and_then(|pid| Pid::from_raw(pid.as_raw()));
            let Some(orphan) = pid.filter(|pid| !own.contains(pid)) else {
                return;
            };
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
            let _ = waitid(WaitId::Pid(orphan), options);
        }
    }

    /// Sends a signal to the whole group.
    pub(super) fn signal(&self, signal: Signal) {
        // It may have ended a moment ago.
        let _ = kill_process_group(self.group, signal);
    }

    /// Kills the whole group and returns once nothing of it runs any more.
    pub(super) async fn kill(&mut self) {
        self.signal(Signal::KILL);
        let _ = tokio::time::timeout(KILLED, self.process.wait()).await;
        self.emptied(KILLED).await;
    }

    /// Ends what the first process has left running in its group: asks, and kills after `grace`.
    pub(super) async fn sweep(&mut self, grace: Duration) {
        if self.is_empty() {
            return;
        }
        self.signal(Signal::TERM);
        // What is stopped could not act on it.
        self.signal(Signal::CONT);
        if !self.emptied(grace).await {
            self.signal(Signal::KILL);
            self.emptied(KILLED).await;
        }
    }

    async fn emptied(&self, within: Duration) -> bool {
        let empty = async {
            while !self.is_empty() {
                tokio::time::sleep(LOOK).await;
            }
        };
        tokio::time::timeout(within, empty).await.is_ok()
    }

    /// Whether nothing of the group is left. The first process must have been waited for.
    fn is_empty(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        while let Ok(Some(_)) = waitid(WaitId::Pgid(Some(self.group)), options) {}
        test_kill_process_group(self.group) == Err(Errno::SRCH)
    }
}

/// Makes processes that lose their parent children of this one, so that those of the group can be waited
/// for. Where that is not possible, whoever adopts them does it.
fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
}
