//! Holders that are killed or stopped at every step: each payment is made exactly once, and none by a
//! holder after a newer one was admitted.

use std::{
    io::Write as _,
    os::unix::process::ExitStatusExt as _,
    process::{Child, Command, ExitStatus},
    time::{Duration, Instant},
};

use fencepost::fence::{
    sql::GuardTable,
    unfenced::{Backlog, Calls},
};
use sqlx::{Executor as _, Sqlite, SqlitePool};

use super::ledger::Ledger;
use super::scene::{at, day};
use super::worker::{self, End};
use crate::scene::rules;

const INVOICES: i64 = 2;
/// More steps than a worker takes.
const STEPS_MAX: u32 = 100;

/// Invoices to be paid, and the service that pays them.
struct Bank {
    directory: tempfile::TempDir,
    ledger: Ledger,
    pool: SqlitePool,
    calls: Calls<Sqlite>,
}

impl Bank {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let pool = worker::open(&directory.path().join("bank.db")).await;
        pool.execute(
            "CREATE TABLE invoices (id INTEGER PRIMARY KEY, call_key TEXT NOT NULL DEFAULT '', paid TEXT NOT NULL DEFAULT '')",
        )
        .await
        .unwrap();
        for id in 1..=INVOICES {
            let invoice = sqlx::query("INSERT INTO invoices (id) VALUES (?)").bind(id);
            invoice.execute(&pool).await.unwrap();
        }
        let mut connection = pool.acquire().await.unwrap();
        let guard = GuardTable::create(&mut *connection, "fencing_marks", rules())
            .await
            .unwrap();
        let calls = Calls::create(&mut *connection, "payments", guard, day())
            .await
            .unwrap();
        drop(connection);
        Self {
            directory,
            ledger: Ledger::start().await,
            pool,
            calls,
        }
    }

    fn start(&self, token: u64, end: End, at: u32) -> Process {
        let database = self.directory.path().join("bank.db");
        Process(worker::start(
            &database,
            &self.ledger.address,
            token,
            end,
            at,
        ))
    }

    /// Every invoice was paid once, and the program knows it.
    async fn paid_exactly_once(&self, story: &str) {
        let mut payments = self.ledger.payments();
        payments.sort();
        let wanted: Vec<_> = (1..=INVOICES)
            .map(|id| format!("pay invoice {id}"))
            .collect();
        assert_eq!(payments, wanted, "{story}: {:?}", self.ledger.log());
        let unpaid: i64 = sqlx::query_scalar("SELECT count(*) FROM invoices WHERE paid = ''")
            .fetch_one(&self.pool)
            .await
            .unwrap();
        assert_eq!(unpaid, 0, "{story}");
        let mut connection = self.pool.acquire().await.unwrap();
        let backlog = self.calls.backlog(&mut connection, at(0)).await.unwrap();
        assert_eq!(backlog, Backlog::default(), "{story}");
    }
}

/// A worker, which does not outlive its test.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    async fn end(&mut self) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status;
            }
            assert!(
                start.elapsed() < Duration::from_secs(120),
                "the worker does not end"
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Stops it once it is where it was to stop; false if it ended without coming there.
    async fn is_stopped(&mut self, ledger: &Ledger, token: u64) -> bool {
        let there =
            |line: &String| *line == format!("free {token}") || *line == format!("holding {token}");
        let start = Instant::now();
        while !ledger.log().iter().any(there) {
            if self.0.try_wait().unwrap().is_some() {
                return false;
            }
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "neither there nor ended"
            );
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        self.signal("STOP");
        let stat = format!("/proc/{}/stat", self.0.id());
        let is_stopped = || std::fs::read_to_string(&stat).unwrap().contains(") T ");
        while !is_stopped() {
            assert!(start.elapsed() < Duration::from_secs(60), "does not stop");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        true
    }

    fn go_on(&mut self) {
        self.signal("CONT");
        let stdin = self.0.stdin.as_mut().unwrap();
        stdin.write_all(b"go on\n").unwrap();
    }

    fn signal(&self, name: &str) {
        let signal = format!("kill -{name} {}", self.0.id());
        let sent = Command::new("sh").args(["-c", &signal]).status();
        assert!(sent.unwrap().success());
    }
}

#[tokio::test]
async fn a_holder_killed_at_any_step_leaves_each_payment_to_be_made_exactly_once() {
    let mut crashes = 0;
    for step in 1..STEPS_MAX {
        let bank = Bank::new().await;
        // Killed, and whoever takes over is killed as far into its own work.
        let mut killed = 0;
        for token in [7, 8] {
            let status = bank.start(token, End::Killed, step).end().await;
            assert!(status.success() || status.signal() == Some(9), "{status}");
            killed += u32::from(!status.success());
        }
        let last = bank.start(9, End::Killed, 0).end().await;
        assert!(last.success(), "step {step}: {last}");
        bank.paid_exactly_once(&format!("killed at step {step}"))
            .await;
        crashes += killed;
        if killed == 0 {
            // Every step was taken, and there is none beyond.
            assert!(crashes > 20, "{crashes} crashes in {step} steps");
            return;
        }
    }
    panic!("a worker takes more than {STEPS_MAX} steps");
}

#[tokio::test]
async fn a_holder_stopped_at_any_step_calls_nobody_after_a_newer_one_was_admitted() {
    let (mut overtaken, mut waited_for) = (0, 0);
    for step in 1..STEPS_MAX {
        let bank = Bank::new().await;
        let mut older = bank.start(7, End::Stopped, step);
        if !older.is_stopped(&bank.ledger, 7).await {
            assert!(overtaken > 5 && waited_for > 5, "{overtaken} {waited_for}");
            return;
        }
        let mut newer = bank.start(8, End::Stopped, 0);
        // Where the older one holds the mark, the newer one cannot get in; elsewhere it does all its work.
        if bank.ledger.log().iter().any(|line| line == "holding 7") {
            bank.ledger.wait_for(&["busy 8", "admitted 8"]).await;
            waited_for += 1;
        } else {
            bank.ledger.wait_for(&["ended 8"]).await;
            overtaken += 1;
        }
        older.go_on();
        assert!(older.end().await.success() && newer.end().await.success());
        let log = bank.ledger.log();
        let admitted = log.iter().position(|line| line == "admitted 8").unwrap();
        let late = log[admitted..].iter().filter(|line| *line == "call by 7");
        assert_eq!(late.count(), 0, "stopped at step {step}: {log:?}");
        bank.paid_exactly_once(&format!("stopped at step {step}"))
            .await;
    }
    panic!("a worker takes more than {STEPS_MAX} steps");
}
