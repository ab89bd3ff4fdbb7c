//! Single interleavings that an isolation level could get wrong, at each level that is offered.

use std::sync::Arc;

use fencepost::fence::{
    Verdict,
    sql::{GuardTable, SqlError, WriteOutcome},
};
use sqlx::Connection as _;
use tokio::sync::Barrier;

use super::{
    database::{Database, Server},
    on_each_database,
};
use crate::scene::{ACCOUNT, resource, rules, sequencer, sequencer_for};

on_each_database!(
    and_old;
    an_admitted_transaction_finishes_before_a_newer_one_is_admitted,
    what_is_read_after_being_fenced_is_never_older_than_the_last_admission,
    a_write_that_waited_for_a_newer_one_is_refused,
    a_savepoint_that_is_rolled_back_takes_the_mark_back,
    two_resources_in_opposite_orders_end_in_an_error_that_may_be_retried,
);

pub(super) const BALANCE: &str = "SELECT balance FROM accounts WHERE id = 1";

/// A whole transaction under a grant.
pub(super) async fn admitted<DB: Server>(
    guard: &GuardTable<DB>,
    connection: &mut DB::Connection,
    value: u64,
) -> Result<(), SqlError> {
    let done = write_under(guard, connection, value).await;
    if done.is_err() {
        // A transaction that was dropped is rolled back when its connection is used next.
        DB::run(connection, "SELECT 1").await?;
    }
    done
}

async fn write_under<DB: Server>(
    guard: &GuardTable<DB>,
    connection: &mut DB::Connection,
    value: u64,
) -> Result<(), SqlError> {
    let mut tx = DB::begin(connection, DB::USUAL).await?;
    let verdict = guard.fenced(&mut tx, &sequencer(value)).await?;
    assert_eq!(verdict, Verdict::Admitted);
    let write =
        format!("UPDATE accounts SET balance = {value}, fencing_token = {value} WHERE id = 1");
    DB::run(&mut tx, &write).await?;
    tx.commit().await?;
    Ok(())
}

/// The mark stays locked from `fenced` to the commit: a newer holder's transaction waits for it, so
/// that its writes come after, never in between.
async fn an_admitted_transaction_finishes_before_a_newer_one_is_admitted<DB: Server>(
    database: Database<DB>,
) {
    let guard = database.marks(rules()).await;
    let mut expected = Vec::new();
    for (&level, value) in DB::LEVELS.iter().zip([1, 11, 21, 31]) {
        let (mut older, mut newer) = (database.connect().await, database.connect().await);
        let mut tx = DB::begin(&mut older, level).await.unwrap();
        let verdict = guard.fenced(&mut tx, &sequencer(value)).await.unwrap();
        assert_eq!(verdict, Verdict::Admitted);
        let raced = guard.clone();
        let waiting = tokio::spawn(async move { admitted(&raced, &mut newer, value + 1).await });
        // A connection that does not wait is refused: the lock is really held.
        let mut probe = database.connect().await;
        DB::run(&mut probe, DB::IMPATIENT).await.unwrap();
        let busy = admitted(&guard, &mut probe, value + 2).await.unwrap_err();
        assert!(busy.may_retry(), "{level}: {busy}");
        assert!(!waiting.is_finished());

        let write =
            format!("UPDATE accounts SET balance = 1, fencing_token = {value} WHERE id = 1");
        DB::run(&mut tx, &write).await.unwrap();
        tx.commit().await.unwrap();
        waiting.await.unwrap().unwrap();
        expected.extend([value, value + 1].map(|value| i64::try_from(value).unwrap()));
        assert_eq!(database.history().await, expected, "{level}");
    }
}

/// A transaction that reads, then is overtaken, then is admitted: what it reads from then on must not
/// be of the time before it was overtaken. It sees what is newest, or it is told to begin again.
async fn what_is_read_after_being_fenced_is_never_older_than_the_last_admission<DB: Server>(
    database: Database<DB>,
) {
    let guard = database.marks(rules()).await;
    let (mut slow, mut quick) = (database.connect().await, database.connect().await);
    DB::run(&mut quick, DB::IMPATIENT).await.unwrap();
    for (&level, value) in DB::LEVELS.iter().zip([2, 12, 22, 32]) {
        let mut tx = DB::begin(&mut slow, level).await.unwrap();
        let before = DB::numbers(&mut tx, BALANCE).await.unwrap();
        let newest = match admitted(&guard, &mut quick, value).await {
            Ok(()) => vec![vec![i64::try_from(value).unwrap()]],
            // At a level that keeps others out after a mere read, nobody overtakes.
            Err(error) => {
                assert!(error.may_retry(), "{level}: {error}");
                before
            }
        };
        match guard.fenced(&mut tx, &sequencer(value + 1)).await {
            Ok(verdict) => {
                assert_eq!(verdict, Verdict::Admitted, "{level}");
                let read = DB::numbers(&mut tx, BALANCE).await.unwrap();
                assert_eq!(
                    read, newest,
                    "{level}: admitted, and reads what was overwritten"
                );
                tx.commit().await.unwrap();
            }
            Err(error) => {
                assert!(error.may_retry(), "{level}: {error}");
                tx.rollback().await.unwrap();
                admitted(&guard, &mut slow, value + 1).await.unwrap();
            }
        }
    }
}

