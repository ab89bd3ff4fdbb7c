//! Writers that race on real connections, at every isolation level that the databases offer. What they
//! did is judged by a history that the database itself kept, and by a balance to which every write
//! that was taken added one: if any of them was worked out from what another had overwritten, some are
//! missing.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use fencepost::fence::{
    Guard as _, Verdict,
    sql::{GuardTable, GuardedTable, SqlError, SqlGuard, WriteOutcome},
};

use super::{
    database::{Database, Server},
    on_each_database,
};
use crate::scene::{ACCOUNT, resource, rules, sequencer, sequencer_for, token};

const WRITERS: u64 = 5;
const ROUNDS: u64 = 8;

on_each_database!(
    and_old;
    racing_connections_write_a_row_in_rising_order,
    racing_transactions_write_a_row_in_rising_order,
    racing_transactions_write_behind_a_mark_in_rising_order,
    racing_transactions_that_read_first_undo_nothing_behind_a_mark,
    racing_transactions_that_expect_a_version_undo_nothing,
    racing_connections_make_a_row_once,
    racing_transactions_make_a_row_once,
    first_admissions_do_not_get_in_each_others_way,
    check_then_write_lets_a_late_holder_through,
    the_same_interleaving_is_refused_by_both_guards,
);

/// How a writer writes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// The row carries its mark; each write is a statement of its own.
    Statement,
    /// The row carries its mark; the statement is part of a transaction.
    Row,
    /// A table of marks; the writer reads after it was admitted.
    Marks,
    /// As before, but it also read before, as it should not.
    MarksReadFirst,
    /// The row carries mark and version; the writer read before.
    Version,
}

impl Way {
    /// Whether each write adds to the balance that the writer has read.
    fn counts(self) -> bool {
        matches!(self, Self::Marks | Self::MarksReadFirst | Self::Version)
    }
}

/// What a writer writes with.
struct Writer<DB: Server> {
    accounts: GuardedTable<DB>,
    marks: GuardTable<DB>,
    way: Way,
    level: &'static str,
    issued: Arc<AtomicU64>,
}

/// What the writers saw.
#[derive(Default, Debug)]
struct Seen {
    taken: usize,
    stale: usize,
}

impl<DB: Server> Writer<DB> {
    /// Takes two grants a round and writes with the older, the newer, and the older again, which by
    /// then is stale for certain.
    async fn race(self, mut connection: DB::Connection) -> Seen {
        let mut seen = Seen::default();
        for _ in 0..ROUNDS {
            let older = self.issued.fetch_add(1, Ordering::SeqCst) + 1;
            let newer = self.issued.fetch_add(1, Ordering::SeqCst) + 1;
            for value in [older, newer, older] {
                let taken = self.persist(&mut connection, value).await;
                seen.taken += usize::from(taken);
                seen.stale += usize::from(!taken);
            }
        }
        seen
    }

    /// Runs the transaction until nobody is in its way; whether it was taken, or refused as stale.
    async fn persist(&self, connection: &mut DB::Connection, value: u64) -> bool {
        loop {
            let tried = match self.way {
                Way::Statement => self.write(connection, value, value, None).await,
                _ => self.transaction(connection, value).await,
            };
            match tried {
                Ok(Some(taken)) => return taken,
                Ok(None) => {}
                Err(error) => assert!(error.may_retry(), "{}: {error}", self.level),
            }
        }
    }

    /// `None` is a version conflict: read and decide again.
    async fn transaction(
        &self,
        connection: &mut DB::Connection,
        value: u64,
    ) -> Result<Option<bool>, SqlError> {
        let mut tx = DB::begin(connection, self.level).await?;
        let written = match self.way {
            Way::Statement | Way::Row => self.write(&mut tx, value, value, None).await?,
            Way::Version => {
                let (balance, version) = read::<DB>(&mut tx).await?;
                let balance = balance.unsigned_abs() + 1;
                self.write(&mut tx, value, balance, Some(version)).await?
            }
            Way::Marks | Way::MarksReadFirst => {
                if self.way == Way::MarksReadFirst {
                    read::<DB>(&mut tx).await?;
                }
                match self.marks.fenced(&mut tx, &sequencer(value)).await? {
                    Verdict::Admitted => {
                        let (balance, _) = read::<DB>(&mut tx).await?;
                        let write = format!(
                            "UPDATE accounts SET balance = {}, fencing_token = {value} WHERE id = 1",
                            balance + 1
                        );
                        DB::run(&mut tx, &write).await?;
                        Some(true)
                    }
                    Verdict::Stale { required, .. } => {
                        assert!(
                            token(value) < required,
                            "{value} was refused for {required}"
                        );
                        Some(false)
                    }
                    other @ Verdict::Foreign(_) => panic!("{other:?}"),
                }
            }
        };
        match written {
            Some(true) => tx.commit().await?,
            _ => tx.rollback().await?,
        }
        Ok(written)
    }

