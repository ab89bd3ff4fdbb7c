//! The harness's side of a client process: its orders, what it says, and the two signals.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Stdio},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use tokio::sync::mpsc::UnboundedSender;

use crate::{
    client::{MARK, ROLE},
    nodes::process::bare,
    script::{Order, Role, Said},
    waiting::{PATIENCE, eventually},
};

/// A running client. Dropping it kills it, stopped or not.
pub(crate) struct ClientProcess {
    number: u64,
    child: Child,
    orders: Option<ChildStdin>,
}

impl ClientProcess {
    /// Starts this binary again, to run `test`, which finds the role. Whatever it says goes to `heard`.
    ///
    /// To be called on a thread that lives as long as the process: the kernel ends the one with the other.
    pub(crate) fn spawn(test: &str, role: &Role, heard: UnboundedSender<(u64, Said)>) -> Self {
        let binary = std::env::current_exe().unwrap();
        let mut child = bare(&binary.display().to_string())
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env(ROLE, serde_json::to_string(role).unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (orders, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        let number = role.number;
        thread::spawn(move || listen(number, stdout, &heard));
        Self {
            number,
            child,
            orders,
        }
    }

    /// Gives an order. A stopped process finds it when it goes on.
    pub(crate) fn order(&mut self, order: Order) {
        let orders = self.orders.as_mut().unwrap();
        let line = serde_json::to_string(&order).unwrap();
        writeln!(orders, "{line}")
            .unwrap_or_else(|error| panic!("client {}: {error}", self.number));
    }

    /// SIGSTOP, and waits until the process stands still.
    pub(crate) async fn stop(&self) {
        let pid = self.signal(Signal::STOP);
        let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let stopped = async || waitid(WaitId::Pid(pid), options).unwrap().map(|_| ());
        eventually("the client stands still", PATIENCE, stopped).await;
    }

    /// SIGCONT.
    pub(crate) fn resume(&self) {
        self.signal(Signal::CONT);
    }

    fn signal(&self, signal: Signal) -> Pid {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal).unwrap_or_else(|error| panic!("client {}: {error}", self.number));
        pid
    }

    /// Waits until the process has ended in good order.
    pub(crate) async fn ended(mut self, within: Duration) {
        let what = format!("client {} ends", self.number);
        let status = eventually(&what, within, async || self.child.try_wait().unwrap()).await;
        assert!(status.success(), "client {}: {status}", self.number);
    }

    /// Fails if the process has ended by itself.
    pub(crate) fn assert_alive(&mut self) {
        if let Some(status) = self.child.try_wait().unwrap() {
            panic!("client {} ended by itself: {status}", self.number);
        }
    }
}

impl Drop for ClientProcess {
    fn drop(&mut self) {
        // Both fail only if it has ended already, which is as good.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn listen(number: u64, stdout: ChildStdout, heard: &UnboundedSender<(u64, Said)>) {
    for line in BufReader::new(stdout).lines().map_while(Result::ok) {
        let Some(said) = line.strip_prefix(MARK) else {
            continue;
        };
        if heard
            .send((number, serde_json::from_str(said).unwrap()))
            .is_err()
        {
            return;
        }
    }
}
