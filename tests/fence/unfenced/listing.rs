//! Lists of what is open, page by page and oldest first.

use std::time::Duration;

use fencepost::fence::unfenced::{Answer, Backlog, CallError, Operation, PAGE_MAX, Recorded};

use super::scene::{Scene, at, day, done};
use crate::scene::{sequencer, sequencer_for};
use crate::sql::{
    database::{Database, Server},
    on_each_database,
};

async fn open_calls_come_page_by_page_oldest_first<DB: Server>(database: Database<DB>) {
    let scene = Scene::new(database, day()).await;
    let mut connection = scene.pool.acquire().await.unwrap();
    // Two at each moment, so that a page may end between two of one age.
    for n in 0..10_u64 {
        let mut tx = scene.pool.begin().await.unwrap();
        let by = sequencer_for("bank", &format!("account/{}", 9 - n), 7);
        let recorded = scene
            .calls
            .record(&mut tx, &by, &Operation::Only, "5 EUR", at(n / 2));
        assert!(matches!(recorded.await.unwrap(), Recorded::New(_)));
        tx.commit().await.unwrap();
    }
    let settled = sequencer_for("bank", "account/5", 7);
    let key = fencepost::fence::unfenced::IdempotencyKey::new(
        &settled,
        &Operation::Only,
        Default::default(),
    );
    let _ = scene.send(&settled, &key, at(20), done("paid")).await;

    let mut keys = Vec::new();
    let mut last = None;
    loop {
        let page = scene
            .calls
            .open_calls(&mut connection, last.as_ref(), 2)
            .await
            .unwrap();
        keys.extend(page.iter().map(|call| call.key.to_string()));
        match page.into_iter().last() {
            Some(call) => last = Some(call),
            None => break,
        }
    }
    let wanted = [8, 9, 6, 7, 4, 2, 3, 0, 1].map(|n| format!("account/{n}:7"));
    assert_eq!(keys, wanted);
}

async fn the_backlog_says_how_much_is_open_and_for_how_long<DB: Server>(database: Database<DB>) {
    let scene = Scene::new(database, day()).await;
    let mut connection = scene.pool.acquire().await.unwrap();
    let nothing = scene.calls.backlog(&mut connection, at(5)).await.unwrap();
    assert_eq!(nothing, Backlog::default());
    for operation in ["1", "2", "3", "4"] {
        let _ = scene.recorded(&sequencer(7), operation).await;
    }
    let open = scene
        .calls
        .open_calls(&mut connection, None, 10)
        .await
        .unwrap();
    let _ = scene
        .send(&sequencer(7), &open[0].key, at(1), done("paid"))
        .await;
    let _ = scene
        .send(&sequencer(7), &open[1].key, at(1), Answer::Unknown)
        .await;
    let wanted = Backlog {
        pending: 2,
        unknown: 1,
        oldest: Some(Duration::from_secs(90)),
    };
    let backlog = scene.calls.backlog(&mut connection, at(90)).await.unwrap();
    assert_eq!(backlog, wanted);
    assert_eq!(open[0].age(at(90)), Duration::from_secs(90));
    assert_eq!(open[0].age(at(0) - Duration::from_secs(1)), Duration::ZERO);
}

async fn a_page_has_a_limit<DB: Server>(database: Database<DB>) {
    let scene = Scene::new(database, day()).await;
    let mut connection = scene.pool.acquire().await.unwrap();
    for limit in [0, PAGE_MAX + 1] {
        let error = scene.calls.open_calls(&mut connection, None, limit).await;
        assert!(matches!(error, Err(CallError::Page { .. })), "{error:?}");
    }
}

on_each_database!(
    open_calls_come_page_by_page_oldest_first,
    the_backlog_says_how_much_is_open_and_for_how_long,
    a_page_has_a_limit,
);
