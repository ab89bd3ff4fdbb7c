//! Recording: with the guard and the caller's writes, once for each call, and no two calls as one.

use fencepost::fence::{
    EqualTokens, Refusal,
    unfenced::{CallError, CallState, Operation, REQUEST_BYTES_MAX, Recorded},
};

use super::scene::{Scene, at, day, done};
use crate::scene::{rules, sequencer, sequencer_for};
use crate::sql::{
    database::{Database, Server},
    on_each_database,
};

async fn a_record_commits_with_the_callers_writes_or_not_at_all<DB: Server>(
    database: Database<DB>,
) {
    let scene = Scene::new(database, day()).await;
    let operation = Operation::Only;
    let mut tx = scene.pool.begin().await.unwrap();
    let seven = sequencer(7);
    let recorded = scene
        .calls
        .record(&mut tx, &seven, &operation, "5 EUR", at(0));
    let Recorded::New(call) = recorded.await.unwrap() else {
        panic!("not recorded");
    };
    assert_eq!(call.key.as_str(), "account/1:7");
    tx.rollback().await.unwrap();
    assert_eq!(scene.find(&call.key).await, None);
    // The mark went back, too: an older grant is not stale yet.
    scene.admit(&sequencer(6)).await;

    let again = scene
        .record(&sequencer(7), &operation, "5 EUR")
        .await
        .unwrap();
    assert_eq!(again, Recorded::New(call.clone()));
    assert_eq!(scene.find(&call.key).await, Some(call));
}

async fn the_same_call_is_recorded_once_and_another_never_vanishes_behind_it<DB: Server>(
    database: Database<DB>,
) {
    let scene = Scene::new(database, day()).await;
    let call = scene.recorded(&sequencer(7), "invoice 1").await;
    assert_eq!(call.key.as_str(), "account/1:7:invoice%201");
    let again = scene.record(&sequencer(7), &call.operation, "5 EUR").await;
    assert_eq!(again.unwrap(), Recorded::Again(call.clone()));

    let other = scene.record(&sequencer(7), &call.operation, "6 EUR").await;
    assert!(
        matches!(other, Err(CallError::KeyTaken { .. })),
        "{other:?}"
    );
    let only = scene.record(&sequencer(7), &Operation::Only, "6 EUR").await;
    assert!(
        matches!(only, Err(CallError::NotTheOnly { .. })),
        "{only:?}"
    );

    let second = scene.recorded(&sequencer(7), "invoice 2").await;
    assert_ne!(second.key, call.key);
}

async fn an_only_call_stays_the_only_one<DB: Server>(database: Database<DB>) {
    let scene = Scene::new(database, day()).await;
    let only = scene.record(&sequencer(7), &Operation::Only, "5 EUR").await;
    assert!(matches!(only, Ok(Recorded::New(_))), "{only:?}");
    let named = Operation::named("invoice 2").unwrap();
    let second = scene.record(&sequencer(7), &named, "6 EUR").await;
    assert!(
        matches!(second, Err(CallError::NotTheOnly { .. })),
        "{second:?}"
    );
    // Another resource's grants have nothing to do with it.
    let other = sequencer_for("bank", "account/2", 7);
    let other = scene.record(&other, &named, "6 EUR").await;
    assert!(matches!(other, Ok(Recorded::New(_))), "{other:?}");
}

async fn what_an_earlier_grant_left_open_comes_first<DB: Server>(database: Database<DB>) {
    let scene = Scene::new(database, day()).await;
    let first = scene.recorded(&sequencer(7), "invoice 1").await;
    let second = scene.recorded(&sequencer(7), "invoice 2").await;
    let operation = Operation::named("invoice 3").unwrap();
    for left in [first, second] {
        let blocked = scene
            .record(&sequencer(8), &operation, "7 EUR")
            .await
            .unwrap();
        assert_eq!(blocked, Recorded::Unsettled(left.clone()));
        let _ = scene
            .send(&sequencer(8), &left.key, at(1), done("paid"))
            .await;
    }
    let recorded = scene
        .record(&sequencer(8), &operation, "7 EUR")
        .await
        .unwrap();
    assert!(matches!(recorded, Recorded::New(_)), "{recorded:?}");
}

async fn a_stale_or_foreign_grant_records_nothing<DB: Server>(database: Database<DB>) {
    let scene = Scene::new(database, day()).await;
    scene.admit(&sequencer(9)).await;
    for (by, wanted) in [
        (sequencer(7), true),
        (sequencer_for("mint", "account/1", 99), false),
    ] {
        let refused = scene.record(&by, &Operation::Only, "5 EUR").await.unwrap();
        let Recorded::Refused(refusal) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(matches!(refusal, Refusal::Stale { .. }), wanted);
    }
    let mut connection = scene.pool.acquire().await.unwrap();
    let open = scene.calls.open_calls(&mut connection, None, 10).await;
    assert_eq!(open.unwrap(), []);
}

async fn a_request_that_could_not_be_sent_again_exactly_is_refused<DB: Server>(
    database: Database<DB>,
) {
    let scene = Scene::new(database, day()).await;
    let long = "x".repeat(REQUEST_BYTES_MAX + 1);
    for (request, complaint) in [(long.as_str(), "too long"), ("5\0EUR", "NUL")] {
        let error = scene.record(&sequencer(7), &Operation::Only, request).await;
        let said = error.unwrap_err().to_string();
        assert!(said.contains(complaint) && said.contains("65536"), "{said}");
    }
    let longest = scene
        .record(&sequencer(7), &Operation::Only, &long[1..])
        .await;
    let Ok(Recorded::New(call)) = longest else {
        panic!("{longest:?}");
    };
    assert_eq!(call.state, CallState::Pending);
    assert_eq!(
        scene.find(&call.key).await.unwrap().request.len(),
        long.len() - 1
    );
}

async fn a_guard_that_admits_each_token_once_does_not_fit<DB: Server>(database: Database<DB>) {
    let once = rules().equal_tokens(EqualTokens::Once);
    let unfit = Scene::by(database, once, day())
        .await
        .map(|_| ())
        .unwrap_err();
    assert!(
        unfit.to_string().contains("admits each token once"),
        "{unfit}"
    );
}

#[test]
fn names_of_operations_have_limits() {
    for name in ["", " a", "a ", "a\nb", &"x".repeat(65)] {
        let said = Operation::named(name).unwrap_err().to_string();
        assert!(said.contains("64 characters"), "{said}");
    }
    assert!(Operation::named(&"日".repeat(64)).is_ok());
}

on_each_database!(
    a_guard_that_admits_each_token_once_does_not_fit,
    a_record_commits_with_the_callers_writes_or_not_at_all,
    the_same_call_is_recorded_once_and_another_never_vanishes_behind_it,
    an_only_call_stays_the_only_one,
    what_an_earlier_grant_left_open_comes_first,
    a_stale_or_foreign_grant_records_nothing,
    a_request_that_could_not_be_sent_again_exactly_is_refused,
);