    async fn write(
        &self,
        connection: &mut DB::Connection,
        value: u64,
        balance: u64,
        version: Option<i64>,
    ) -> Result<Option<bool>, SqlError> {
        let balance = i64::try_from(balance).unwrap();
        let write = self.accounts.write(&resource(ACCOUNT), &sequencer(value));
        let mut write = write.key(DB::number(1)).set("balance", DB::number(balance));
        if let Some(version) = version {
            write = write.expecting("version", version);
        }
        match write.update(connection).await? {
            WriteOutcome::Written => Ok(Some(true)),
            WriteOutcome::Stale { required, .. } => {
                assert!(
                    token(value) < required,
                    "{value} was refused for {required}"
                );
                Ok(Some(false))
            }
            WriteOutcome::VersionConflict { .. } => Ok(None),
            other => panic!("{other:?}"),
        }
    }
}

/// Balance and version.
async fn read<DB: Server>(connection: &mut DB::Connection) -> Result<(i64, i64), SqlError> {
    let sql = "SELECT balance, version FROM accounts WHERE id = 1";
    let rows = DB::numbers(connection, sql).await?;
    Ok((rows[0][0], rows[0][1]))
}

/// Lets the writers race at each level, then judges the history that the database itself kept: it must
/// rise, and hold exactly the writes that were taken.
async fn race_and_judge<DB: Server>(database: &Database<DB>, way: Way) {
    let issued = Arc::new(AtomicU64::new(0));
    let (accounts, marks) = (
        database.accounts(rules()).await,
        database.marks(rules()).await,
    );
    let mut taken = 0;
    for &level in DB::LEVELS {
        let mut writers = tokio::task::JoinSet::new();
        for _ in 0..WRITERS {
            let writer = Writer {
                accounts: accounts.clone(),
                marks: marks.clone(),
                way,
                level,
                issued: Arc::clone(&issued),
            };
            writers.spawn(writer.race(database.connect().await));
        }
        let seen = writers.join_all().await;
        let stale: usize = seen.iter().map(|seen| seen.stale).sum();
        let now: usize = seen.iter().map(|seen| seen.taken).sum();
        taken += now;
        let history = database.history().await;
        assert!(
            history.is_sorted(),
            "{level}: a lower token wrote after a higher one"
        );
        assert_eq!(
            history.len(),
            taken,
            "{level}: each write that was taken happened once"
        );
        assert!(now > 0 && stale > 0, "{level}: {now} taken, {stale} stale");
        let (balance, mark) = database.account(1).await.unwrap();
        assert_eq!(Some(&mark), history.last(), "{level}");
        if way.counts() {
            let balance = usize::try_from(balance).unwrap();
            assert_eq!(balance, taken, "{level}: a write undid another");
        }
    }
}

async fn racing_connections_write_a_row_in_rising_order<DB: Server>(database: Database<DB>) {
    race_and_judge(&database, Way::Statement).await;
}

async fn racing_transactions_write_a_row_in_rising_order<DB: Server>(database: Database<DB>) {
    race_and_judge(&database, Way::Row).await;
}

async fn racing_transactions_write_behind_a_mark_in_rising_order<DB: Server>(
    database: Database<DB>,
) {
    race_and_judge(&database, Way::Marks).await;
}

async fn racing_transactions_that_read_first_undo_nothing_behind_a_mark<DB: Server>(
    database: Database<DB>,
) {
    race_and_judge(&database, Way::MarksReadFirst).await;
}

async fn racing_transactions_that_expect_a_version_undo_nothing<DB: Server>(
    database: Database<DB>,
) {
    race_and_judge(&database, Way::Version).await;
}

/// Nobody's row is there at first, so that all of them come to insert it.
async fn racing_connections_make_a_row_once<DB: Server>(database: Database<DB>) {
    let accounts = database.accounts(rules()).await;
    for id in 2..12 {
        let mut writers = tokio::task::JoinSet::new();
        for value in 1..=WRITERS {
            let (accounts, mut connection) = (accounts.clone(), database.connect().await);
            writers.spawn(async move {
                let write = accounts.write(&resource(ACCOUNT), &sequencer(value));
                let balance = DB::number(i64::try_from(value).unwrap());
                let write = write.key(DB::number(id)).set("balance", balance);
                (value, write.upsert(&mut connection).await.unwrap())
            });
        }
        let highest = i64::try_from(WRITERS).unwrap();
        for (value, outcome) in writers.join_all().await {
            let late = matches!(outcome, WriteOutcome::Stale { .. });
            assert!(outcome == WriteOutcome::Written || late, "{outcome:?}");
            assert!(
                !(late && value == WRITERS),
                "the highest token is never late"
            );
        }
        assert_eq!(database.account(id).await, Some((highest, highest)));
    }
}

