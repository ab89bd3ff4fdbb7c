//! Sending a recorded call, for the first time or once more.
//!
//! Two transactions, because two things must hold at once: that the call may have gone out must be on
//! disk *before* it goes out, and no newer holder may be admitted *while* it goes out. The first
//! transaction asks the guard, writes "unknown" and commits. The second asks the guard again, which
//! keeps the mark locked, makes the call, writes the answer and commits. A crash in the second takes
//! back nothing but the answer.

use std::future::Future;
use std::time::SystemTime;

use sqlx::{Pool, Transaction};

use crate::fence::Refusal;
use crate::fence::sql::{Dialect, Statement, begin};
use crate::sequencer::Sequencer;

use super::call::{Answer, Call, CallState, Outgoing};
use super::error::CallError;
use super::key::IdempotencyKey;
use super::row;
use super::table::Calls;

/// How much of an answer is kept, in bytes; the rest is cut off.
pub const ANSWER_BYTES_MAX: usize = 16 * 1024;

/// How far a call came.
#[must_use = "what is not settled must be looked after"]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// It is done or refused: now, or when it was first sent.
    Settled(Call),
    /// It is still open: no definite answer came, or somebody else is sending it at this moment.
    Open(Call),
    /// It may have gone out, and sending it again could do it twice: the service promises nothing, or
    /// its retention of the key may be over. [Ask](Calls::ask), or [conclude](Calls::conclude).
    MustAsk(Call),
    /// The guard refused the grant that was to vouch for it. Nothing was sent.
    Refused(Refusal),
}

impl<DB: Dialect> Calls<DB> {
    /// Sends a recorded call, or sends it again with the same key, and records the answer.
    ///
    /// `by` is the grant of whoever sends: the one that recorded the call, or a newer one for the same
    /// resource, whose holder takes over what it found open. A stale one is refused, and the guard's
    /// mark stays locked while `service` is at work: **from the moment that a newer token is admitted
    /// no call of an older holder goes out**, and no two of them are under way at once for one
    /// resource. The price is that a newer holder waits for up to [the time that a call may
    /// take](super::Terms::timeout), and in SQLite every writer of the database does.
    ///
    /// `service` makes the call, with the key it is given, and says what came of it. Needs tokio's timer.
    ///
    /// # Errors
    ///
    /// [`CallError`]. The record is true in each case: `pending` if nothing went out for certain,
    /// `unknown` otherwise.
    pub async fn send<F>(
        &self,
        pool: &Pool<DB>,
        by: &Sequencer,
        key: &IdempotencyKey,
        now: SystemTime,
        service: impl FnOnce(Outgoing) -> F,
    ) -> Result<Progress, CallError>
    where
        F: Future<Output = Answer>,
    {
        let begun = match self.begin(pool, by, key, now).await? {
            Begun::Call(call) => call,
            Begun::Over(progress) => return Ok(progress),
        };
        let mut transaction = begin(pool).await?;
        let mut call = match self.vouched(&mut transaction, by, key).await? {
            Ok(call) => call,
            Err(refusal) => {
                transaction.rollback().await?;
                self.take_back(pool, &begun).await?;
                return Ok(Progress::Refused(refusal));
            }
        };
        if call.state.is_settled() {
            return Ok(Progress::Settled(call));
        }
        // Somebody else, with a grant as good, has begun to send it since.
        if call.attempts != begun.attempts {
            return Ok(Progress::Open(call));
        }
        let sent = service(outgoing(&call));
        let answer = tokio::time::timeout(self.terms.timeout, sent).await;
        let answer = answer.unwrap_or(Answer::Unknown);
        self.answered(&mut transaction, &mut call, answer).await?;
        transaction.commit().await?;
        Ok(progress(call))
    }

    /// Asks the service what became of a call, by its key, and records what it says. Nobody can send
    /// the call meanwhile.
    ///
    /// `service` returns [`Answer::Unknown`] when the service does not say, *and when it does not know
    /// the key*: within its retention that means that [sending](Self::send) is right, and beyond it
    /// says nothing. A call that was just sent may also still be on its way: ask about those whose age
    /// is beyond all time-outs.
    ///
    /// # Errors
    ///
    /// [`CallError`]; the record has not changed.
    pub async fn ask<F>(
        &self,
        pool: &Pool<DB>,
        by: &Sequencer,
        key: &IdempotencyKey,
        service: impl FnOnce(Outgoing) -> F,
    ) -> Result<Progress, CallError>
    where
        F: Future<Output = Answer>,
    {
        let mut transaction = begin(pool).await?;
        let mut call = match self.vouched(&mut transaction, by, key).await? {
            Ok(call) => call,
            Err(refusal) => return Ok(Progress::Refused(refusal)),
        };
        if call.state == CallState::Unknown {
            let asked = service(outgoing(&call));
            let answer = tokio::time::timeout(self.terms.timeout, asked).await;
            let answer = answer.unwrap_or(Answer::Unknown);
            self.answered(&mut transaction, &mut call, answer).await?;
            transaction.commit().await?;
        }
        Ok(progress(call))
    }

    /// Records what somebody found out by other means, in the caller's transaction: from a statement
    /// of account, by a telephone call. Also how a [pending](CallState::Pending) call that is not
    /// wanted any more is given up, as refused. A settled call stays as it is.
    ///
    /// # Errors
    ///
    /// [`CallError`]. Roll back.
    pub async fn conclude(
        &self,
        transaction: &mut Transaction<'_, DB>,
        by: &Sequencer,
        key: &IdempotencyKey,
        answer: Answer,
    ) -> Result<Progress, CallError> {
        let mut call = match self.vouched(transaction, by, key).await? {
            Ok(call) => call,
            Err(refusal) => return Ok(Progress::Refused(refusal)),
        };
        if !call.state.is_settled() {
            self.answered(transaction, &mut call, answer).await?;
        }
        Ok(progress(call))
    }

