//! One node: a real `fencepost serve` process, and everything that can be done to it.

use std::{
    fs::File,
    os::unix::process::ExitStatusExt,
    path::PathBuf,
    process::{Child, Command, ExitStatus, Stdio},
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

use crate::waiting::eventually;

/// The binary under test.
pub(crate) const FENCEPOST: &str = env!("CARGO_BIN_EXE_fencepost");

/// A running process. Dropping it kills it, stopped or not, so that nothing outlives its test.
pub(crate) struct NodeProcess {
    node: u64,
    child: Child,
}

impl NodeProcess {
    /// Starts `fencepost` with these arguments; its standard error is appended to `log`.
    pub(crate) fn spawn(node: u64, arguments: &[String], log: &PathBuf) -> Self {
        let log = File::options().create(true).append(true).open(log).unwrap();
        let child = bare(FENCEPOST)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap_or_else(|error| panic!("{FENCEPOST} does not start: {error}"));
        Self { node, child }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn signal(&self, signal: Signal) {
        let pid = self.pid();
        kill_process(pid, signal).unwrap_or_else(|error| panic!("node {}: {error}", self.node));
    }

    /// `kill -9`: nothing is flushed, nobody is told.
    pub(crate) fn kill(mut self) {
        self.end();
    }

    /// SIGSTOP: the process keeps its sockets and its memory, and does not run.
    pub(crate) fn pause(&self) {
        self.signal(Signal::STOP);
    }

    /// SIGCONT.
    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    /// SIGTERM, without waiting for what it leads to.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// The exit status, once the process has ended by itself.
    pub(crate) fn try_exit(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits for the process to end by itself, and gives its exit code.
    pub(crate) async fn exit(&mut self, within: Duration) -> i32 {
        let what = format!("node {} ends", self.node);
        let status = eventually(&what, within, async || self.try_exit()).await;
        status
            .code()
            .unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
    }

    fn end(&mut self) {
        // Both fail only if it has ended already, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for NodeProcess {
    fn drop(&mut self) {
        self.end();
    }
}

/// A command without the settings that the environment of the tests may carry.
pub(crate) fn bare(program: &str) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("FENCEPOST_")) {
        command.env_remove(name);
    }
    command
}
