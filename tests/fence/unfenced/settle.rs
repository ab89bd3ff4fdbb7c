//! Settling what is open: when it may be sent again, and what else there is.

use fencepost::fence::unfenced::{Answer, CallState, Progress, Terms};

use super::scene::{HOUR, Scene, at, day, done};
use crate::scene::sequencer;
use crate::sql::{
    database::{Database, Server},
    on_each_database,
};

async fn beyond_the_retention_of_its_key_a_call_is_not_sent_again<DB: Server>(
    database: Database<DB>,
) {
    let scene = Scene::new(database, day()).await;
    let call = scene.recorded(&sequencer(7), "1").await;
    let _ = scene
        .send(&sequencer(7), &call.key, at(0), Answer::Unknown)
        .await;
    let seconds = 23 * HOUR.as_secs();
    let within = scene
        .send(&sequencer(7), &call.key, at(seconds - 1), Answer::Unknown)
        .await;
    assert!(matches!(within, Progress::Open(_)), "{within:?}");
    // Counted from the first send, not from the last.
    let over = scene
        .send_nothing(&sequencer(7), &call.key, at(seconds))
        .await;
    assert!(matches!(over, Progress::MustAsk(_)), "{over:?}");
    // A clock that was set back to before the first send says nothing.
    let behind = at(0) - HOUR;
    let behind = scene.send_nothing(&sequencer(7), &call.key, behind).await;
    assert!(matches!(behind, Progress::MustAsk(_)), "{behind:?}");
}

async fn a_call_that_was_never_sent_may_be_sent_at_any_age<DB: Server>(database: Database<DB>) {
    let scene = Scene::new(database, Terms::no_promise()).await;
    let call = scene.recorded(&sequencer(7), "1").await;
    let late = at(1_000 * HOUR.as_secs());
    let sent = scene
        .send(&sequencer(8), &call.key, late, done("paid"))
        .await;
    assert!(matches!(sent, Progress::Settled(_)), "{sent:?}");
}

async fn without_a_promise_what_may_have_gone_out_never_goes_out_again<DB: Server>(
    database: Database<DB>,
) {
    let scene = Scene::new(database, Terms::no_promise()).await;
    let call = scene.recorded(&sequencer(7), "1").await;
    let _ = scene
        .send(&sequencer(7), &call.key, at(0), Answer::Unknown)
        .await;
    let asked = scene.send_nothing(&sequencer(7), &call.key, at(0)).await;
    assert!(matches!(asked, Progress::MustAsk(_)), "{asked:?}");
}

async fn asking_settles_what_the_service_remembers_and_nothing_else<DB: Server>(
    database: Database<DB>,
) {
    let scene = Scene::new(database, day()).await;
    let call = scene.recorded(&sequencer(7), "1").await;
    let ask = async |by: u64, answer: Answer| {
        let service = async |_| answer;
        let by = sequencer(by);
        scene
            .calls
            .ask(&scene.pool, &by, &call.key, service)
            .await
            .unwrap()
    };
    // Never sent: there is nothing to ask.
    let pending = ask(7, done("paid")).await;
    assert!(
        matches!(&pending, Progress::Open(call) if call.state == CallState::Pending),
        "{pending:?}"
    );
    let _ = scene
        .send(&sequencer(7), &call.key, at(0), Answer::Unknown)
        .await;
    let open = ask(7, Answer::Unknown).await;
    assert!(matches!(open, Progress::Open(_)), "{open:?}");
    scene.admit(&sequencer(8)).await;
    let stale = ask(7, done("paid")).await;
    assert!(matches!(stale, Progress::Refused(_)), "{stale:?}");
    let settled = ask(8, done("paid")).await;
    assert!(matches!(settled, Progress::Settled(_)), "{settled:?}");
}

async fn a_person_may_conclude_and_a_settled_call_stays_as_it_is<DB: Server>(
    database: Database<DB>,
) {
    let scene = Scene::new(database, Terms::no_promise()).await;
    let (unwanted, sent) = (
        scene.recorded(&sequencer(7), "1").await,
        scene.recorded(&sequencer(7), "2").await,
    );
    let _ = scene
        .send(&sequencer(7), &sent.key, at(0), Answer::Unknown)
        .await;
    let conclude = async |key, by: u64, answer: Answer| {
        let mut tx = scene.pool.begin().await.unwrap();
        let progress = scene
            .calls
            .conclude(&mut tx, &sequencer(by), key, answer)
            .await;
        tx.commit().await.unwrap();
        progress.unwrap()
    };
    let given_up = Answer::Refused("not wanted any more".to_owned());
    let progress = conclude(&unwanted.key, 8, given_up).await;
    assert!(matches!(progress, Progress::Settled(_)), "{progress:?}");
    let progress = conclude(&sent.key, 7, done("as the bank says")).await;
    assert!(matches!(progress, Progress::Refused(_)), "{progress:?}");
    let progress = conclude(&sent.key, 8, done("as the bank says")).await;
    assert!(matches!(progress, Progress::Settled(_)), "{progress:?}");
    let Progress::Settled(call) = conclude(&unwanted.key, 8, done("after all")).await else {
        panic!("not settled");
    };
    assert_eq!(
        call.state,
        CallState::Refused("not wanted any more".to_owned())
    );
    let nothing = scene
        .send_nothing(&sequencer(8), &unwanted.key, at(1))
        .await;
    assert!(matches!(nothing, Progress::Settled(_)), "{nothing:?}");
}

on_each_database!(
    beyond_the_retention_of_its_key_a_call_is_not_sent_again,
    a_call_that_was_never_sent_may_be_sent_at_any_age,
    without_a_promise_what_may_have_gone_out_never_goes_out_again,
    asking_settles_what_the_service_remembers_and_nothing_else,
    a_person_may_conclude_and_a_settled_call_stays_as_it_is,
);
