//! MySQL's REPEATABLE READ, where a plain read may be of a time before somebody else was admitted: on a
//! MariaDB that refuses such a snapshot itself, and on one from which the guard must find out.

use std::time::{Duration, Instant};

use fencepost::fence::{
    EqualTokens, Foreign, Verdict,
    sql::{GuardTable, SqlError},
};
use sqlx::{Connection as _, MySql, MySqlConnection};

use super::{
    database::{Database, Server as _},
    isolation::{BALANCE, admitted},
};
use crate::scene::{ACCOUNT, rules, sequencer, sequencer_for};

/// Makes two tests of each story, one a server.
macro_rules! on_both_servers {
    ($($story:ident),+ $(,)?) => {
        on_both_servers!(@ that_refuses, new, $($story),+);
        on_both_servers!(@ that_does_not, old, $($story),+);
    };
    (@ $module:ident, $made:ident, $($story:ident),+) => {
        mod $module {
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
                async fn $story() {
                    if let Some(database) = super::Database::<sqlx::MySql>::$made().await {
                        super::$story(database).await;
                    }
                }
            )+
        }
    };
}
on_both_servers!(
    a_raised_mark_alone_does_not_protect_what_is_read,
    an_old_snapshot_is_refused_whatever_the_session_says,
    a_mark_that_is_younger_than_the_snapshot_is_refused,
    an_old_snapshot_that_waits_for_the_mark_is_refused,
    who_waits_without_having_read_is_admitted,
    a_read_only_transaction_is_refused_by_the_database,
    each_token_passes_once_where_that_is_the_rule,
    a_mark_of_another_issuer_is_not_compared,
    who_raises_in_steps_by_hand_notices_the_guards_admissions,
);

/// A session's own setting, either way.
const SETTINGS: [&str; 2] = ["OFF", "ON"];

async fn set(connection: &mut MySqlConnection, setting: &str) {
    let set = format!("SET SESSION innodb_snapshot_isolation = {setting}");
    MySql::run(connection, &set).await.unwrap();
}

/// It must begin again, and is told how to avoid that.
fn assert_refused(refused: &SqlError) {
    assert!(matches!(refused, SqlError::Isolation { .. }), "{refused}");
    assert!(refused.may_retry(), "{refused}");
    let shown = refused.to_string();
    assert!(shown.contains("before the first read"), "{shown}");
}

/// The control: that the snapshot really is of the time before, even for who holds the newest mark's lock.
/// An equal token overtakes, too.
async fn a_raised_mark_alone_does_not_protect_what_is_read(database: Database<MySql>) {
    let guard = database.marks(rules()).await;
    let (mut slow, mut quick) = (database.connect().await, database.connect().await);
    set(&mut slow, "OFF").await;
    for equal in [2, 2] {
        let mut tx = MySql::begin(&mut slow, "REPEATABLE READ").await.unwrap();
        let before = MySql::numbers(&mut tx, BALANCE).await.unwrap();
        let spend = "UPDATE accounts SET balance = balance + 1 WHERE id = 1";
        admitted(&guard, &mut quick, equal).await.unwrap();
        MySql::run(&mut quick, spend).await.unwrap();
        let raise = "UPDATE fencing_marks SET token = 3 WHERE token <= 3";
        let mut savepoint = tx.begin().await.unwrap();
        assert_eq!(MySql::count(&mut savepoint, raise).await.unwrap(), 1);
        let after = MySql::numbers(&mut savepoint, BALANCE).await.unwrap();
        assert_eq!(after, before, "raised, and reads what was overwritten");
        savepoint.rollback().await.unwrap();
        assert_refused(&guard.fenced(&mut tx, &sequencer(3)).await.unwrap_err());
        tx.rollback().await.unwrap();
    }
}

