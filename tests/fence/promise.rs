//! *fenced*: once a guard has admitted token t for a resource, nothing with a lower token has any
//! effect there. The same story for every guard.

use fencepost::fence::{
    EqualTokens, Guard, Rules, Verdict,
    memory::MemoryGuard,
    sql::{GuardTable, SqlGuard, WriteOutcome},
};

use crate::{
    scene::{ACCOUNT, resource, rules, sequencer, sequencer_for, token},
    sql::{
        database::{Database, Server},
        on_each_database,
    },
};

fn stale(presented: u64, required: u64) -> Verdict {
    Verdict::Stale {
        presented: token(presented),
        required: token(required),
    }
}

async fn rejects_a_lower_token(guard: impl Guard) {
    assert_eq!(guard.admit(&sequencer(7)).await.unwrap(), Verdict::Admitted);
    assert_eq!(guard.admit(&sequencer(6)).await.unwrap(), stale(6, 7));
    assert_eq!(guard.admit(&sequencer(1)).await.unwrap(), stale(1, 7));
    let mark = guard.high_water(&resource(ACCOUNT)).await.unwrap();
    assert_eq!(mark.unwrap().token, token(7), "a refusal moves nothing");
    assert_eq!(guard.admit(&sequencer(8)).await.unwrap(), Verdict::Admitted);
    assert_eq!(guard.admit(&sequencer(7)).await.unwrap(), stale(7, 8));
}

async fn accepts_repeated_tokens(guard: impl Guard) {
    for _ in 0..5 {
        assert_eq!(guard.admit(&sequencer(7)).await.unwrap(), Verdict::Admitted);
    }
    assert_eq!(guard.admit(&sequencer(6)).await.unwrap(), stale(6, 7));
    assert_eq!(guard.admit(&sequencer(7)).await.unwrap(), Verdict::Admitted);
}

async fn admits_each_token_once(guard: impl Guard) {
    assert_eq!(guard.admit(&sequencer(7)).await.unwrap(), Verdict::Admitted);
    assert_eq!(guard.admit(&sequencer(7)).await.unwrap(), stale(7, 8));
    assert_eq!(guard.admit(&sequencer(8)).await.unwrap(), Verdict::Admitted);
    let last = i64::MAX.unsigned_abs();
    let end = sequencer(last);
    assert_eq!(guard.admit(&end).await.unwrap(), Verdict::Admitted);
    assert_eq!(guard.admit(&end).await.unwrap(), stale(last, last));
}

async fn keeps_resources_apart(guard: impl Guard) {
    let other = |value| sequencer_for("bank", "account/2", value);
    assert_eq!(guard.admit(&sequencer(9)).await.unwrap(), Verdict::Admitted);
    assert_eq!(guard.admit(&other(3)).await.unwrap(), Verdict::Admitted);
    // Names are exact: case, blanks inside, and Unicode forms make other resources.
    for name in [
        "Account/1",
        "account/1/",
        "account / 1",
        "caf\u{e9}",
        "cafe\u{301}",
    ] {
        let first = sequencer_for("bank", name, 1);
        assert_eq!(
            guard.admit(&first).await.unwrap(),
            Verdict::Admitted,
            "{name}"
        );
    }
    assert_eq!(guard.admit(&sequencer(8)).await.unwrap(), stale(8, 9));
    assert_eq!(
        guard.high_water(&resource("account/3")).await.unwrap(),
        None
    );
}

async fn tells_apart_what_a_float_cannot(guard: impl Guard) {
    let even = 1 << 53;
    let odd = guard.admit(&sequencer(even + 1)).await.unwrap();
    assert_eq!(odd, Verdict::Admitted);
    let verdict = guard.admit(&sequencer(even)).await.unwrap();
    assert_eq!(verdict, stale(even, even + 1));
}

fn once() -> Rules {
    rules().equal_tokens(EqualTokens::Once)
}

#[tokio::test]
async fn rejects_a_lower_token_after_a_higher_one_is_accepted() {
    rejects_a_lower_token(MemoryGuard::new(rules())).await;
}

#[tokio::test]
async fn accepts_repeated_writes_with_the_same_token() {
    accepts_repeated_tokens(MemoryGuard::new(rules())).await;
}

