//! How leases are kept alive, and what is claimed of them.

use super::{HandClock, client, client_on, hold, lost, soon, until};
use crate::fake::{Act, Fake};
use fencepost::wire::failure::{Failure, Reason};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_lease_is_renewed_at_a_third_of_its_ttl_and_claims_what_was_acknowledged() {
    let node = Fake::start(|_, _| Act::Answer).await;
    let clock = HandClock::new();
    let client = client_on(clock.clone(), &node);
    let start = client.now();
    let held = hold(&client, "jobs", 30_000).await;
    assert_eq!(held.safe_until(), Some(start.plus(30 * SECOND)));
    for third in 1..=6 {
        assert_eq!(node.count("renew"), third - 1);
        let known = held.safe_until();
        clock.advance(10 * SECOND);
        // Counted from the send of the renewal, which left when the third was over.
        let next = soon(held.safe_until_after(known)).await;
        assert_eq!(next, Some(client.now().plus(30 * SECOND)));
        assert!(held.check().is_ok());
    }
    let sent = node.renews();
    assert!(
        sent.iter()
            .all(|renew| renew.items[0].token == held.token().value().get())
    );
}

#[tokio::test]
async fn the_deadline_counts_from_the_first_send_of_the_request_and_from_no_repeat() {
    let node = Fake::start(|call, before| match (call, before) {
        ("acquire", 0..2) => Act::Silence,
        _ => Act::Answer,
    })
    .await;
    let client = client(&node);
    let before = client.now();
    let held = hold(&client, "jobs", 30_000).await;
    let after = client.now();
    let safe_until = held.safe_until().unwrap();
    assert!(before.plus(30 * SECOND) <= safe_until);
    // Silences of 200 and 400 ms lie between the first send and the one that was answered.
    assert!(safe_until.plus(Duration::from_millis(600)) <= after.plus(30 * SECOND));
}

#[tokio::test]
async fn a_grant_whose_start_is_not_known_claims_nothing_before_its_first_renewal() {
    for waited in [true, false] {
        let answer = Arc::new(Notify::new());
        let say = Arc::clone(&answer);
        let node = Fake::start(move |call, _| match call {
            "acquire" if waited => Act::Granted,
            "acquire" => Act::Replay,
            "renew" => Act::Once(Arc::clone(&say), Box::new(Act::Answer)),
            _ => Act::Answer,
        })
        .await;
        let client = client(&node);
        let held = hold(&client, "jobs", 30_000).await;
        // The token is there at once, and so is the renewal.
        assert!(held.token().value().get() > 0);
        until(|| node.count("renew") == 1).await;
        assert_eq!(
            (held.safe_until(), held.remaining()),
            (None, Duration::ZERO)
        );
        assert!(held.check().is_ok());
        let before = client.now();
        answer.notify_one();
        let claimed = soon(held.claimed()).await.unwrap();
        assert_eq!(held.safe_until(), Some(claimed));
        assert!(
            claimed <= before.plus(30 * SECOND),
            "it counts from the send"
        );
    }
}

#[tokio::test]
async fn two_hundred_leases_cost_few_messages() {
    let node = Fake::start(|_, _| Act::Answer).await;
    let clock = HandClock::new();
    let client = client_on(clock.clone(), &node);
    let mut helds = Vec::new();
    for number in 0..200 {
        helds.push(hold(&client, &format!("jobs/{number}"), 30_000).await);
        clock.advance(Duration::from_millis(1));
    }
    for round in 1..=3_usize {
        let known: Vec<_> = helds.iter().map(|held| held.safe_until()).collect();
        clock.advance(10 * SECOND);
        for (held, known) in helds.iter().zip(known) {
            soon(held.safe_until_after(known)).await.unwrap();
        }
        assert!(
            node.count("renew") <= round + 1,
            "{} messages",
            node.count("renew")
        );
    }
    assert!(helds.iter().all(|held| held.check().is_ok()));
}

#[tokio::test]
async fn an_election_costs_no_lease() {
    let node = Fake::start(|call, before| match (call, before) {
        ("renew", 0..20) => Act::Fail(Failure::new(Reason::NoLeader, "no leader is known")),
        _ => Act::Answer,
    })
    .await;
    node.become_(|node| node.lease_ms = 5_000);
    let client = client(&node);
    let held = hold(&client, "jobs", 5_000).await;
    let known = held.safe_until();
    assert!(soon(held.safe_until_after(known)).await > known);
    assert!(node.count("renew") > 20);
    assert!(held.check().is_ok());
}

#[tokio::test]
async fn a_broken_stream_costs_no_lease() {
    let node = Fake::start(|call, before| match (call, before) {
        ("renew", 0..3) => Act::Break,
        _ => Act::Answer,
    })
    .await;
    node.become_(|node| node.lease_ms = 3_000);
    let client = client(&node);
    let held = hold(&client, "jobs", 3_000).await;
    until(|| node.count("renew") > 4).await;
    assert!(held.check().is_ok());
}

#[tokio::test]
async fn work_is_done_while_held_and_dropped_when_lost() {
    let node = Fake::acting("renew", || Act::Silence).await;
    let clock = HandClock::new();
    let held = hold(&client_on(clock.clone(), &node), "jobs", 30_000).await;
    assert_eq!(held.while_held(async { 7 }).await.unwrap(), 7);
    let never = held.while_held(std::future::pending::<()>());
    let (outcome, ()) = tokio::join!(soon(never), async { clock.advance(30 * SECOND) });
    assert!(outcome.is_err());
    // Not even begun once it is lost.
    let begun = held.while_held(async { panic!("it is lost") });
    assert!(soon(begun).await.is_err());
    lost(&held).await;
}

#[tokio::test]
async fn time_to_finish_is_told_before_the_end() {
    let node = Fake::acting("renew", || Act::Silence).await;
    let clock = HandClock::new();
    let held = hold(&client_on(clock.clone(), &node), "jobs", 30_000).await;
    let running_out = tokio::spawn(held.running_out(5 * SECOND));
    clock.advance(24 * SECOND);
    until(|| node.count("renew") > 0).await;
    assert!(!running_out.is_finished());
    clock.advance(SECOND);
    soon(running_out).await.unwrap();
    assert!(held.check().is_ok(), "there is time left");
}
