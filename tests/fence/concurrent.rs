//! Writers that race on real connections, and the interleaving that check-then-write loses.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use fencepost::fence::{
    Verdict,
    sql::{GuardTable, GuardedTable, WriteOutcome},
};
use sqlx::{Connection as _, Executor as _, SqliteConnection};

use crate::scene::{ACCOUNT, Database, resource, rules, sequencer, token};

const WRITERS: u64 = 6;
const GRANTS_EACH: u64 = 40;

/// What one writer saw: how many writes were taken, and how many refused as stale.
#[derive(Default)]
struct Seen {
    taken: usize,
    stale: usize,
}

/// The guard that a writer writes behind.
#[derive(Clone)]
enum Behind {
    Row(GuardedTable<sqlx::Sqlite>),
    Marks(GuardTable<sqlx::Sqlite>),
}

/// A writer takes a grant, pauses while others may get newer ones, then writes twice.
async fn race(behind: Behind, mut connection: SqliteConnection, issued: Arc<AtomicU64>) -> Seen {
    let mut seen = Seen::default();
    for _ in 0..GRANTS_EACH {
        let value = issued.fetch_add(1, Ordering::SeqCst) + 1;
        for _ in 0..value % 4 {
            tokio::task::yield_now().await;
        }
        for _ in 0..2 {
            let taken = match &behind {
                Behind::Row(accounts) => by_row(accounts, &mut connection, value).await,
                Behind::Marks(guard) => by_table(guard, &mut connection, value).await,
            };
            seen.taken += usize::from(taken);
            seen.stale += usize::from(!taken);
        }
    }
    seen
}

async fn by_row(
    accounts: &GuardedTable<sqlx::Sqlite>,
    connection: &mut SqliteConnection,
    value: u64,
) -> bool {
    let write = accounts.write(&resource(ACCOUNT), &sequencer(value));
    let write = write.key(1).set("balance", token(value).as_i64());
    match write.update(connection).await.unwrap() {
        WriteOutcome::Written => true,
        WriteOutcome::Stale {
            presented,
            required,
        } => {
            assert!(
                presented < required,
                "{presented} was refused for {required}"
            );
            false
        }
        other => panic!("{other:?}"),
    }
}

async fn by_table(
    guard: &GuardTable<sqlx::Sqlite>,
    connection: &mut SqliteConnection,
    value: u64,
) -> bool {
    let mut tx = connection.begin().await.unwrap();
    match guard.fenced(&mut tx, &sequencer(value)).await.unwrap() {
        Verdict::Admitted => {
            sqlx::query("UPDATE accounts SET balance = ?1, fencing_token = ?1 WHERE id = 1")
                .bind(token(value).as_i64())
                .execute(&mut *tx)
                .await
                .unwrap();
            tx.commit().await.unwrap();
            true
        }
        Verdict::Stale {
            presented,
            required,
        } => {
            assert!(
                presented < required,
                "{presented} was refused for {required}"
            );
            false
        }
        other @ Verdict::Foreign(_) => panic!("{other:?}"),
    }
}

/// Lets the writers race, then judges the history that the database itself kept: it must rise, and
/// hold exactly the writes that were taken.
async fn race_and_judge(database: &Database, behind: Behind) {
    let issued = Arc::new(AtomicU64::new(0));
    let mut writers = tokio::task::JoinSet::new();
    for _ in 0..WRITERS {
        let connection = database.connect().await;
        writers.spawn(race(behind.clone(), connection, Arc::clone(&issued)));
    }
    let seen = writers.join_all().await;
    let taken: usize = seen.iter().map(|seen| seen.taken).sum();
    let stale: usize = seen.iter().map(|seen| seen.stale).sum();
    let history = database.history().await;
    assert!(
        history.is_sorted(),
        "a lower token wrote after a higher one"
    );
    assert_eq!(
        history.len(),
        taken,
        "each write that was taken happened once"
    );
    assert!(
        taken > 0 && stale > 0,
        "nothing raced: {taken} taken, {stale} stale"
    );
    let last = *history.last().unwrap();
    assert_eq!(database.account(1).await, Some((last, last)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn racing_connections_write_a_row_in_rising_order() {
    let database = Database::new().await;
    let accounts = database.accounts(rules()).await;
    race_and_judge(&database, Behind::Row(accounts)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn racing_transactions_write_behind_a_mark_in_rising_order() {
    let database = Database::new().await;
    let marks = database.marks(rules()).await;
    race_and_judge(&database, Behind::Marks(marks)).await;
}

/// The control: the interleaving that loses a write without a guard. If this ever stopped losing
/// it, the tests beside it would prove nothing.
#[tokio::test]
async fn check_then_write_lets_a_late_holder_through() {
    let database = Database::new().await;
    let (mut late, mut newer) = (database.connect().await, database.connect().await);
    let check = "SELECT fencing_token FROM accounts WHERE id = 1";
    let checked: i64 = sqlx::query_scalar(check)
        .fetch_one(&mut late)
        .await
        .unwrap();
    assert!(checked <= 1, "token 1 passes the check");
    let write = "UPDATE accounts SET balance = 2, fencing_token = 2 WHERE id = 1";
    newer.execute(write).await.unwrap();
    let write = "UPDATE accounts SET balance = 1, fencing_token = 1 WHERE id = 1";
    late.execute(write).await.unwrap();
    assert_eq!(
        database.history().await,
        [2, 1],
        "the late write overwrote the newer one"
    );
}

#[tokio::test]
async fn the_same_interleaving_is_refused_by_both_guards() {
    let database = Database::new().await;
    let accounts = database.accounts(rules()).await;
    let (mut late, mut newer) = (database.connect().await, database.connect().await);
    assert!(by_row(&accounts, &mut newer, 2).await);
    assert!(!by_row(&accounts, &mut late, 1).await);
    assert_eq!(database.history().await, [2]);

    let guard = database.marks(rules()).await;
    assert!(by_table(&guard, &mut newer, 4).await);
    assert!(!by_table(&guard, &mut late, 3).await);
    assert_eq!(database.history().await, [2, 4]);
}

/// The mark stays locked from `fenced` to the commit: a newer holder's transaction waits for it, so
/// that its writes come after, never in between.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_admitted_transaction_finishes_before_a_newer_one_is_admitted() {
    let database = Database::new().await;
    let guard = database.marks(rules()).await;
    let (mut older, mut newer) = (database.connect().await, database.connect().await);
    let mut tx = older.begin().await.unwrap();
    assert_eq!(
        guard.fenced(&mut tx, &sequencer(1)).await.unwrap(),
        Verdict::Admitted
    );
    let raced = guard.clone();
    let waiting = tokio::spawn(async move { by_table(&raced, &mut newer, 2).await });
    // A connection that does not wait is refused: the lock is really held.
    let mut probe = database.connect().await;
    probe.execute("PRAGMA busy_timeout = 0").await.unwrap();
    let mut probing = probe.begin().await.unwrap();
    let busy = guard.fenced(&mut probing, &sequencer(3)).await.unwrap_err();
    assert!(busy.may_retry(), "{busy}");
    drop(probing);
    assert!(!waiting.is_finished());

    let write = "UPDATE accounts SET balance = 1, fencing_token = 1 WHERE id = 1";
    tx.execute(write).await.unwrap();
    tx.commit().await.unwrap();
    assert!(waiting.await.unwrap());
    assert_eq!(database.history().await, [1, 2]);
}