#[tokio::test]
async fn each_token_writes_once_where_that_is_asked_for() {
    admits_each_token_once(MemoryGuard::new(once())).await;
}

#[tokio::test]
async fn a_mark_is_of_one_resource_by_its_exact_name() {
    keeps_resources_apart(MemoryGuard::new(rules())).await;
}

#[tokio::test]
async fn tokens_that_a_float_cannot_tell_apart_are_told_apart() {
    tells_apart_what_a_float_cannot(MemoryGuard::new(rules())).await;
}

on_each_database!(
    the_table_of_marks_keeps_the_promise,
    the_table_of_marks_admits_each_token_once_where_that_is_asked_for,
    a_row_rejects_a_lower_token_after_a_higher_one_is_accepted,
    a_row_accepts_repeated_writes_with_the_same_token,
    a_row_takes_each_token_once_where_that_is_asked_for,
);

async fn the_table_of_marks_keeps_the_promise<DB: Server>(database: Database<DB>) {
    let guard = async |table| {
        let mut connection = database.connect().await;
        let marks = GuardTable::<DB>::create(&mut connection, table, rules());
        SqlGuard::new(database.pool(2).await, marks.await.unwrap())
    };
    rejects_a_lower_token(guard("marks_1").await).await;
    accepts_repeated_tokens(guard("marks_2").await).await;
    keeps_resources_apart(guard("marks_3").await).await;
    tells_apart_what_a_float_cannot(guard("marks_4").await).await;
}

async fn the_table_of_marks_admits_each_token_once_where_that_is_asked_for<DB: Server>(
    database: Database<DB>,
) {
    let marks = database.marks(once()).await;
    admits_each_token_once(SqlGuard::new(database.pool(2).await, marks)).await;
}

async fn a_row_rejects_a_lower_token_after_a_higher_one_is_accepted<DB: Server>(
    database: Database<DB>,
) {
    let (accounts, mut connection) = (database.accounts(rules()).await, database.connect().await);
    let mut write = async |value, balance: i64| {
        let write = accounts.write(&resource(ACCOUNT), &sequencer(value));
        let write = write.key(DB::number(1)).set("balance", DB::number(balance));
        write.update(&mut connection).await.unwrap()
    };
    assert_eq!(write(7, 70).await, WriteOutcome::Written);
    let refused = WriteOutcome::Stale {
        presented: token(6),
        required: token(7),
    };
    assert_eq!(write(6, 60).await, refused);
    assert_eq!(database.account(1).await, Some((70, 7)));
    assert_eq!(write(8, 80).await, WriteOutcome::Written);
    assert_eq!(database.account(1).await, Some((80, 8)));
}

async fn a_row_accepts_repeated_writes_with_the_same_token<DB: Server>(database: Database<DB>) {
    let (accounts, mut connection) = (database.accounts(rules()).await, database.connect().await);
    // Twice the same balance: a client that counts changed rows would see none.
    for balance in [1, 2, 2, 2, 3] {
        let write = || {
            let write = accounts.write(&resource(ACCOUNT), &sequencer(7));
            write.key(DB::number(1)).set("balance", DB::number(balance))
        };
        let outcome = write().update(&mut connection).await.unwrap();
        assert_eq!(outcome, WriteOutcome::Written);
        let outcome = write().upsert(&mut connection).await.unwrap();
        assert_eq!(outcome, WriteOutcome::Written);
        assert_eq!(database.account(1).await, Some((balance, 7)));
    }
}

async fn a_row_takes_each_token_once_where_that_is_asked_for<DB: Server>(database: Database<DB>) {
    let (accounts, mut connection) = (database.accounts(once()).await, database.connect().await);
    let refused = WriteOutcome::Stale {
        presented: token(7),
        required: token(8),
    };
    // Account 2 is not there yet.
    for id in [1, 2] {
        let mut write = async |value| {
            let write = accounts.write(&resource(ACCOUNT), &sequencer(value));
            let write = write.key(DB::number(id)).set("balance", DB::number(1));
            write.upsert(&mut connection).await.unwrap()
        };
        assert_eq!(write(7).await, WriteOutcome::Written);
        assert_eq!(write(7).await, refused);
        assert_eq!(write(8).await, WriteOutcome::Written);
    }
}
