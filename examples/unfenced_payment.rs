//! Payments under a grant: recorded before they are made, made once, and settled after a crash.
//!
//! Start a cluster with `fencepost dev`, then `cargo run --example unfenced_payment`. Kill it (`kill -9`) while
//! it says that it pays, and run it again: it settles first what it finds open, with the key that the
//! payment had, and nothing is paid twice.
#![expect(
    clippy::disallowed_methods,
    reason = "the library takes the time as an argument, and a program is where it comes from"
)]

use fencepost::client::{Client, Options};
use fencepost::fence::Rules;
use fencepost::fence::sql::GuardTable;
use fencepost::fence::unfenced::{
    Answer, Call, CallState, Calls, Operation, Outgoing, Progress, Recorded, Terms,
};
use fencepost::resource::Holder;
use fencepost::sequencer::Sequencer;
use sqlx::sqlite::{SqliteConnectOptions, SqlitePool};
use sqlx::{Executor as _, Sqlite};
use std::error::Error;
use std::time::{Duration, SystemTime};

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let nodes = ["127.0.0.1:7100", "127.0.0.1:7101", "127.0.0.1:7102"];
    let client = Client::connect(nodes, Options::default())?;
    let resource = "payouts".parse()?;
    let holder: Holder = format!("worker-{}", std::process::id()).parse()?;
    let wait = Duration::from_secs(120);
    let held = client.hold(&resource, &holder).wait(wait).await?.held()?;
    println!("{holder} has {resource} with token {}", held.token());

    let office = Office::open().await?;
    held.while_held(office.work(held.sequencer())).await??;
    held.release().await?;
    Ok(())
}

/// A program that owes money, and the database in which it keeps what it knows.
struct Office {
    pool: SqlitePool,
    calls: Calls<Sqlite>,
    service: PaymentService,
}

impl Office {
    async fn open() -> Result<Self, Box<dyn Error>> {
        let pool = file("unfenced-payment.sqlite").await?;
        pool.execute(
            "CREATE TABLE IF NOT EXISTS invoices (id INTEGER PRIMARY KEY, state TEXT NOT NULL, call_key TEXT);
             INSERT OR IGNORE INTO invoices (id, state) VALUES (1, 'open'), (2, 'open'), (3, 'open');",
        )
        .await?;
        let mut connection = pool.acquire().await?;
        let rules = Rules::issued_by("dev".parse()?);
        let guard = GuardTable::<Sqlite>::create(&mut connection, "fencing_marks", rules).await?;
        // The service promises a day. An hour less leaves room for clocks and for slow requests.
        let terms = Terms::remembers_keys_for(Duration::from_secs(23 * 60 * 60));
        let calls = Calls::<Sqlite>::create(&mut connection, "payments", guard, terms).await?;
        drop(connection);
        let service = PaymentService::open().await?;
        Ok(Self {
            pool,
            calls,
            service,
        })
    }

    async fn work(&self, grant: &Sequencer) -> Result<(), Box<dyn Error>> {
        self.settle_open(grant).await?;
        self.catch_up().await?;
        let open = "SELECT id FROM invoices WHERE state = 'open' ORDER BY id";
        let open: Vec<i64> = sqlx::query_scalar(open).fetch_all(&self.pool).await?;
        for invoice in open {
            let call = self.record(grant, invoice).await?;
            self.send(grant, &call).await?;
        }
        println!("nothing is left to pay");
        Ok(())
    }

    /// Writes down that a payment is going to be made, together with what the program itself has to
    /// remember about it. Nothing goes out yet.
    async fn record(&self, grant: &Sequencer, invoice: i64) -> Result<Call, Box<dyn Error>> {
        // One grant pays several invoices, so each payment has a name of its own. Without it the second
        // one would have the key of the first, and never be made.
        let operation = Operation::named(&format!("invoice {invoice}"))?;
        let request = format!("pay invoice {invoice}");
        let now = SystemTime::now();
        let mut tx = self.pool.begin().await?;
        let recorded = self
            .calls
            .record(&mut tx, grant, &operation, &request, now)
            .await?;
        let call = match recorded {
            Recorded::New(call) | Recorded::Again(call) => call,
            // An earlier holder left a call open, and whether this one is wanted may hang on it.
            Recorded::Unsettled(older) => return Err(format!("settle {} first", older.key).into()),
            // A newer holder has been here. This one has nothing to pay any more.
            Recorded::Refused(refusal) => return Err(refusal.into()),
        };
        sqlx::query("UPDATE invoices SET state = 'being paid', call_key = ? WHERE id = ?")
            .bind(call.key.as_str())
            .bind(invoice)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        Ok(call)
    }