async fn an_old_snapshot_is_refused_whatever_the_session_says(database: Database<MySql>) {
    let guard = database.marks(rules()).await;
    let (mut slow, mut quick) = (database.connect().await, database.connect().await);
    for (setting, value) in SETTINGS.into_iter().zip([1, 11]) {
        set(&mut slow, setting).await;
        let mut tx = MySql::begin(&mut slow, "REPEATABLE READ").await.unwrap();
        // Its own admission is in its snapshot, however often.
        for value in [value, value, value + 1] {
            let verdict = guard.fenced(&mut tx, &sequencer(value)).await.unwrap();
            assert_eq!(verdict, Verdict::Admitted);
            MySql::numbers(&mut tx, BALANCE).await.unwrap();
        }
        tx.commit().await.unwrap();
        let mut tx = MySql::begin(&mut slow, "REPEATABLE READ").await.unwrap();
        MySql::numbers(&mut tx, BALANCE).await.unwrap();
        admitted(&guard, &mut quick, value + 2).await.unwrap();
        let refused = guard.fenced(&mut tx, &sequencer(value + 3)).await;
        assert_refused(&refused.unwrap_err());
        tx.rollback().await.unwrap();
        // Begun again it is told what is so: here, that it is stale.
        let mut tx = MySql::begin(&mut slow, "REPEATABLE READ").await.unwrap();
        let verdict = guard.fenced(&mut tx, &sequencer(value)).await.unwrap();
        assert!(matches!(verdict, Verdict::Stale { .. }), "{verdict:?}");
        tx.rollback().await.unwrap();
        admitted(&guard, &mut slow, value + 3).await.unwrap();
        let now = "SELECT @@innodb_snapshot_isolation";
        let now = MySql::numbers(&mut slow, now).await.unwrap();
        let left = i64::from(setting == "ON");
        assert_eq!(now, [[left]], "the session's setting was changed");
    }
}

async fn a_mark_that_is_younger_than_the_snapshot_is_refused(database: Database<MySql>) {
    let guard = database.marks(rules()).await;
    let (mut slow, mut quick) = (database.connect().await, database.connect().await);
    for setting in SETTINGS {
        set(&mut slow, setting).await;
        let mut tx = MySql::begin(&mut slow, "REPEATABLE READ").await.unwrap();
        MySql::numbers(&mut tx, BALANCE).await.unwrap();
        // The first admission makes the mark.
        admitted(&guard, &mut quick, 1).await.unwrap();
        assert_refused(&guard.fenced(&mut tx, &sequencer(2)).await.unwrap_err());
        tx.rollback().await.unwrap();
        database.run("DELETE FROM fencing_marks").await;
    }
}

/// Whether the snapshot is too old is decided when the lock is had, not when it is asked for.
async fn an_old_snapshot_that_waits_for_the_mark_is_refused(database: Database<MySql>) {
    let guard = database.marks(rules()).await;
    for (setting, value) in SETTINGS.into_iter().zip([1, 11]) {
        let mut slow = database.connect().await;
        set(&mut slow, setting).await;
        let waited = waits_for_the_mark(&database, &guard, slow, value, true).await;
        assert_refused(&waited.unwrap_err());
    }
}

async fn who_waits_without_having_read_is_admitted(database: Database<MySql>) {
    let guard = database.marks(rules()).await;
    for (setting, value) in SETTINGS.into_iter().zip([1, 11]) {
        let mut slow = database.connect().await;
        set(&mut slow, setting).await;
        let waited = waits_for_the_mark(&database, &guard, slow, value, false).await;
        assert_eq!(waited.unwrap(), Verdict::Admitted);
    }
}

/// What a transaction is told that had to wait until an older holder's had committed.
async fn waits_for_the_mark(
    database: &Database<MySql>,
    guard: &GuardTable<MySql>,
    mut slow: MySqlConnection,
    value: u64,
    reads_first: bool,
) -> Result<Verdict, SqlError> {
    let mut older = database.connect().await;
    admitted(guard, &mut older, value).await.unwrap();
    let mut held = MySql::begin(&mut older, "READ COMMITTED").await.unwrap();
    let verdict = guard.fenced(&mut held, &sequencer(value + 1)).await;
    assert_eq!(verdict.unwrap(), Verdict::Admitted);
    let id = MySql::numbers(&mut slow, "SELECT CAST(CONNECTION_ID() AS SIGNED)").await;
    let id = id.unwrap()[0][0];
    let raced = guard.clone();
    let waiting = tokio::spawn(async move {
        let mut tx = MySql::begin(&mut slow, "REPEATABLE READ").await?;
        if reads_first {
            MySql::numbers(&mut tx, BALANCE).await?;
        }
        let verdict = raced.fenced(&mut tx, &sequencer(value + 2)).await?;
        tx.commit().await?;
        Ok(verdict)
    });
    // Not from `innodb_trx`, which is not made anew while somebody asks for it all the time.
    let waits = format!(
        "SELECT COUNT(*) FROM information_schema.processlist \
         WHERE id = {id} AND info LIKE '%fencing_marks%' AND time_ms > 50"
    );
    let mut watcher = database.connect().await;
    let started = Instant::now();
    while !waiting.is_finished() && MySql::numbers(&mut watcher, &waits).await.unwrap() != [[1]] {
        assert!(
            started.elapsed() < Duration::from_secs(60),
            "it never waits"
        );
    }
    held.commit().await.unwrap();
    waiting.await.unwrap()
}

