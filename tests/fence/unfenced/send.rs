//! Sending: under a guard that holds, with one key, and an answer that is kept.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use fencepost::fence::{
    Refusal,
    unfenced::{ANSWER_BYTES_MAX, Answer, CallError, CallState, Operation, Progress},
};
use sqlx::{Connection as _, Executor as _};

use super::scene::{Scene, at, day, done};
use crate::scene::{sequencer, sequencer_for};
use crate::sql::{
    database::{Database, Server},
    on_each_database,
};

async fn an_answer_is_kept_and_the_call_not_made_again<DB: Server>(database: Database<DB>) {
    let scene = Scene::new(database, day()).await;
    for (operation, answer, state) in [
        (
            "1",
            done("payment 77"),
            CallState::Done("payment 77".to_owned()),
        ),
        (
            "2",
            Answer::Refused("card declined".to_owned()),
            CallState::Refused("card declined".to_owned()),
        ),
    ] {
        let call = scene.recorded(&sequencer(7), operation).await;
        let sent = scene.send(&sequencer(7), &call.key, at(1), answer).await;
        let Progress::Settled(settled) = sent else {
            panic!("{sent:?}");
        };
        assert_eq!((&settled.state, settled.attempts), (&state, 1));
        assert_eq!(settled.sent_at, Some(at(1)));
        assert_eq!(scene.find(&call.key).await, Some(settled.clone()));
        let again = scene.send_nothing(&sequencer(7), &call.key, at(2)).await;
        assert_eq!(again, Progress::Settled(settled));
    }
}

async fn a_call_without_an_answer_is_sent_again_with_the_same_key_and_request<DB: Server>(
    database: Database<DB>,
) {
    let scene = Scene::new(database, day()).await;
    let call = scene.recorded(&sequencer(7), "1").await;
    let open = scene
        .send(&sequencer(7), &call.key, at(1), Answer::Unknown)
        .await;
    assert!(matches!(open, Progress::Open(_)), "{open:?}");
    assert_eq!(
        scene.find(&call.key).await.unwrap().state,
        CallState::Unknown
    );
    // A newer holder takes over; the key is still that of the grant that recorded the call.
    let key = call.key.clone();
    let service = async |out: fencepost::fence::unfenced::Outgoing| {
        assert_eq!((&out.key, &*out.request, out.attempt), (&key, "5 EUR", 2));
        done("paid")
    };
    let sent = scene
        .send_to(&sequencer(8), &call.key, at(60), service)
        .await;
    let Progress::Settled(settled) = sent.unwrap() else {
        panic!("not settled");
    };
    assert_eq!((settled.attempts, settled.sent_at), (2, Some(at(1))));
}

async fn a_service_that_takes_too_long_leaves_the_call_unknown<DB: Server>(database: Database<DB>) {
    let scene = Scene::new(database, day().timeout(Duration::from_millis(20))).await;
    let call = scene.recorded(&sequencer(7), "1").await;
    let service = async |_| std::future::pending().await;
    let sent = scene
        .send_to(&sequencer(7), &call.key, at(1), service)
        .await;
    let Progress::Open(open) = sent.unwrap() else {
        panic!("settled");
    };
    assert_eq!(open.state, CallState::Unknown);
}

async fn a_stale_holder_sends_nothing<DB: Server>(database: Database<DB>) {
    let scene = Scene::new(database, day()).await;
    let call = scene.recorded(&sequencer(7), "1").await;
    scene.admit(&sequencer(9)).await;
    let refused = scene.send_nothing(&sequencer(7), &call.key, at(1)).await;
    assert!(
        matches!(refused, Progress::Refused(Refusal::Stale { .. })),
        "{refused:?}"
    );
    assert_eq!(
        scene.find(&call.key).await.unwrap().state,
        CallState::Pending
    );
}

#[tokio::test]
async fn a_holder_that_became_stale_while_it_began_sends_nothing_and_leaves_no_doubt() {
    let database = Database::<sqlx::Sqlite>::new().await.unwrap();
    let scene = Scene::new(database, day()).await;
    let call = scene.recorded(&sequencer(7), "1").await;
    // A newer holder is admitted at the very moment that the call is begun.
    let overtake = "CREATE TRIGGER overtake AFTER UPDATE ON payments WHEN new.state = 'unknown'
        BEGIN UPDATE fencing_marks SET token = 9; END";
    scene.pool.execute(overtake).await.unwrap();
    let refused = scene.send_nothing(&sequencer(7), &call.key, at(1)).await;
    assert!(matches!(refused, Progress::Refused(_)), "{refused:?}");
    assert_eq!(scene.find(&call.key).await, Some(call));
}