    /// Sends a recorded call, for the first time or once more, and keeps what came of it.
    async fn send(&self, grant: &Sequencer, call: &Call) -> Result<(), Box<dyn Error>> {
        let service = async |out: Outgoing| self.service.pay(out).await;
        let now = SystemTime::now();
        let sent = self
            .calls
            .send(&self.pool, grant, &call.key, now, service)
            .await?;
        match sent {
            Progress::Settled(call) => self.conclude(&call).await,
            // No answer: it may have been made. The next one to come here sends it again.
            Progress::Open(call) => Err(format!("no answer about {}", call.key).into()),
            // Too old to be sent again. Here a person has to look at the account.
            Progress::MustAsk(call) => Err(format!("ask about {}", call.key).into()),
            Progress::Refused(refusal) => Err(refusal.into()),
        }
    }

    /// Settles what earlier holders left open, oldest first.
    async fn settle_open(&self, grant: &Sequencer) -> Result<(), Box<dyn Error>> {
        let mut last: Option<Call> = None;
        loop {
            let mut connection = self.pool.acquire().await?;
            let page = self
                .calls
                .open_calls(&mut connection, last.as_ref(), 100)
                .await?;
            drop(connection);
            for call in &page {
                let age = call.age(SystemTime::now());
                println!("{} has been open for {} s", call.key, age.as_secs());
                self.send(grant, call).await?;
            }
            match page.into_iter().last() {
                Some(call) => last = Some(call),
                None => return Ok(()),
            }
        }
    }

    /// A crash may also have come after an answer was recorded, and before the program acted on it.
    async fn catch_up(&self) -> Result<(), Box<dyn Error>> {
        let begun = "SELECT call_key FROM invoices WHERE state = 'being paid'";
        let begun: Vec<String> = sqlx::query_scalar(begun).fetch_all(&self.pool).await?;
        for key in begun {
            let mut connection = self.pool.acquire().await?;
            let call = self.calls.find(&mut connection, &key.parse()?).await?;
            drop(connection);
            self.conclude(&call.ok_or("its record is gone")?).await?;
        }
        Ok(())
    }

    /// What a settled call means to the program. May be done again after a crash.
    async fn conclude(&self, call: &Call) -> Result<(), Box<dyn Error>> {
        let state = match &call.state {
            CallState::Done(answer) => format!("paid: {answer}"),
            CallState::Refused(answer) => format!("refused: {answer}"),
            open => return Err(format!("still {open:?}").into()),
        };
        println!("{}: {state}", call.request);
        let invoice = call.request.trim_start_matches("pay invoice ");
        sqlx::query("UPDATE invoices SET state = ? WHERE id = ?")
            .bind(state)
            .bind(invoice.parse::<i64>()?)
            .execute(&self.pool)
            .await?;
        Ok(())
    }
}

/// Somebody else's service. It knows idempotency keys and nothing of tokens, and it is slow.
struct PaymentService(SqlitePool);

impl PaymentService {
    async fn open() -> Result<Self, Box<dyn Error>> {
        let pool = file("unfenced-payment-service.sqlite").await?;
        pool.execute(
            "CREATE TABLE IF NOT EXISTS payments (idempotency_key TEXT PRIMARY KEY, what TEXT)",
        )
        .await?;
        Ok(Self(pool))
    }

    async fn pay(&self, out: Outgoing) -> Answer {
        println!("{} (attempt {}) ...", out.request, out.attempt);
        let paid = sqlx::query("INSERT OR IGNORE INTO payments VALUES (?, ?)")
            .bind(out.key.as_str())
            .bind(&out.request)
            .execute(&self.0)
            .await;
        // The payment is made, and the answer takes its time: the moment for a crash.
        tokio::time::sleep(Duration::from_secs(3)).await;
        match paid {
            Ok(done) if done.rows_affected() == 1 => Answer::Done("now".to_owned()),
            Ok(_) => Answer::Done("it was made before".to_owned()),
            Err(_) => Answer::Unknown,
        }
    }
}

async fn file(name: &str) -> Result<SqlitePool, sqlx::Error> {
    let options = SqliteConnectOptions::new()
        .filename(name)
        .create_if_missing(true);
    SqlitePool::connect_with(options).await
}