async fn a_read_only_transaction_is_refused_by_the_database(database: Database<MySql>) {
    let guard = database.marks(rules()).await;
    let mut connection = database.connect().await;
    let begun = connection.begin_with("START TRANSACTION READ ONLY").await;
    let mut tx = begun.unwrap();
    let refused = guard.fenced(&mut tx, &sequencer(1)).await.unwrap_err();
    assert!(!refused.may_retry(), "{refused}");
    assert!(refused.to_string().contains("READ ONLY"), "{refused}");
    tx.rollback().await.unwrap();
    admitted(&guard, &mut connection, 1).await.unwrap();
}

async fn each_token_passes_once_where_that_is_the_rule(database: Database<MySql>) {
    let guard = database
        .marks(rules().equal_tokens(EqualTokens::Once))
        .await;
    let mut connection = database.connect().await;
    for value in [3, 4] {
        admitted(&guard, &mut connection, value).await.unwrap();
        for late in [value, value - 1] {
            let mut tx = connection.begin().await.unwrap();
            let verdict = guard.fenced(&mut tx, &sequencer(late)).await.unwrap();
            assert!(matches!(verdict, Verdict::Stale { .. }), "{verdict:?}");
            tx.rollback().await.unwrap();
        }
    }
}

async fn a_mark_of_another_issuer_is_not_compared(database: Database<MySql>) {
    let guard = database.marks(rules()).await;
    let mut connection = database.connect().await;
    admitted(&guard, &mut connection, 1).await.unwrap();
    database
        .run("UPDATE fencing_marks SET issuer = 'shop'")
        .await;
    let mut tx = connection.begin().await.unwrap();
    let verdict = guard.fenced(&mut tx, &sequencer(9)).await.unwrap();
    assert!(
        matches!(verdict, Verdict::Foreign(Foreign::Issuer { .. })),
        "{verdict:?}"
    );
    tx.commit().await.unwrap();
    let sql = "SELECT token FROM fencing_marks";
    let token = MySql::numbers(&mut connection, sql).await.unwrap();
    assert_eq!(token, [[1]], "it was raised nevertheless");
}

/// The statements of `docs/fencing-sql.md` and the guard may share a table of marks.
async fn who_raises_in_steps_by_hand_notices_the_guards_admissions(database: Database<MySql>) {
    let guard = database.marks(rules()).await;
    let (mut slow, mut quick) = (database.connect().await, database.connect().await);
    set(&mut slow, "OFF").await;
    admitted(&guard, &mut quick, 1).await.unwrap();
    // A higher token, and then an equal one.
    for value in [2, 2] {
        let mut tx = MySql::begin(&mut slow, "REPEATABLE READ").await.unwrap();
        let seen = "SELECT admissions FROM fencing_marks";
        let before = MySql::numbers(&mut tx, seen).await.unwrap();
        admitted(&guard, &mut quick, value).await.unwrap();
        let lock = format!(
            "INSERT INTO fencing_marks VALUES ('{ACCOUNT}', 'bank', 0, 0) \
             ON DUPLICATE KEY UPDATE resource = resource"
        );
        MySql::run(&mut tx, &lock).await.unwrap();
        assert_eq!(MySql::numbers(&mut tx, seen).await.unwrap(), before);
        let raise = format!(
            "UPDATE fencing_marks SET token = 3, admissions = admissions + 1 \
             WHERE token <= 3 AND admissions = {}",
            before[0][0]
        );
        assert_eq!(MySql::count(&mut tx, &raise).await.unwrap(), 0);
        tx.rollback().await.unwrap();
    }
}

/// Which of the two ways a server takes is seen by the variable that only the steps leave behind.
#[tokio::test]
async fn only_a_server_that_does_not_refuse_is_asked_in_steps() {
    let (Some(new), Some(old)) = (Database::new().await, Database::<MySql>::old().await) else {
        return;
    };
    for (database, in_steps) in [(new, 1), (old, 0)] {
        let guard = database.marks(rules()).await;
        let mut connection = database.connect().await;
        // A first admission, and one that meets the mark.
        for value in [1, 2] {
            let mut tx = connection.begin().await.unwrap();
            let asked = sequencer_for("bank", "account/2", value);
            let verdict = guard.fenced(&mut tx, &asked).await.unwrap();
            assert_eq!(verdict, Verdict::Admitted);
            let seen = MySql::numbers(&mut tx, "SELECT @fencepost_seen IS NULL").await;
            assert_eq!(seen.unwrap(), [[in_steps]]);
            tx.commit().await.unwrap();
        }
    }
}
