//! The strings of the holder's process: orders, answers, and the two signals.

use std::{
    fs::File,
    path::Path,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use fencepost::{client::BootInstant, token::TokenValue};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader},
    process::{Child, ChildStdin, ChildStdout},
    sync::mpsc,
};

use super::{
    super::exit::{Failure, UNEXPECTED},
    holder, leash,
};

/// How long an answer may take, elections included.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

/// What the holder says.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It was granted the resource.
    Granted(TokenValue),
    /// Its write was taken.
    Written,
    /// Its write was refused by the guard.
    Stale {
        presented: TokenValue,
        required: TokenValue,
    },
    /// Something broke.
    Failed(String),
}

/// The holder's process. Dropping it kills the process.
pub(super) struct Puppet {
    process: Child,
    pid: Pid,
    orders: ChildStdin,
    answers: mpsc::Receiver<Answer>,
    /// The holder's own deadline, in microseconds since the machine started, as it said last.
    safe_until_us: Arc<AtomicU64>,
}

impl Puppet {
    /// Starts the process; its complaints go to a file in `directory`.
    pub(super) fn start(args: &holder::Args, directory: &Path) -> Result<Self, Failure> {
        let broken = || Failure::new(UNEXPECTED, "the holder's process could not be started");
        let complaints = File::create(directory.join("holder.log"))?;
        let mut process = leash::command(&args.to_arguments())?
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(complaints)
            .spawn()?;
        let pid = process.id().and_then(|id| i32::try_from(id).ok());
        let pid = pid.and_then(Pid::from_raw).ok_or_else(broken)?;
        let orders = process.stdin.take().ok_or_else(broken)?;
        let stdout = process.stdout.take().ok_or_else(broken)?;
        let safe_until_us = Arc::new(AtomicU64::new(0));
        let (sender, answers) = mpsc::channel(16);
        tokio::spawn(listen(stdout, sender, Arc::clone(&safe_until_us)));
        Ok(Self {
            process,
            pid,
            orders,
            answers,
            safe_until_us,
        })
    }

    /// Its process id.
    pub(super) fn pid(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// Until when the holder may rely on its lease, as far as it has said.
    pub(super) fn safe_until(&self) -> BootInstant {
        let since_boot = Duration::from_micros(self.safe_until_us.load(Ordering::SeqCst));
        BootInstant::from_boot(since_boot)
    }

    /// Orders a write. A stopped process finds the order when it goes on.
    pub(super) async fn order(&mut self, text: &str) -> std::io::Result<()> {
        self.orders
            .write_all(format!("{text}\n").as_bytes())
            .await?;
        self.orders.flush().await
    }

    /// The next answer.
    pub(super) async fn answer(&mut self) -> Result<Answer, Failure> {
        match tokio::time::timeout(ANSWER_TIMEOUT, self.answers.recv()).await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Err(Failure::new(
                UNEXPECTED,
                "the holder's process ended by itself",
            )),
            Err(_) => {
                let waited = ANSWER_TIMEOUT.as_secs();
                let message = format!("the holder did not answer within {waited} s");
                Err(Failure::new(UNEXPECTED, message))
            }
        }
    }

    /// Stops the process where it is, and waits until it stands still.
    pub(super) async fn stop(&self) -> Result<(), Failure> {
        let failed =
            |error: rustix::io::Errno| Failure::new(UNEXPECTED, format_args!("SIGSTOP: {error}"));
        kill_process(self.pid, Signal::STOP).map_err(failed)?;
        let stopped = async {
            let options = WaitIdOptions::STOPPED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
            while waitid(WaitId::Pid(self.pid), options)?.is_none() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            Ok(())
        };
        match tokio::time::timeout(ANSWER_TIMEOUT, stopped).await {
            Ok(stopped) => stopped.map_err(failed),
            Err(_) => Err(Failure::new(
                UNEXPECTED,
                "the holder's process did not stop",
            )),
        }
    }

    /// Lets it go on.
    pub(super) fn wake(&self) -> Result<(), Failure> {
        kill_process(self.pid, Signal::CONT)
            .map_err(|error| Failure::new(UNEXPECTED, format_args!("SIGCONT: {error}")))
    }

    /// Ends it.
    pub(super) async fn end(mut self) -> std::io::Result<()> {
        self.process.kill().await
    }
}

/// Reads what the holder says until it ends.
async fn listen(stdout: ChildStdout, answers: mpsc::Sender<Answer>, safe_until_us: Arc<AtomicU64>) {
    let mut lines = BufReader::new(stdout).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let said: Value = serde_json::from_str(&line).unwrap_or_default();
        if let Some(until) = said["safe_until_us"].as_u64() {
            safe_until_us.store(until, Ordering::SeqCst);
            continue;
        }
        if answers.send(understood(&said, &line)).await.is_err() {
            return;
        }
    }
}

fn understood(said: &Value, line: &str) -> Answer {
    let token = |value: &Value| value.as_str().and_then(|text| text.parse().ok());
    let stale = &said["stale"];
    if let Some(granted) = token(&said["granted"]) {
        return Answer::Granted(granted);
    }
    if let (Some(presented), Some(required)) =
        (token(&stale["presented"]), token(&stale["required"]))
    {
        return Answer::Stale {
            presented,
            required,
        };
    }
    if said["written"] == true {
        return Answer::Written;
    }
    Answer::Failed(said["failed"].as_str().unwrap_or(line).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Answer {
        understood(&serde_json::from_str(line).unwrap_or_default(), line)
    }

    #[test]
    fn answers_are_understood_and_anything_else_is_a_failure() {
        let token = |value| TokenValue::new(value).unwrap();
        assert_eq!(of(r#"{"granted":"7"}"#), Answer::Granted(token(7)));
        assert_eq!(of(r#"{"written":true}"#), Answer::Written);
        let stale = Answer::Stale {
            presented: token(7),
            required: token(9),
        };
        assert_eq!(of(r#"{"stale":{"presented":"7","required":"9"}}"#), stale);
        for odd in [
            "",
            "{}",
            "noise",
            r#"{"failed":"disk"}"#,
            r#"{"stale":{}}"#,
            r#"{"granted":"0"}"#,
        ] {
            assert!(matches!(of(odd), Answer::Failed(_)), "{odd}");
        }
    }
}
