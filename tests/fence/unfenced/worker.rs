//! A holder as a process of its own: it pays invoices, after it has settled what was left open.
//!
//! The process is this test binary again, with a few variables of the environment. At the step that
//! these name it is killed or stopped, by a real signal.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    str::FromStr as _,
    sync::atomic::{AtomicU32, Ordering::SeqCst},
    time::{Duration, SystemTime},
};

use fencepost::{
    fence::{
        Verdict,
        sql::{GuardTable, SqlError},
        unfenced::{
            Answer, CallState, Calls, IdempotencyKey, Operation, Outgoing, Progress, Recorded,
        },
    },
    sequencer::Sequencer,
};
use sqlx::{
    Connection as _, Sqlite, SqliteConnection, SqlitePool,
    sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::scene::day;
use crate::scene::{rules, sequencer_for};

const ENTRY: &str = "unfenced::worker::a_worker_is_a_process";

/// What becomes of a worker at the step that it is told of.
#[derive(Debug, Clone, Copy)]
pub(crate) enum End {
    /// It kills itself, by SIGKILL.
    Killed,
    /// It says so and waits, for the test to stop it; it goes on with a line from its standard input.
    Stopped,
}

/// Starts a worker with a token of its own; step 0 is none.
pub(crate) fn start(database: &Path, ledger: &str, token: u64, end: End, at: u32) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", ENTRY, "--nocapture", "--test-threads=1"])
        .env("WORKER_DATABASE", database)
        .env("WORKER_LEDGER", ledger)
        .env("WORKER_TOKEN", token.to_string())
        .env("WORKER_END", format!("{end:?}"))
        .env("WORKER_AT", at.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// A no-op among the tests, and a worker when [`start`] runs it.
#[tokio::test]
async fn a_worker_is_a_process() {
    let variable = |name| std::env::var(name).unwrap();
    if std::env::var("WORKER_LEDGER").is_err() {
        return;
    }
    let pool = open(Path::new(&variable("WORKER_DATABASE"))).await;
    let mut connection = pool.acquire().await.unwrap();
    let guard = GuardTable::open(&mut *connection, "fencing_marks", rules())
        .await
        .unwrap();
    let calls = Calls::open(&mut *connection, "payments", guard.clone(), day())
        .await
        .unwrap();
    drop(connection);
    let token = variable("WORKER_TOKEN").parse().unwrap();
    let worker = Worker {
        grant: sequencer_for("bank", "payouts", token),
        ledger: variable("WORKER_LEDGER"),
        end: match variable("WORKER_END").as_str() {
            "Killed" => End::Killed,
            _ => End::Stopped,
        },
        at: variable("WORKER_AT").parse().unwrap(),
        steps: AtomicU32::new(0),
        pool,
        guard,
        calls,
    };
    worker.note(&format!("begun {token}")).await;
    let end = match worker.work().await {
        Ok(()) => "ended",
        Err(Stale) => "refused",
    };
    worker.note(&format!("{end} {token}")).await;
}

/// The database of the invoices, with everything on disk that was committed.
pub(crate) async fn open(path: &Path) -> SqlitePool {
    let options = SqliteConnectOptions::from_str(&format!("sqlite://{}", path.display())).unwrap();
    let options = options
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Normal)
        .busy_timeout(Duration::from_secs(60));
    SqlitePool::connect_with(options).await.unwrap()
}

/// The guard said that a newer holder has been there.
struct Stale;

struct Worker {
    grant: Sequencer,
    ledger: String,
    end: End,
    at: u32,
    steps: AtomicU32,
    pool: SqlitePool,
    guard: GuardTable<Sqlite>,
    calls: Calls<Sqlite>,
}

impl Worker {
    /// A place at which the process may end or stop. `holding` tells whether the mark is locked there.
    async fn step(&self, holding: bool) {
        if self.steps.fetch_add(1, SeqCst) + 1 != self.at {
            return;
        }
        let place = if holding { "holding" } else { "free" };
        self.note(&format!("{place} {}", self.grant.token)).await;
        match self.end {
            End::Killed => {
                let signal = format!("kill -KILL {}", std::process::id());
                let sent = Command::new("sh").args(["-c", &signal]).status();
                assert!(sent.unwrap().success());
                // The kernel comes to it when it comes to it; nothing goes on here meanwhile.
                std::future::pending().await
            }
            // The test stops the process here, and says when it may go on. Nothing else runs.
            End::Stopped => {
                let mut line = String::new();
                std::io::stdin().read_line(&mut line).unwrap();
            }
        }
    }

    async fn work(&self) -> Result<(), Stale> {
        self.enter().await?;
        self.settle_open().await?;
        for invoice in self.unpaid().await {
            self.pay(invoice).await?;
        }
        Ok(())
    }

    async fn enter(&self) -> Result<(), Stale> {
        self.step(false).await;
        let mut connection = self.pool.acquire().await.unwrap();
        // The first try does not wait, so that it can be told whether somebody holds the mark.
        let impatient = "PRAGMA busy_timeout = 0";
        sqlx::query(impatient)
            .execute(&mut *connection)
            .await
            .unwrap();
        if let Err(error) = self.admit(&mut connection).await.map(Result::ok) {
            assert!(error.may_retry(), "{error}");
            self.note(&format!("busy {}", self.grant.token)).await;
        }
        let patient = "PRAGMA busy_timeout = 60000";
        sqlx::query(patient)
            .execute(&mut *connection)
            .await
            .unwrap();
        self.admit(&mut connection).await.unwrap()?;
        self.note(&format!("admitted {}", self.grant.token)).await;
        self.step(false).await;
        Ok(())
    }

    async fn admit(
        &self,
        connection: &mut SqliteConnection,
    ) -> Result<Result<(), Stale>, SqlError> {
        let mut tx = connection.begin().await?;
        let verdict = self.guard.fenced(&mut tx, &self.grant).await;
        match verdict {
            Ok(Verdict::Admitted) => tx.commit().await?,
            _ => tx.rollback().await?,
        }
        Ok(verdict?.admitted().map_err(|_| Stale))
    }

    /// Sends whatever earlier grants have left open, page by page.
    async fn settle_open(&self) -> Result<(), Stale> {
        loop {
            let mut connection = self.pool.acquire().await.unwrap();
            let page = self
                .calls
                .open_calls(&mut connection, None, 2)
                .await
                .unwrap();
            drop(connection);
            if page.is_empty() {
                return Ok(());
            }
            for call in page {
                self.send(&call.key).await?;
            }
        }
    }

    async fn unpaid(&self) -> Vec<i64> {
        let unpaid = sqlx::query_scalar("SELECT id FROM invoices WHERE paid = '' ORDER BY id");
        unpaid.fetch_all(&self.pool).await.unwrap()
    }

    async fn pay(&self, invoice: i64) -> Result<(), Stale> {
        let kept: String = sqlx::query_scalar("SELECT call_key FROM invoices WHERE id = ?")
            .bind(invoice)
            .fetch_one(&self.pool)
            .await
            .unwrap();
        let key = match kept.parse() {
            Ok(key) => key,
            Err(_) => self.record(invoice).await?,
        };
        let answer = self.send(&key).await?;
        self.step(false).await;
        let paid = sqlx::query("UPDATE invoices SET paid = ? WHERE id = ?");
        paid.bind(answer)
            .bind(invoice)
            .execute(&self.pool)
            .await
            .unwrap();
        self.step(false).await;
        Ok(())
    }

    /// Records the call, and in the invoice that it is recorded.
    async fn record(&self, invoice: i64) -> Result<IdempotencyKey, Stale> {
        let operation = Operation::named(&format!("invoice {invoice}")).unwrap();
        let request = format!("pay invoice {invoice}");
        loop {
            self.step(false).await;
            let mut tx = self.pool.begin().await.unwrap();
            let recorded = self.calls.record(
                &mut tx,
                &self.grant,
                &operation,
                &request,
                SystemTime::now(),
            );
            let call = match recorded.await.unwrap() {
                Recorded::New(call) | Recorded::Again(call) => call,
                Recorded::Refused(_) => return Err(Stale),
                Recorded::Unsettled(older) => {
                    drop(tx);
                    self.send(&older.key).await?;
                    continue;
                }
            };
            self.step(true).await;
            let keep = sqlx::query("UPDATE invoices SET call_key = ? WHERE id = ?");
            let keep = keep.bind(call.key.as_str()).bind(invoice);
            keep.execute(&mut *tx).await.unwrap();
            self.step(true).await;
            tx.commit().await.unwrap();
            self.step(false).await;
            return Ok(call.key);
        }
    }

    /// Sends a call until it is settled; the service always answers in the end.
    async fn send(&self, key: &IdempotencyKey) -> Result<String, Stale> {
        for _ in 0..100 {
            let service = async |out| self.call(out).await;
            let sent = self
                .calls
                .send(&self.pool, &self.grant, key, SystemTime::now(), service);
            match sent.await.unwrap() {
                Progress::Settled(call) => match call.state {
                    CallState::Done(answer) => return Ok(answer),
                    other => panic!("{other:?}"),
                },
                Progress::Open(_) => {}
                Progress::Refused(_) => return Err(Stale),
                Progress::MustAsk(call) => panic!("{call:?}"),
            }
        }
        panic!("{key} stays open");
    }

    /// The call itself, byte by byte, so that it can break off anywhere.
    async fn call(&self, out: Outgoing) -> Answer {
        self.step(true).await;
        let Ok(mut socket) = TcpStream::connect(&self.ledger).await else {
            return Answer::Unknown;
        };
        let headers = format!(
            "Idempotency-Key: {}\r\nX-Worker: {}\r\n",
            out.key, self.grant.token
        );
        let request = http("/payments", &headers, &out.request);
        let (first, rest) = request.as_bytes().split_at(request.len() - 5);
        socket.write_all(first).await.unwrap();
        self.step(true).await;
        socket.write_all(rest).await.unwrap();
        self.step(true).await;
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        self.step(true).await;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{answer}");
        Answer::Done(body.to_owned())
    }

    /// Tells the service something, for the log that the test reads.
    async fn note(&self, text: &str) {
        let mut socket = TcpStream::connect(&self.ledger).await.unwrap();
        let request = http("/notes", "", text);
        socket.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        socket.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }
}

fn http(path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: ledger\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n{body}"
    )
}
