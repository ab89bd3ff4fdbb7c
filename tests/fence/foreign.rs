//! A token says something only beside tokens of the same issuer for the same resource. Any other is
//! refused as foreign, however high it is, and is never compared.

use fencepost::fence::{
    Foreign, Guard, Refusal, Rules, Verdict,
    memory::MemoryGuard,
    sql::{SqlGuard, WriteOutcome},
};

use crate::{
    scene::{ACCOUNT, issuer, resource, rules, sequencer, sequencer_for, token},
    sql::{
        database::{Database, Server},
        on_each_database,
    },
};

on_each_database!(
    the_table_of_marks_refuses_another_issuer,
    the_table_of_marks_holds_to_the_first_issuer_without_a_told_one,
    a_guard_told_another_issuer_than_its_marks_have_compares_nothing,
    a_table_of_marks_for_one_resource_refuses_others,
    a_row_is_written_only_under_the_resource_that_protects_it,
);

fn of_another_issuer(presented: &str) -> Foreign {
    Foreign::Issuer {
        presented: issuer(presented),
        expected: issuer("bank"),
    }
}

async fn refuses_another_issuer(guard: impl Guard) {
    let forged = sequencer_for("casino", ACCOUNT, 1_000_000);
    let verdict = guard.admit(&sequencer(5)).await.unwrap();
    assert_eq!(verdict, Verdict::Admitted);
    let verdict = guard.admit(&forged).await.unwrap();
    assert_eq!(verdict, Verdict::Foreign(of_another_issuer("casino")));
    let low = sequencer_for("casino", ACCOUNT, 1);
    let verdict = guard.admit(&low).await.unwrap();
    assert_eq!(
        verdict,
        Verdict::Foreign(of_another_issuer("casino")),
        "foreign comes before stale"
    );
    let mark = guard.high_water(&resource(ACCOUNT)).await.unwrap().unwrap();
    assert_eq!((mark.issuer, mark.token), (issuer("bank"), token(5)));
}

async fn sql_guard<DB: Server>(database: &Database<DB>, rules: Rules) -> SqlGuard<DB> {
    SqlGuard::new(database.pool(1).await, database.marks(rules).await)
}

async fn the_table_of_marks_refuses_another_issuer<DB: Server>(database: Database<DB>) {
    refuses_another_issuer(sql_guard(&database, rules()).await).await;
}

async fn the_table_of_marks_holds_to_the_first_issuer_without_a_told_one<DB: Server>(
    database: Database<DB>,
) {
    refuses_another_issuer(sql_guard(&database, Rules::default()).await).await;
}

#[tokio::test]
async fn a_token_of_another_issuer_is_foreign() {
    refuses_another_issuer(MemoryGuard::new(rules())).await;
}

#[tokio::test]
async fn without_a_told_issuer_the_first_one_seen_counts() {
    refuses_another_issuer(MemoryGuard::new(Rules::default())).await;
}

async fn a_guard_told_another_issuer_than_its_marks_have_compares_nothing<DB: Server>(
    database: Database<DB>,
) {
    let guard = sql_guard(&database, rules()).await;
    assert_eq!(guard.admit(&sequencer(5)).await.unwrap(), Verdict::Admitted);
    let renamed = Rules::issued_by(issuer("new-bank"));
    let guard = SqlGuard::new(database.pool(1).await, database.marks(renamed).await);
    let verdict = guard
        .admit(&sequencer_for("new-bank", ACCOUNT, 9))
        .await
        .unwrap();
    assert_eq!(verdict, Verdict::Foreign(of_another_issuer("new-bank")));
}

async fn refuses_another_resource(guard: impl Guard) {
    let stray = sequencer_for("bank", "account/2", 9);
    let expected = Verdict::Foreign(Foreign::Resource {
        presented: resource("account/2"),
        expected: resource(ACCOUNT),
    });
    assert_eq!(guard.admit(&stray).await.unwrap(), expected);
    let mark = guard.high_water(&resource("account/2")).await.unwrap();
    assert_eq!(mark, None);
}

#[tokio::test]
async fn a_token_for_another_resource_is_foreign_to_a_guard_of_one() {
    let only = rules().only(resource(ACCOUNT));
    refuses_another_resource(MemoryGuard::new(only)).await;
}

async fn a_table_of_marks_for_one_resource_refuses_others<DB: Server>(database: Database<DB>) {
    let only = rules().only(resource(ACCOUNT));
    refuses_another_resource(sql_guard(&database, only).await).await;
}

async fn a_row_is_written_only_under_the_resource_that_protects_it<DB: Server>(
    database: Database<DB>,
) {
    let (accounts, mut connection) = (database.accounts(rules()).await, database.connect().await);
    let stray = sequencer_for("bank", "account/2", 9);
    let write = accounts
        .write(&resource(ACCOUNT), &stray)
        .key(DB::number(1))
        .set("balance", DB::number(9));
    let expected = Foreign::Resource {
        presented: resource("account/2"),
        expected: resource(ACCOUNT),
    };
    let outcome = write.update(&mut connection).await.unwrap();
    assert_eq!(outcome, WriteOutcome::Foreign(expected));

    let forged = sequencer_for("casino", ACCOUNT, 9);
    let write = accounts
        .write(&resource(ACCOUNT), &forged)
        .key(DB::number(1))
        .set("balance", DB::number(9));
    let outcome = write.upsert(&mut connection).await.unwrap();
    assert_eq!(outcome, WriteOutcome::Foreign(of_another_issuer("casino")));
    assert_eq!(database.account(1).await, Some((0, 0)));
}

#[test]
fn a_refusal_says_what_was_presented_and_what_is_required() {
    let stale = Verdict::Stale {
        presented: token(6),
        required: token(7),
    };
    let refusal = stale.admitted().unwrap_err();
    assert_eq!(
        refusal.to_string(),
        "stale fencing token: presented 6, required at least 7"
    );
    let foreign = Verdict::Foreign(of_another_issuer("casino")).admitted();
    assert_eq!(
        foreign.unwrap_err().to_string(),
        "foreign fencing token: issued by \"casino\", but this resource is fenced by \"bank\""
    );
    assert_eq!(Verdict::Admitted.admitted(), Ok::<(), Refusal>(()));
}
