//! Purging: what is settled and old goes, and nothing whose loss could make a call twice.

use fencepost::fence::unfenced::{Answer, CallError, PURGE_MAX, Progress, Recorded, Terms};

use super::scene::{HOUR, Scene, at, day, done};
use crate::scene::{sequencer, sequencer_for};
use crate::sql::{
    database::{Database, Server},
    on_each_database,
};

/// Two days after everything.
fn later() -> std::time::SystemTime {
    at(48 * HOUR.as_secs())
}

impl<DB: Server> Scene<DB> {
    async fn purge(&self, limit: usize) -> u64 {
        let mut connection = self.pool.acquire().await.unwrap();
        let purged = self.calls.purge(&mut connection, 24 * HOUR, later(), limit);
        purged.await.unwrap()
    }
}

async fn settled_calls_go_when_they_are_old_and_open_ones_never<DB: Server>(
    database: Database<DB>,
) {
    let scene = Scene::new(database, day()).await;
    let seven = sequencer(7);
    let mut calls = Vec::new();
    for name in ["done", "refused", "unknown", "pending", "young"] {
        calls.push(scene.recorded(&seven, name).await);
    }
    let refused = Answer::Refused("no".to_owned());
    let young = 24 * HOUR.as_secs();
    for (call, answer, sent) in [
        (&calls[0], done("paid"), 0),
        (&calls[1], refused, 0),
        (&calls[2], Answer::Unknown, 0),
        (&calls[4], done("paid"), young),
    ] {
        let _ = scene.send(&seven, &call.key, at(sent), answer).await;
    }
    // The grant is still the newest: whoever does its work again must find what it did.
    assert_eq!(scene.purge(10).await, 0);
    scene.admit(&sequencer(8)).await;
    assert_eq!(scene.purge(10).await, 2);
    for (n, call) in calls.iter().enumerate() {
        assert_eq!(scene.find(&call.key).await.is_some(), n > 1, "{}", call.key);
    }
    assert_eq!(scene.purge(10).await, 0);
    // What is gone cannot come back: its grant is refused.
    let again = scene.record(&seven, &calls[0].operation, "5 EUR").await;
    assert!(matches!(again, Ok(Recorded::Refused(_))), "{again:?}");
    // And what is settled late is as old as its first send.
    let sent = scene
        .send(&sequencer(8), &calls[2].key, at(1), done("paid"))
        .await;
    assert!(matches!(sent, Progress::Settled(_)), "{sent:?}");
    assert_eq!(scene.purge(10).await, 1);
}

async fn a_purge_is_bounded_and_two_at_once_share_the_work<DB: Server>(database: Database<DB>) {
    let scene = Scene::new(database, day()).await;
    // Names that a database might take for one another have marks of their own.
    for name in ["a", "A"] {
        for token in [7, 8] {
            let by = sequencer_for("bank", name, token);
            for n in 0..6 {
                let call = scene.recorded(&by, &n.to_string()).await;
                let _ = scene.send(&by, &call.key, at(n), done("paid")).await;
            }
        }
    }
    scene.admit(&sequencer_for("bank", "A", 9)).await;
    assert_eq!(scene.purge(4).await, 4);
    let (one, other) = tokio::join!(scene.purge(PURGE_MAX), scene.purge(PURGE_MAX));
    assert_eq!(one + other, 14, "six of \"a\" at 8 stay");
    for n in 0..6 {
        let key = format!("a:8:{n}").parse().unwrap();
        assert!(scene.find(&key).await.is_some(), "{key}");
    }
}

async fn ages_within_the_services_memory_and_limits_out_of_range_are_refused<DB: Server>(
    database: Database<DB>,
) {
    let scene = Scene::new(database, day()).await;
    let call = scene.recorded(&sequencer(7), "1").await;
    let _ = scene
        .send(&sequencer(7), &call.key, at(0), done("paid"))
        .await;
    scene.admit(&sequencer(8)).await;
    let mut connection = scene.pool.acquire().await.unwrap();
    let short = 23 * HOUR - std::time::Duration::from_millis(1);
    let purged = scene.calls.purge(&mut connection, short, later(), 1).await;
    assert!(matches!(purged, Err(CallError::Age { .. })), "{purged:?}");
    for limit in [0, PURGE_MAX + 1] {
        let purged = scene
            .calls
            .purge(&mut connection, 24 * HOUR, later(), limit);
        let purged = purged.await;
        assert!(matches!(purged, Err(CallError::Page { .. })), "{purged:?}");
    }
    // Older than time itself.
    let age = std::time::Duration::MAX;
    let purged = scene.calls.purge(&mut connection, age, later(), 1).await;
    assert_eq!(purged.unwrap(), 0);
    assert!(scene.find(&call.key).await.is_some());
}

async fn without_a_promise_any_age_will_do<DB: Server>(database: Database<DB>) {
    let scene = Scene::new(database, Terms::no_promise()).await;
    let call = scene.recorded(&sequencer(7), "1").await;
    let _ = scene
        .send(&sequencer(7), &call.key, at(0), done("sent"))
        .await;
    scene.admit(&sequencer(8)).await;
    let mut connection = scene.pool.acquire().await.unwrap();
    let age = std::time::Duration::ZERO;
    let purged = scene.calls.purge(&mut connection, age, at(1), 1).await;
    assert_eq!(purged.unwrap(), 1);
}

on_each_database!(
    settled_calls_go_when_they_are_old_and_open_ones_never,
    a_purge_is_bounded_and_two_at_once_share_the_work,
    ages_within_the_services_memory_and_limits_out_of_range_are_refused,
    without_a_promise_any_age_will_do,
);