/// As before, within transactions at each level, which may have to be run again.
async fn racing_transactions_make_a_row_once<DB: Server>(database: Database<DB>) {
    let accounts = database.accounts(rules()).await;
    for (&level, id) in DB::LEVELS.iter().zip(2..) {
        let mut writers = tokio::task::JoinSet::new();
        for value in 1..=WRITERS {
            let (accounts, mut connection) = (accounts.clone(), database.connect().await);
            let balance = i64::try_from(value).unwrap();
            writers.spawn(async move {
                let mut make = async || {
                    let mut tx = DB::begin(&mut connection, level).await?;
                    let write = accounts.write(&resource(ACCOUNT), &sequencer(value));
                    let write = write
                        .key(DB::number(id))
                        .set("balance", DB::number(balance));
                    let outcome = write.upsert(&mut tx).await?;
                    tx.commit().await?;
                    Ok::<_, SqlError>(outcome)
                };
                loop {
                    match make().await {
                        Ok(outcome) => return (value, outcome),
                        Err(error) => assert!(error.may_retry(), "{level}: {error}"),
                    }
                }
            });
        }
        for (value, outcome) in writers.join_all().await {
            let late = matches!(outcome, WriteOutcome::Stale { .. });
            assert!(
                outcome == WriteOutcome::Written || late,
                "{level}: {outcome:?}"
            );
            assert!(
                !(late && value == WRITERS),
                "{level}: the highest token is never late"
            );
        }
        let highest = i64::try_from(WRITERS).unwrap();
        assert_eq!(
            database.account(id).await,
            Some((highest, highest)),
            "{level}"
        );
    }
}

/// Resources are new all the time (a job, an order). Their first admissions wait for each other where
/// they are of one resource, and never deadlock.
async fn first_admissions_do_not_get_in_each_others_way<DB: Server>(database: Database<DB>) {
    let guard = SqlGuard::new(database.pool(6).await, database.marks(rules()).await);
    for job in 0..30 {
        let mut holders = tokio::task::JoinSet::new();
        for n in 0..6 {
            let guard = guard.clone();
            // Two of them each for one resource, and all of them neighbours.
            let sequencer = sequencer_for("bank", &format!("job/{job}/{}", n / 2), 1 + n % 2);
            holders.spawn(async move { guard.admit(&sequencer).await });
        }
        for verdict in holders.join_all().await {
            let verdict = verdict.unwrap_or_else(|error| panic!("{error}"));
            assert!(!matches!(verdict, Verdict::Foreign(_)), "{verdict:?}");
        }
        for n in 0..3 {
            let mark = guard
                .high_water(&resource(&format!("job/{job}/{n}")))
                .await
                .unwrap();
            assert_eq!(mark.unwrap().token.get(), 2);
        }
    }
}

/// The control: the interleaving that loses a write without a guard. If this ever stopped losing
/// it, the tests beside it would prove nothing.
async fn check_then_write_lets_a_late_holder_through<DB: Server>(database: Database<DB>) {
    let (mut late, mut newer) = (database.connect().await, database.connect().await);
    let check = "SELECT fencing_token FROM accounts WHERE id = 1";
    let checked = DB::numbers(&mut late, check).await.unwrap();
    assert_eq!(checked, [[0]], "token 1 passes the check");
    let write = "UPDATE accounts SET balance = 2, fencing_token = 2 WHERE id = 1";
    DB::run(&mut newer, write).await.unwrap();
    let write = "UPDATE accounts SET balance = 1, fencing_token = 1 WHERE id = 1";
    DB::run(&mut late, write).await.unwrap();
    let history = database.history().await;
    assert_eq!(history, [2, 1], "the late write overwrote the newer one");
}

async fn the_same_interleaving_is_refused_by_both_guards<DB: Server>(database: Database<DB>) {
    for (way, newer, late, history) in [
        (Way::Statement, 2, 1, &[2][..]),
        (Way::Marks, 4, 3, &[2, 4][..]),
    ] {
        let writer = Writer {
            accounts: database.accounts(rules()).await,
            marks: database.marks(rules()).await,
            way,
            level: DB::USUAL,
            issued: Arc::default(),
        };
        let (mut one, mut other) = (database.connect().await, database.connect().await);
        assert!(writer.persist(&mut one, newer).await);
        assert!(!writer.persist(&mut other, late).await);
        assert_eq!(database.history().await, history);
    }
}
