//! Names that databases like to take for one another.

use fencepost::{
    fence::unfenced::{Answer, CallState, Operation, Progress, Recorded},
    sequencer::Sequencer,
};

use super::scene::{Scene, at, day, done};
use crate::{
    scene::sequencer_for,
    sql::{
        database::{Database, Server},
        on_each_database,
    },
};

/// From the record to the answer, with names that databases like to take for others.
async fn calls_are_told_apart_by_exact_names<DB: Server>(database: Database<DB>) {
    let scene = Scene::new(database, day()).await;
    let grant = |name: &str, token| sequencer_for("bank", name, token);
    for name in ["account/1", "Account/1", "accöunt/1", "account/1 x"] {
        let call = scene.recorded(&grant(name, 7), "invoice 1").await;
        assert_eq!(scene.find(&call.key).await, Some(call.clone()));
        let upper = Operation::named("INVOICE 1").unwrap();
        let other = scene
            .record(&grant(name, 7), &upper, "6 EUR")
            .await
            .unwrap();
        assert!(matches!(other, Recorded::New(_)), "{other:?}");
        one_call(&scene, &grant(name, 8), &call).await;
    }
    let mut connection = scene.pool.acquire().await.unwrap();
    let backlog = scene.calls.backlog(&mut connection, at(60)).await.unwrap();
    assert_eq!((backlog.pending, backlog.unknown), (4, 0));
    let page = scene
        .calls
        .open_calls(&mut connection, None, 3)
        .await
        .unwrap();
    let rest = scene
        .calls
        .open_calls(&mut connection, page.last(), 3)
        .await
        .unwrap();
    assert_eq!((page.len(), rest.len()), (3, 1));
}

async fn one_call<DB: Server>(
    scene: &Scene<DB>,
    newer: &Sequencer,
    call: &fencepost::fence::unfenced::Call,
) {
    let open = scene
        .send(&call.sequencer, &call.key, at(1), Answer::Unknown)
        .await;
    assert!(matches!(open, Progress::Open(_)), "{open:?}");
    let blocked = scene
        .record(newer, &Operation::Only, "1 EUR")
        .await
        .unwrap();
    assert!(matches!(blocked, Recorded::Unsettled(_)), "{blocked:?}");
    scene.admit(newer).await;
    let stale = scene.send_nothing(&call.sequencer, &call.key, at(2)).await;
    assert!(matches!(stale, Progress::Refused(_)), "{stale:?}");
    let answer = "bezahlt: 5 €, \0 '; --";
    let sent = scene.send(newer, &call.key, at(2), done(answer)).await;
    let Progress::Settled(settled) = sent else {
        panic!("{sent:?}");
    };
    let kept = answer.replace('\0', "?");
    assert_eq!(
        (&settled.state, settled.attempts),
        (&CallState::Done(kept), 2)
    );
    assert_eq!(scene.find(&call.key).await, Some(settled));
}

on_each_database!(calls_are_told_apart_by_exact_names);
