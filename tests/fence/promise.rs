//! *fenced*: once a guard has admitted token t for a resource, nothing with a lower token has any
//! effect there. The same story for every guard.

use fencepost::fence::{
    EqualTokens, Guard, Rules, Verdict,
    memory::MemoryGuard,
    sql::{SqlGuard, WriteOutcome},
};

use crate::scene::{ACCOUNT, Database, resource, rules, sequencer, sequencer_for, token};

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

async fn table(rules: Rules) -> (Database, SqlGuard<sqlx::Sqlite>) {
    let database = Database::new().await;
    let guard = SqlGuard::new(database.pool(2).await, database.marks(rules).await);
    (database, guard)
}

#[tokio::test]
async fn rejects_a_lower_token_after_a_higher_one_is_accepted() {
    rejects_a_lower_token(MemoryGuard::new(rules())).await;
    let (_database, guard) = table(rules()).await;
    rejects_a_lower_token(guard).await;

    let database = Database::new().await;
    let (accounts, mut connection) = (database.accounts(rules()).await, database.connect().await);
    let mut write = async |value, balance: i64| {
        let write = accounts.write(&resource(ACCOUNT), &sequencer(value));
        let write = write.key(1).set("balance", balance);
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

#[tokio::test]
async fn accepts_repeated_writes_with_the_same_token() {
    accepts_repeated_tokens(MemoryGuard::new(rules())).await;
    let (_database, guard) = table(rules()).await;
    accepts_repeated_tokens(guard).await;

    let database = Database::new().await;
    let (accounts, mut connection) = (database.accounts(rules()).await, database.connect().await);
    for balance in 1..=5 {
        let write = accounts.write(&resource(ACCOUNT), &sequencer(7));
        let write = write.key(1).set("balance", balance);
        let outcome = write.update(&mut connection).await.unwrap();
        assert_eq!(outcome, WriteOutcome::Written);
        assert_eq!(database.account(1).await, Some((balance, 7)));
    }
}

#[tokio::test]
async fn each_token_writes_once_where_that_is_asked_for() {
    let once = || rules().equal_tokens(EqualTokens::Once);
    admits_each_token_once(MemoryGuard::new(once())).await;
    let (_database, guard) = table(once()).await;
    admits_each_token_once(guard).await;

    let database = Database::new().await;
    let (accounts, mut connection) = (database.accounts(once()).await, database.connect().await);
    let mut write = async |value| {
        let write = accounts.write(&resource(ACCOUNT), &sequencer(value));
        let write = write.key(1).set("balance", 1);
        write.upsert(&mut connection).await.unwrap()
    };
    assert_eq!(write(7).await, WriteOutcome::Written);
    let refused = WriteOutcome::Stale {
        presented: token(7),
        required: token(8),
    };
    assert_eq!(write(7).await, refused);
    assert_eq!(write(8).await, WriteOutcome::Written);
}

#[tokio::test]
async fn a_mark_is_of_one_resource_by_its_exact_name() {
    keeps_resources_apart(MemoryGuard::new(rules())).await;
    let (_database, guard) = table(rules()).await;
    keeps_resources_apart(guard).await;
}

#[tokio::test]
async fn tokens_that_a_float_cannot_tell_apart_are_told_apart() {
    let even = 1 << 53;
    let guard = MemoryGuard::new(rules());
    assert_eq!(
        guard.admit(&sequencer(even + 1)).await.unwrap(),
        Verdict::Admitted
    );
    assert_eq!(
        guard.admit(&sequencer(even)).await.unwrap(),
        stale(even, even + 1)
    );
    let (_database, guard) = table(rules()).await;
    assert_eq!(
        guard.admit(&sequencer(even + 1)).await.unwrap(),
        Verdict::Admitted
    );
    assert_eq!(
        guard.admit(&sequencer(even)).await.unwrap(),
        stale(even, even + 1)
    );
}
