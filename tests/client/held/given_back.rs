//! Given back: asked for, dropped, forgotten; and nothing left behind.

use super::{HandClock, client, client_on, hold, soon, until};
use crate::fake::{Act, Fake};
use fencepost::client::{LostHow, ReleaseOutcome};
use fencepost::grant::EndedHow;
use fencepost::wire::failure::{Failure, Reason};
use fencepost::wire::v1;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test]
async fn a_release_tells_how_it_came_out_and_ends_the_handle() {
    let node = Fake::start(|call, before| match (call, before) {
        ("release", 1) => Act::Ended(v1::EndedHow::Expired),
        _ => Act::Answer,
    })
    .await;
    let client = client(&node);
    let held = hold(&client, "jobs", 30_000).await;
    let told = held.lost();
    assert_eq!(
        soon(held.release()).await.unwrap(),
        ReleaseOutcome::Released
    );
    assert_eq!(soon(told).await.how(), LostHow::Released);
    let held = hold(&client, "jobs", 30_000).await;
    let outcome = soon(held.release()).await.unwrap();
    assert!(matches!(outcome, ReleaseOutcome::Ended(ended) if ended.how == EndedHow::Expired));
}

#[tokio::test]
async fn a_dropped_handle_is_given_back_and_not_renewed_any_more() {
    let node = Fake::start(|_, _| Act::Answer).await;
    let clock = HandClock::new();
    let client = client_on(clock.clone(), &node);
    let held = hold(&client, "jobs", 30_000).await;
    let (token, told) = (held.token(), held.lost());
    drop(held);
    assert_eq!(soon(told).await.how(), LostHow::Released);
    until(|| node.count("release") == 1).await;
    assert_eq!(node.releases()[0].token, token.value().get());
    clock.advance(60 * SECOND);
    let other = hold(&client, "more", 30_000).await;
    assert_eq!(node.count("renew"), 0);
    assert!(other.check().is_ok());
}

#[tokio::test]
async fn a_release_that_nobody_waits_for_goes_on() {
    let node = Fake::start(|call, before| match (call, before) {
        ("release", 0..3) => Act::Fail(Failure::new(Reason::NoLeader, "no leader is known")),
        _ => Act::Answer,
    })
    .await;
    let held = hold(&client(&node), "jobs", 30_000).await;
    let cancelled = tokio::time::timeout(Duration::ZERO, held.release()).await;
    assert!(cancelled.is_err());
    until(|| node.count("release") == 4).await;
}

#[tokio::test]
async fn a_renewal_under_way_does_not_stand_in_the_way_of_a_release() {
    let node = Fake::acting("renew", || Act::Silence).await;
    let clock = HandClock::new();
    let held = hold(&client_on(clock.clone(), &node), "jobs", 30_000).await;
    clock.advance(10 * SECOND);
    until(|| node.count("renew") > 0).await;
    assert_eq!(
        soon(held.release()).await.unwrap(),
        ReleaseOutcome::Released
    );
}

#[tokio::test]
async fn a_storm_of_dropped_handles_leaves_no_task() {
    let node = Fake::start(|_, _| Act::Answer).await;
    let client = client(&node);
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    // The connection and the stream have tasks of their own, which stay.
    soon(hold(&client, "jobs", 30_000).await.release())
        .await
        .unwrap();
    let settled = {
        let mut before = usize::MAX;
        soon(async {
            loop {
                tokio::time::sleep(Duration::from_millis(20)).await;
                match tasks() {
                    now if now == before => break now,
                    now => before = now,
                }
            }
        })
        .await
    };
    let mut helds = Vec::new();
    for number in 0..300 {
        helds.push(hold(&client, &format!("jobs/{number}"), 30_000).await);
    }
    assert!(tasks() <= settled + 3, "{} tasks for 300 leases", tasks());
    drop(helds);
    until(|| node.count("release") == 301).await;
    until(|| tasks() <= settled).await;
}

#[tokio::test]
async fn a_cancelled_hold_leaves_nothing_that_is_renewed() {
    let node = Fake::start(|_, _| Act::Answer).await;
    let client = client(&node);
    let (resource, holder) = ("jobs".parse().unwrap(), "me".parse().unwrap());
    let warm = soon(client.hold(&resource, &holder)).await.unwrap();
    drop(warm);
    for micros in (0..2_000_u64).step_by(20) {
        let ttl = fencepost::grant::Ttl::from_ms(200).unwrap();
        let hold = client.hold(&resource, &holder).ttl(ttl);
        // Wherever it is cut off; if it gets through, the handle is dropped at once.
        let _ = tokio::time::timeout(Duration::from_micros(micros), hold).await;
    }
    // Each grant that was heard of is given back, and those that were not end with their time.
    tokio::time::timeout(Duration::from_millis(500), std::future::pending::<()>())
        .await
        .unwrap_err();
    assert_eq!(node.count("renew"), 0);
}

#[tokio::test]
async fn without_the_resource_there_is_no_handle() {
    let node = Fake::acting("acquire", || Act::Held).await;
    let client = client(&node);
    let (resource, holder) = ("jobs".parse().unwrap(), "me".parse().unwrap());
    let outcome = soon(client.hold(&resource, &holder)).await.unwrap();
    let refused = outcome.held().unwrap_err();
    assert!(
        refused.to_string().starts_with("it is held by other"),
        "{refused}"
    );
}