/// A late statement that had to wait for the row meets the row as it is then.
async fn a_write_that_waited_for_a_newer_one_is_refused<DB: Server>(database: Database<DB>) {
    let accounts = database.accounts(rules()).await;
    for (&level, value) in DB::LEVELS.iter().zip([2, 12, 22, 32]) {
        let (mut newer, mut late) = (database.connect().await, database.connect().await);
        let mut tx = DB::begin(&mut newer, DB::USUAL).await.unwrap();
        let write = accounts.write(&resource(ACCOUNT), &sequencer(value));
        let write = write.key(DB::number(1)).set("balance", DB::number(1));
        assert_eq!(write.update(&mut tx).await.unwrap(), WriteOutcome::Written);
        let raced = accounts.clone();
        let waiting = tokio::spawn(async move {
            let mut tx = DB::begin(&mut late, level).await?;
            let write = raced.write(&resource(ACCOUNT), &sequencer(value - 1));
            let write = write.key(DB::number(1)).set("balance", DB::number(0));
            let outcome = write.update(&mut tx).await;
            tx.commit().await?;
            outcome
        });
        tx.commit().await.unwrap();
        match waiting.await.unwrap() {
            Ok(outcome) => assert!(matches!(outcome, WriteOutcome::Stale { .. }), "{outcome:?}"),
            Err(error) => assert!(error.may_retry(), "{level}: {error}"),
        }
        let mark = i64::try_from(value).unwrap();
        assert_eq!(database.account(1).await, Some((1, mark)), "{level}");
    }
}

async fn a_savepoint_that_is_rolled_back_takes_the_mark_back<DB: Server>(database: Database<DB>) {
    let guard = database.marks(rules()).await;
    let mut connection = database.connect().await;
    for (&level, value) in DB::LEVELS.iter().zip([2, 12, 22, 32]) {
        let mut tx = DB::begin(&mut connection, level).await.unwrap();
        let mut savepoint = tx.begin().await.unwrap();
        let verdict = guard
            .fenced(&mut savepoint, &sequencer(value))
            .await
            .unwrap();
        assert_eq!(verdict, Verdict::Admitted);
        let write = format!("UPDATE accounts SET balance = {value} WHERE id = 1");
        DB::run(&mut savepoint, &write).await.unwrap();
        savepoint.rollback().await.unwrap();
        // The mark went with the writes: an older token passes, and must ask for itself.
        let verdict = guard.fenced(&mut tx, &sequencer(value - 1)).await.unwrap();
        assert_eq!(verdict, Verdict::Admitted, "{level}");
        tx.commit().await.unwrap();
        let mark = guard
            .mark(&mut connection, &resource(ACCOUNT))
            .await
            .unwrap();
        assert_eq!(mark.unwrap().token.get(), value - 1, "{level}");
        assert_eq!(database.account(1).await, Some((0, 0)), "{level}");
    }
}

/// Two transactions that want two resources in opposite orders. Where each gets its first, one of the
/// two is told to try again.
async fn two_resources_in_opposite_orders_end_in_an_error_that_may_be_retried<DB: Server>(
    database: Database<DB>,
) {
    let guard = database.marks(rules()).await;
    for (&level, value) in DB::LEVELS.iter().zip([1, 11, 21, 31]) {
        let both_have_one = Arc::new(Barrier::new(2));
        let mut transactions = tokio::task::JoinSet::new();
        for order in [["account/1", "account/2"], ["account/2", "account/1"]] {
            let (guard, mut connection) = (guard.clone(), database.connect().await);
            let both_have_one = Arc::clone(&both_have_one);
            transactions.spawn(async move {
                let mut retries = 0;
                let mut meet = Some(&*both_have_one).filter(|_| !DB::ONE_WRITER);
                while let Err(error) =
                    fenced_by_both(&guard, &mut connection, level, order, value, meet.take()).await
                {
                    assert!(error.may_retry(), "{level}: {error}");
                    retries += 1;
                }
                retries
            });
        }
        let retries: usize = transactions.join_all().await.iter().sum();
        assert!(retries > 0 || DB::ONE_WRITER, "{level}: they did not meet");
        for name in ["account/1", "account/2"] {
            let mut connection = database.connect().await;
            let mark = guard.mark(&mut connection, &resource(name)).await.unwrap();
            assert_eq!(mark.unwrap().token.get(), value, "{level}");
        }
    }
}

async fn fenced_by_both<DB: Server>(
    guard: &GuardTable<DB>,
    connection: &mut DB::Connection,
    level: &'static str,
    order: [&str; 2],
    value: u64,
    mut both_have_one: Option<&Barrier>,
) -> Result<(), SqlError> {
    let mut tx = DB::begin(connection, level).await?;
    for name in order {
        let sequencer = sequencer_for("bank", name, value);
        let verdict = guard.fenced(&mut tx, &sequencer).await?;
        assert_eq!(verdict, Verdict::Admitted);
        if let Some(both_have_one) = both_have_one.take() {
            both_have_one.wait().await;
        }
    }
    tx.commit().await?;
    Ok(())
}
