//! The table of marks: the mark commits with the caller's writes, or not at all.

use fencepost::fence::{
    Guard as _, Verdict,
    sql::{GuardTable, SqlError, SqlGuard},
};
use sqlx::Connection as _;

use crate::scene::{ACCOUNT, resource, rules, sequencer};
use crate::sql::{
    database::{Database, Server},
    on_each_database,
};

on_each_database!(
    and_old;
    the_mark_commits_with_the_callers_writes_or_not_at_all,
    a_crash_between_check_and_write_leaves_neither,
    a_stale_token_ends_the_transaction_by_a_question_mark,
    a_refusal_keeps_the_mark_locked_until_it_is_rolled_back,
    a_pool_rolls_a_dropped_refusal_back,
    a_caller_that_gives_up_leaves_no_transaction_open,
    marks_outlive_the_process_that_wrote_them,
    a_table_of_marks_that_is_not_one_is_refused_when_it_is_opened,
    no_tool_can_put_text_or_nothing_where_a_mark_belongs,
);

async fn mark<DB: Server>(database: &Database<DB>, guard: &GuardTable<DB>) -> Option<u64> {
    let mut connection = database.connect().await;
    let mark = guard
        .mark(&mut connection, &resource(ACCOUNT))
        .await
        .unwrap();
    mark.map(|mark| mark.token.get())
}

async fn the_mark_commits_with_the_callers_writes_or_not_at_all<DB: Server>(
    database: Database<DB>,
) {
    let (guard, mut connection) = (database.marks(rules()).await, database.connect().await);

    let mut tx = connection.begin().await.unwrap();
    assert_eq!(
        guard.fenced(&mut tx, &sequencer(7)).await.unwrap(),
        Verdict::Admitted
    );
    DB::run(&mut tx, "UPDATE accounts SET balance = 7 WHERE id = 1")
        .await
        .unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(mark(&database, &guard).await, None);
    assert_eq!(database.account(1).await, Some((0, 0)));

    let mut tx = connection.begin().await.unwrap();
    assert_eq!(
        guard.fenced(&mut tx, &sequencer(5)).await.unwrap(),
        Verdict::Admitted
    );
    DB::run(&mut tx, "UPDATE accounts SET balance = 5 WHERE id = 1")
        .await
        .unwrap();
    tx.commit().await.unwrap();
    assert_eq!(mark(&database, &guard).await, Some(5));
    assert_eq!(database.account(1).await, Some((5, 0)));
}

async fn a_crash_between_check_and_write_leaves_neither<DB: Server>(database: Database<DB>) {
    let (guard, mut connection) = (database.marks(rules()).await, database.connect().await);
    let mut tx = connection.begin().await.unwrap();
    assert_eq!(
        guard.fenced(&mut tx, &sequencer(7)).await.unwrap(),
        Verdict::Admitted
    );
    drop(tx);
    drop(connection);
    assert_eq!(mark(&database, &guard).await, None);

    let mut other = database.connect().await;
    let mut tx = other.begin().await.unwrap();
    assert_eq!(
        guard.fenced(&mut tx, &sequencer(6)).await.unwrap(),
        Verdict::Admitted
    );
    tx.commit().await.unwrap();
    assert_eq!(mark(&database, &guard).await, Some(6));
}

async fn a_stale_token_ends_the_transaction_by_a_question_mark<DB: Server>(database: Database<DB>) {
    let (guard, mut connection) = (database.marks(rules()).await, database.connect().await);
    let mut run = async |value: u64| -> Result<(), Box<dyn std::error::Error>> {
        let mut tx = connection.begin().await?;
        guard.fenced(&mut tx, &sequencer(value)).await?.admitted()?;
        let write = format!("UPDATE accounts SET balance = {value} WHERE id = 1");
        DB::run(&mut tx, &write).await?;
        tx.commit().await?;
        Ok(())
    };
    run(7).await.unwrap();
    let refused = run(6).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "stale fencing token: presented 6, required at least 7"
    );
    assert_eq!(database.account(1).await, Some((7, 0)));
    run(7).await.unwrap();
}

/// What the documentation warns of: a refused transaction that is left open shuts out the next holder.
async fn a_refusal_keeps_the_mark_locked_until_it_is_rolled_back<DB: Server>(
    database: Database<DB>,
) {
    let guard = database.marks(rules()).await;
    let (mut late, mut next) = (database.connect().await, database.connect().await);
    DB::run(&mut next, DB::IMPATIENT).await.unwrap();
    let mut tx = late.begin().await.unwrap();
    let admitted = guard.fenced(&mut tx, &sequencer(7)).await.unwrap();
    assert_eq!(admitted, Verdict::Admitted);
    tx.commit().await.unwrap();
    let mut tx = late.begin().await.unwrap();
    let refused = guard.fenced(&mut tx, &sequencer(6)).await.unwrap();
    assert!(refused.admitted().is_err());
    waits(&guard, &mut next).await;
    tx.rollback().await.unwrap();
    admits(&guard, &mut next, 8).await;
    if DB::ONE_WRITER {
        // SQLite's driver does not wait for the next use of the connection below.
        return;
    }
    let mut tx = late.begin().await.unwrap();
    let refused = guard.fenced(&mut tx, &sequencer(7)).await.unwrap();
    assert!(refused.admitted().is_err());
    drop(tx);
    waits(&guard, &mut next).await;
    late.ping().await.unwrap();
    admits(&guard, &mut next, 9).await;
}