    /// The first transaction: from its commit on, the call may have gone out.
    async fn begin(
        &self,
        pool: &Pool<DB>,
        by: &Sequencer,
        key: &IdempotencyKey,
        now: SystemTime,
    ) -> Result<Begun, CallError> {
        let mut transaction = begin(pool).await?;
        let mut call = match self.vouched(&mut transaction, by, key).await? {
            Ok(call) => call,
            Err(refusal) => return Ok(Begun::Over(Progress::Refused(refusal))),
        };
        if call.state.is_settled() {
            return Ok(Begun::Over(Progress::Settled(call)));
        }
        if !self.terms.may_send(&call, now) {
            return Ok(Begun::Over(Progress::MustAsk(call)));
        }
        call.attempts = call.attempts.saturating_add(1);
        call.state = CallState::Unknown;
        let first = *call.sent_at.get_or_insert(now);
        let mut sql = self.update(&call);
        sql.push(", ").name("attempts").push(" = ");
        sql.integer(i64::from(call.attempts));
        sql.push(", ").name("sent_ms").push(" = ");
        sql.integer(row::millis(first));
        self.execute_on(&mut transaction, sql, key).await?;
        transaction.commit().await?;
        Ok(Begun::Call(call))
    }

    /// A call that was begun for the first time and not made after all is pending again.
    async fn take_back(&self, pool: &Pool<DB>, begun: &Call) -> Result<(), CallError> {
        if begun.attempts != 1 {
            return Ok(());
        }
        let mut sql = Statement::<DB>::new("UPDATE ");
        sql.push(&self.table.quoted::<DB>()).push(" SET ");
        sql.name("state").push(" = ").text("pending");
        sql.push(", ").name("attempts").push(" = 0, ");
        sql.name("sent_ms").push(" = NULL WHERE ");
        sql.name("call_key").push(" = ").text(begun.key.as_str());
        sql.push(" AND ").name("attempts").push(" = 1 AND ");
        sql.name("state").push(" = ").text("unknown");
        let mut connection = pool.acquire().await?;
        DB::execute(&mut connection, sql).await?;
        Ok(())
    }

    /// Asks the guard about the grant of whoever acts, which locks the mark, and reads the call.
    async fn vouched(
        &self,
        transaction: &mut Transaction<'_, DB>,
        by: &Sequencer,
        key: &IdempotencyKey,
    ) -> Result<Result<Call, Refusal>, CallError> {
        let verdict = self.guard.fenced(transaction, by).await?;
        if let Err(refusal) = verdict.admitted() {
            return Ok(Err(refusal));
        }
        let Some(call) = self.find(transaction, key).await? else {
            let key = key.clone();
            return Err(CallError::NoSuchCall { key });
        };
        // The mark was at least at the call's token since it was recorded, so `by` is as new.
        if call.sequencer.resource != by.resource || call.sequencer.issuer != by.issuer {
            return Err(CallError::OtherResource {
                key: call.key,
                resource: by.resource.clone(),
            });
        }
        Ok(Ok(call))
    }

    async fn answered(
        &self,
        transaction: &mut Transaction<'_, DB>,
        call: &mut Call,
        answer: Answer,
    ) -> Result<(), CallError> {
        call.state = match answer {
            Answer::Done(text) => CallState::Done(kept(text)),
            Answer::Refused(text) => CallState::Refused(kept(text)),
            Answer::Unknown => return Ok(()),
        };
        let sql = self.update(call);
        self.execute_on(transaction, sql, &call.key).await
    }

    /// `UPDATE` of the state and what belongs to it, up to `WHERE`.
    fn update(&self, call: &Call) -> Statement<DB> {
        let mut sql = Statement::<DB>::new("UPDATE ");
        sql.push(&self.table.quoted::<DB>()).push(" SET ");
        sql.name("state").push(" = ").text(call.state.as_str());
        if let CallState::Done(answer) | CallState::Refused(answer) = &call.state {
            sql.push(", ").name("answer").push(" = ").text(answer);
        }
        sql
    }

    async fn execute_on(
        &self,
        transaction: &mut Transaction<'_, DB>,
        mut sql: Statement<DB>,
        key: &IdempotencyKey,
    ) -> Result<(), CallError> {
        sql.push(" WHERE ").name("call_key").push(" = ");
        sql.text(key.as_str());
        DB::execute(transaction, sql).await?;
        Ok(())
    }
}

/// What came of the first transaction.
enum Begun {
    Call(Call),
    Over(Progress),
}

fn progress(call: Call) -> Progress {
    match call.state.is_settled() {
        true => Progress::Settled(call),
        false => Progress::Open(call),
    }
}

fn outgoing(call: &Call) -> Outgoing {
    Outgoing {
        key: call.key.clone(),
        request: call.request.clone(),
        attempt: call.attempts,
    }
}

/// An answer as far as it is kept. It is recorded after the call was made, so that nothing about it may
/// fail: it is cut, and a NUL, which PostgreSQL's texts do not hold, is replaced.
fn kept(mut answer: String) -> String {
    if answer.len() > ANSWER_BYTES_MAX {
        let cut = (0..=ANSWER_BYTES_MAX).rev();
        let end = cut.into_iter().find(|at| answer.is_char_boundary(*at));
        answer.truncate(end.unwrap_or(0));
    }
    // The mark of what cannot be shown takes more bytes than what it stands for.
    answer.replace('\0', "?")
}
