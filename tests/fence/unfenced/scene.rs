//! A table of calls beside the marks, and a service that is a closure.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fencepost::{
    fence::{
        Rules,
        sql::{GuardTable, SqlError},
        unfenced::{
            Answer, Call, CallError, Calls, IdempotencyKey, Operation, Outgoing, Progress,
            Recorded, Terms,
        },
    },
    sequencer::Sequencer,
};
use sqlx::Pool;

use crate::{
    scene::rules,
    sql::database::{Database, Server},
};

pub(crate) const HOUR: Duration = Duration::from_secs(3_600);

/// A moment of the tests' own clock.
pub(crate) fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(1_000_000 + seconds)
}

pub(crate) struct Scene<DB: Server> {
    pub(crate) calls: Calls<DB>,
    pub(crate) guard: GuardTable<DB>,
    pub(crate) pool: Pool<DB>,
    _database: Database<DB>,
}

impl<DB: Server> Scene<DB> {
    pub(crate) async fn new(database: Database<DB>, terms: Terms) -> Self {
        Self::by(database, rules(), terms).await.unwrap()
    }

    pub(crate) async fn by(
        database: Database<DB>,
        rules: Rules,
        terms: Terms,
    ) -> Result<Self, SqlError> {
        let pool = database.pool(8).await;
        let mut connection = pool.acquire().await.unwrap();
        let guard = GuardTable::create(&mut *connection, "fencing_marks", rules).await?;
        let calls = Calls::create(&mut *connection, "payments", guard.clone(), terms).await?;
        drop(connection);
        Ok(Self {
            calls,
            guard,
            pool,
            _database: database,
        })
    }

    /// Records a call in a transaction of its own, which commits if something was recorded.
    pub(crate) async fn record(
        &self,
        by: &Sequencer,
        operation: &Operation,
        request: &str,
    ) -> Result<Recorded, CallError> {
        let mut tx = self.pool.begin().await.unwrap();
        let recorded = self
            .calls
            .record(&mut tx, by, operation, request, at(0))
            .await?;
        if matches!(recorded, Recorded::New(_) | Recorded::Again(_)) {
            tx.commit().await.unwrap();
        }
        Ok(recorded)
    }

    /// A recorded call.
    pub(crate) async fn recorded(&self, by: &Sequencer, operation: &str) -> Call {
        let operation = Operation::named(operation).unwrap();
        match self.record(by, &operation, "5 EUR").await.unwrap() {
            Recorded::New(call) => call,
            other => panic!("{other:?}"),
        }
    }

    /// Sends it to a service that gives this answer.
    pub(crate) async fn send(
        &self,
        by: &Sequencer,
        key: &IdempotencyKey,
        now: SystemTime,
        answer: Answer,
    ) -> Progress {
        let service = async |_| answer;
        self.calls
            .send(&self.pool, by, key, now, service)
            .await
            .unwrap()
    }

    /// Sends it to this service.
    pub(crate) async fn send_to<F: Future<Output = Answer>>(
        &self,
        by: &Sequencer,
        key: &IdempotencyKey,
        now: SystemTime,
        service: impl FnOnce(Outgoing) -> F,
    ) -> Result<Progress, CallError> {
        self.calls.send(&self.pool, by, key, now, service).await
    }

    /// Sends it, and fails if anything goes out.
    pub(crate) async fn send_nothing(
        &self,
        by: &Sequencer,
        key: &IdempotencyKey,
        now: SystemTime,
    ) -> Progress {
        let service = async |out| panic!("{out:?} went out");
        self.calls
            .send(&self.pool, by, key, now, service)
            .await
            .unwrap()
    }

    pub(crate) async fn find(&self, key: &IdempotencyKey) -> Option<Call> {
        let mut connection = self.pool.acquire().await.unwrap();
        self.calls.find(&mut connection, key).await.unwrap()
    }

    /// Somebody with this grant was here.
    pub(crate) async fn admit(&self, sequencer: &Sequencer) {
        let mut tx = self.pool.begin().await.unwrap();
        let verdict = self.guard.fenced(&mut tx, sequencer).await.unwrap();
        verdict.admitted().unwrap();
        tx.commit().await.unwrap();
    }
}

pub(crate) fn day() -> Terms {
    Terms::remembers_keys_for(23 * HOUR)
}

pub(crate) fn done(text: &str) -> Answer {
    Answer::Done(text.to_owned())
}