async fn waits<DB: Server>(guard: &GuardTable<DB>, next: &mut DB::Connection) {
    let mut tx = next.begin().await.unwrap();
    let waits = guard.fenced(&mut tx, &sequencer(20)).await.unwrap_err();
    assert!(waits.may_retry(), "{waits}");
    tx.rollback().await.unwrap();
}

async fn admits<DB: Server>(guard: &GuardTable<DB>, next: &mut DB::Connection, value: u64) {
    let mut tx = next.begin().await.unwrap();
    let verdict = guard.fenced(&mut tx, &sequencer(value)).await.unwrap();
    assert_eq!(verdict, Verdict::Admitted);
    tx.commit().await.unwrap();
}

async fn a_pool_rolls_a_dropped_refusal_back<DB: Server>(database: Database<DB>) {
    let (guard, pool) = (database.marks(rules()).await, database.pool(1).await);
    let mut next = database.connect().await;
    for (value, is_admitted) in [(7, true), (6, false)] {
        let mut tx = pool.begin().await.unwrap();
        let verdict = guard.fenced(&mut tx, &sequencer(value)).await.unwrap();
        assert_eq!(verdict.admitted().is_ok(), is_admitted);
        if is_admitted {
            tx.commit().await.unwrap();
        }
    }
    // Nobody takes the connection out of the pool again. The next holder waits, and not for ever.
    let bound = std::time::Duration::from_secs(60);
    let admitted = admits(&guard, &mut next, 8);
    tokio::time::timeout(bound, admitted).await.unwrap();
}

async fn marks_outlive_the_process_that_wrote_them<DB: Server>(database: Database<DB>) {
    let (guard, mut connection) = (database.marks(rules()).await, database.connect().await);
    let mut tx = connection.begin().await.unwrap();
    assert_eq!(
        guard.fenced(&mut tx, &sequencer(7)).await.unwrap(),
        Verdict::Admitted
    );
    tx.commit().await.unwrap();
    connection.close().await.unwrap();

    let (guard, mut connection) = (database.marks(rules()).await, database.connect().await);
    let mut tx = connection.begin().await.unwrap();
    let verdict = guard.fenced(&mut tx, &sequencer(6)).await.unwrap();
    assert!(matches!(verdict, Verdict::Stale { .. }), "{verdict:?}");
}

async fn a_table_of_marks_that_is_not_one_is_refused_when_it_is_opened<DB: Server>(
    database: Database<DB>,
) {
    let mut connection = database.connect().await;
    let missing = GuardTable::<DB>::open(&mut connection, "fencing_marks", rules()).await;
    assert!(
        matches!(missing, Err(SqlError::Unfit { .. })),
        "{missing:?}"
    );
    let other = GuardTable::<DB>::create(&mut connection, "accounts", rules()).await;
    assert!(matches!(other, Err(SqlError::Unfit { .. })), "{other:?}");
    let name =
        GuardTable::<DB>::create(&mut connection, "marks\"; DROP TABLE accounts; --", rules());
    let error = name.await.unwrap_err();
    assert!(matches!(error, SqlError::Identifier { .. }), "{error}");
    assert_eq!(database.account(1).await, Some((0, 0)));
}

async fn no_tool_can_put_text_or_nothing_where_a_mark_belongs<DB: Server>(database: Database<DB>) {
    let guard = database.marks(rules()).await;
    let mut connection = database.connect().await;
    let mut tx = connection.begin().await.unwrap();
    let verdict = guard.fenced(&mut tx, &sequencer(7)).await.unwrap();
    assert_eq!(verdict, Verdict::Admitted);
    tx.commit().await.unwrap();
    for value in ["'ten'", "NULL", "-1", "9223372036854775808"] {
        let spoil = format!("UPDATE fencing_marks SET token = {value}");
        let refused = DB::run(&mut connection, &spoil).await;
        assert!(refused.is_err(), "{value} was taken for a mark");
    }
    assert_eq!(mark(&database, &guard).await, Some(7));
}

async fn a_caller_that_gives_up_leaves_no_transaction_open<DB: Server>(database: Database<DB>) {
    let pool = database.pool(1).await;
    let guard = SqlGuard::new(pool.clone(), database.marks(rules()).await);
    let holder = sequencer(5);
    for balance in 1..30 {
        let yields = async {
            for _ in 0..balance {
                tokio::task::yield_now().await;
            }
        };
        // Dropped after ever more steps, the first while the transaction is just being begun.
        tokio::select! {
            biased;
            _ = guard.admit(&holder) => {}
            () = yields => {}
        }
        // A write of somebody else by the same connection, which is to last by itself.
        let write = format!("UPDATE accounts SET balance = {balance} WHERE id = 1");
        let mut connection = pool.acquire().await.unwrap();
        DB::run(&mut connection, &write).await.unwrap();
        drop(connection);
        let found = database.account(1).await.map(|(found, _)| found);
        assert_eq!(
            found,
            Some(balance),
            "the write was in another's transaction"
        );
    }
}
