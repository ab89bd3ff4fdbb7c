//! Lost in time, for good, and told to everybody who waits.

use super::{HandClock, client, client_on, hold, lost, soon, until};
use crate::fake::{Act, Fake};
use fencepost::client::LostHow;
use fencepost::grant::EndedHow;
use fencepost::wire::failure::{Failure, Reason};
use fencepost::wire::v1;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

const SECOND: Duration = Duration::from_secs(1);

/// A node that grants, and does this with each renewal.
async fn renewing(act: impl Fn() -> Act + Send + Sync + 'static) -> Fake {
    Fake::acting("renew", act).await
}

#[tokio::test]
async fn it_is_lost_when_nobody_answers_and_everybody_who_waits_is_told() {
    let node = renewing(|| Act::Silence).await;
    let client = client(&node);
    let held = hold(&client, "jobs", 600).await;
    let waiters = [0; 3].map(|_| tokio::spawn(held.lost()));
    let told = lost(&held).await;
    assert_eq!(told.how(), LostHow::RanOut);
    assert_eq!(held.safe_until(), None);
    assert!(held.check().is_err());
    for waiter in waiters {
        assert_eq!(soon(waiter).await.unwrap().how(), LostHow::RanOut);
    }
    assert!(
        told.to_string()
            .contains("no renewal was acknowledged in time"),
        "{told}"
    );
    until(|| node.count("release") > 0).await;
}

#[tokio::test]
async fn the_clock_of_the_deadline_decides_when_it_is_lost() {
    let node = renewing(|| Act::Fail(Failure::new(Reason::NoLeader, "no leader is known"))).await;
    let clock = HandClock::new();
    let held = hold(&client_on(clock.clone(), &node), "jobs", 30_000).await;
    clock.advance(30 * SECOND - Duration::from_millis(101));
    until(|| node.count("renew") > 2).await;
    assert!(held.check().is_ok());
    clock.advance(Duration::from_millis(1));
    assert_eq!(held.check().unwrap_err().how(), LostHow::RanOut);
    assert_eq!(lost(&held).await.how(), LostHow::RanOut);
}

#[tokio::test]
async fn a_machine_that_slept_too_long_finds_its_lease_lost_first() {
    let answer = Arc::new(Notify::new());
    let say = Arc::clone(&answer);
    let node = renewing(move || Act::Once(Arc::clone(&say), Box::new(Act::Answer))).await;
    let clock = HandClock::new();
    let client = client_on(clock.clone(), &node);
    let held = hold(&client, "jobs", 30_000).await;
    clock.advance(10 * SECOND);
    until(|| node.count("renew") == 1).await;
    let told = tokio::spawn(held.lost());
    // It sleeps for a minute, and the answer to its renewal is there when it wakes.
    answer.notify_one();
    clock.advance(60 * SECOND);
    assert_eq!(soon(told).await.unwrap().how(), LostHow::RanOut);
    assert!(held.check().is_err());
    // What the renewal may have brought is given back.
    until(|| node.count("release") > 0).await;
    assert!(held.check().is_err());
}

#[tokio::test]
async fn a_late_success_does_not_bring_it_back() {
    let answer = Arc::new(Notify::new());
    let say = Arc::clone(&answer);
    let node = renewing(move || Act::Once(Arc::clone(&say), Box::new(Act::Answer))).await;
    let clock = HandClock::new();
    let client = client_on(clock.clone(), &node);
    let held = hold(&client, "jobs", 30_000).await;
    // Another lease of the client lives longer, and shares the message.
    let other = hold(&client, "more", 29_000).await;
    clock.advance(10 * SECOND);
    until(|| node.count("renew") >= 1).await;
    clock.advance(19 * SECOND + Duration::from_millis(950));
    assert_eq!(lost(&held).await.how(), LostHow::RanOut);
    answer.notify_waiters();
    until(|| node.count("release") >= 2).await;
    let tokens: Vec<_> = node
        .releases()
        .iter()
        .map(|release| release.token)
        .collect();
    assert!(tokens.contains(&held.token().value().get()));
    assert!(held.check().is_err() && other.check().is_err());
    assert_eq!(held.safe_until(), None);
}

#[tokio::test]
async fn an_end_that_the_cluster_tells_is_final_and_nothing_is_acquired_again() {
    let ends: [(fn() -> Act, LostHow); 4] = [
        (
            || Act::Ended(v1::EndedHow::Revoked),
            LostHow::Ended(EndedHow::Revoked),
        ),
        (
            || Act::Ended(v1::EndedHow::Expired),
            LostHow::Ended(EndedHow::Expired),
        ),
        (
            || Act::Ended(v1::EndedHow::Superseded),
            LostHow::Ended(EndedHow::Superseded),
        ),
        (|| Act::Unknown, LostHow::Unknown),
    ];
    for (act, how) in ends {
        // Once, and all is well with the node again after it (kubernetes#44887).
        let node = Fake::start(move |call, before| match (call, before) {
            ("renew", 0) => act(),
            _ => Act::Answer,
        })
        .await;
        let clock = HandClock::new();
        let client = client_on(clock.clone(), &node);
        let held = hold(&client, "jobs", 30_000).await;
        let kept = hold(&client, "later", 60_000).await;
        clock.advance(10 * SECOND);
        assert_eq!(lost(&held).await.how(), how);
        clock.advance(10 * SECOND);
        soon(kept.safe_until_after(kept.safe_until()))
            .await
            .unwrap();
        assert_eq!(held.check().unwrap_err().how(), how);
        assert_eq!((node.count("acquire"), node.count("release")), (2, 0));
        let of_held = |renew: &v1::RenewRequest| {
            let token = held.token().value().get();
            renew.items.iter().any(|item| item.token == token)
        };
        assert_eq!(
            node.renews().iter().filter(|renew| of_held(renew)).count(),
            1
        );
    }
}

#[tokio::test]
async fn the_holder_asking_again_ends_its_older_handle_at_once() {
    let node = Fake::start(|_, _| Act::Answer).await;
    let client = client(&node);
    let older = hold(&client, "jobs", 30_000).await;
    let newer = hold(&client, "jobs", 30_000).await;
    let superseded = LostHow::Ended(EndedHow::Superseded);
    assert_eq!(older.check().unwrap_err().how(), superseded);
    assert!(newer.check().is_ok());
    drop(older);
    assert_eq!(
        soon(newer.release()).await.unwrap(),
        fencepost::client::ReleaseOutcome::Released
    );
    assert_eq!(node.count("release"), 1, "what is over is not given back");
}

#[test]
fn a_runtime_that_shuts_down_leaves_no_lease_silently_unrenewed() {
    let runtime = || tokio::runtime::Runtime::new().unwrap();
    let (serving, holding) = (runtime(), runtime());
    let node = serving.block_on(Fake::start(|_, _| Act::Answer));
    let client = client(&node);
    let held = holding.block_on(hold(&client, "jobs", 30_000));
    assert!(held.check().is_ok());
    drop(holding);
    assert_eq!(held.check().unwrap_err().how(), LostHow::Stopped);
    assert_eq!(serving.block_on(lost(&held)).how(), LostHow::Stopped);
    // Nobody is left who could give it back; dropping it does no harm.
    drop(held);
}