async fn a_newer_holder_is_not_admitted_while_a_call_is_under_way<DB: Server>(
    database: Database<DB>,
) {
    let scene = Scene::new(database, day()).await;
    let call = scene.recorded(&sequencer(7), "1").await;
    // A newer holder that does not wait: it is told at once that the mark is taken.
    let mut newer = scene.pool.acquire().await.unwrap();
    DB::run(&mut newer, DB::IMPATIENT).await.unwrap();
    let service = async |_| {
        let mut tx = newer.begin().await.unwrap();
        let busy = scene.guard.fenced(&mut tx, &sequencer(9)).await;
        assert!(busy.unwrap_err().may_retry());
        tx.rollback().await.unwrap();
        done("paid")
    };
    let sent = scene
        .send_to(&sequencer(7), &call.key, at(1), service)
        .await;
    assert!(matches!(sent.unwrap(), Progress::Settled(_)));
    scene.admit(&sequencer(9)).await;
}

async fn a_send_that_is_given_up_leaves_the_call_unknown_and_the_mark_free<DB: Server>(
    database: Database<DB>,
) {
    let scene = Scene::new(database, day()).await;
    let call = scene.recorded(&sequencer(7), "1").await;
    let (reached, mut under_way) = tokio::sync::mpsc::channel::<()>(1);
    let service = async |_| {
        reached.send(()).await.unwrap();
        std::future::pending().await
    };
    let seven = sequencer(7);
    let send = scene.send_to(&seven, &call.key, at(1), service);
    tokio::select! {
        sent = send => panic!("{sent:?}"),
        _ = under_way.recv() => {}
    }
    scene.admit(&sequencer(9)).await;
    let left = scene.find(&call.key).await.unwrap();
    assert_eq!(left.state, CallState::Unknown);
}

async fn settlers_at_once_make_one_call<DB: Server>(database: Database<DB>) {
    let scene = std::sync::Arc::new(Scene::new(database, day()).await);
    let call = scene.recorded(&sequencer(7), "1").await;
    let (under_way, made) = (
        std::sync::Arc::new(AtomicUsize::new(0)),
        std::sync::Arc::new(AtomicUsize::new(0)),
    );
    let mut settlers = tokio::task::JoinSet::new();
    for _ in 0..6 {
        let (scene, key) = (std::sync::Arc::clone(&scene), call.key.clone());
        let (under_way, made) = (
            std::sync::Arc::clone(&under_way),
            std::sync::Arc::clone(&made),
        );
        settlers.spawn(async move {
            let service = async |_| {
                assert_eq!(under_way.fetch_add(1, SeqCst), 0, "two at once");
                tokio::task::yield_now().await;
                under_way.fetch_sub(1, SeqCst);
                made.fetch_add(1, SeqCst);
                done("paid")
            };
            scene
                .calls
                .send(&scene.pool, &sequencer(8), &key, at(1), service)
                .await
                .unwrap()
        });
    }
    let outcomes = settlers.join_all().await;
    assert_eq!(made.load(SeqCst), 1, "{outcomes:?}");
    let settled = scene.find(&call.key).await.unwrap();
    assert_eq!(settled.state, CallState::Done("paid".to_owned()));
}

async fn a_call_of_another_resource_or_of_none_is_not_sent<DB: Server>(database: Database<DB>) {
    let scene = Scene::new(database, day()).await;
    let call = scene.recorded(&sequencer(7), "1").await;
    let other = sequencer_for("bank", "account/2", 99);
    let nothing = async |out| panic!("{out:?} went out");
    let error = scene
        .calls
        .send(&scene.pool, &other, &call.key, at(1), nothing)
        .await;
    assert!(
        matches!(error, Err(CallError::OtherResource { .. })),
        "{error:?}"
    );
    let unknown = fencepost::fence::unfenced::IdempotencyKey::new(
        &other,
        &Operation::Only,
        Default::default(),
    );
    let error = scene
        .calls
        .send(&scene.pool, &other, &unknown, at(1), nothing)
        .await;
    assert!(
        matches!(error, Err(CallError::NoSuchCall { .. })),
        "{error:?}"
    );
}

async fn any_answer_can_be_kept<DB: Server>(database: Database<DB>) {
    let scene = Scene::new(database, day()).await;
    let call = scene.recorded(&sequencer(7), "1").await;
    let answer = format!("a\0{}", "ä".repeat(ANSWER_BYTES_MAX));
    let sent = scene
        .send(&sequencer(7), &call.key, at(1), done(&answer))
        .await;
    let Progress::Settled(call) = sent else {
        panic!("{sent:?}");
    };
    let CallState::Done(kept) = call.state else {
        panic!("not done");
    };
    assert!(
        kept.starts_with("a?ää") && kept.len() <= ANSWER_BYTES_MAX,
        "{}",
        kept.len()
    );
}

on_each_database!(
    a_service_that_takes_too_long_leaves_the_call_unknown,
    a_send_that_is_given_up_leaves_the_call_unknown_and_the_mark_free,
    an_answer_is_kept_and_the_call_not_made_again,
    a_call_without_an_answer_is_sent_again_with_the_same_key_and_request,
    a_stale_holder_sends_nothing,
    a_newer_holder_is_not_admitted_while_a_call_is_under_way,
    settlers_at_once_make_one_call,
    a_call_of_another_resource_or_of_none_is_not_sent,
    any_answer_can_be_kept,
);
