//! What becomes of an acquire whose future is dropped.

use crate::fake::{Act, Fake, client};
use crate::{PLENTY, acquire, granted, in_line, until};
use fencepost::client::{AcquireOutcome, Client, Options, WithdrawOutcome};
use fencepost::grant::LeftHow;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::task::JoinSet;

const HOUR: Duration = Duration::from_secs(3_600);

async fn settled(client: &Client) {
    let settled = tokio::time::timeout(PLENTY, client.settled()).await;
    settled.expect("what goes on in the background comes to an end");
}

/// A node where whoever asks stands in line, and a withdrawal is answered like this.
async fn in_line_until(withdrawn: impl Fn() -> Act + Send + Sync + 'static) -> Fake {
    Fake::start(move |call, before| match (call, before) {
        ("acquire", 0) => Act::Break,
        ("acquire", _) => Act::InLine,
        ("withdraw", _) => withdrawn(),
        _ => Act::Answer,
    })
    .await
}

#[tokio::test]
async fn a_dropped_wait_leaves_the_line() {
    let node = in_line_until(|| Act::Answer).await;
    let client = client(&[&node.address], PLENTY);
    let mut ask = in_line(&client, HOUR);
    tokio::select! {
        outcome = client.acquire_with(&mut ask) => panic!("nobody grants it: {outcome:?}"),
        () = until("it is back in line", || node.count("acquire") == 2) => {}
    }
    settled(&client).await;
    let (sends, withdraws) = (node.acquires(), node.withdraws());
    assert_eq!(withdraws.len(), 1);
    let (sent, left) = (&sends[1], &withdraws[0]);
    assert_eq!(
        (&left.resource, &left.holder),
        (&sent.resource, &sent.holder)
    );
    assert_eq!(
        (&left.request_id, left.attempt, &left.asked_at),
        (&sent.request_id, 2, &sent.asked_at)
    );
    assert!(node.releases().is_empty());

    // That id has come to its end, so the next call is another request.
    node.become_(|node| node.script = Box::new(|_, _| Act::Granted));
    client.acquire_with(&mut ask).await.unwrap();
    let next = node.acquires().pop().unwrap();
    assert_ne!(next.request_id, sent.request_id);
    assert_eq!((next.attempt, next.wait_ms), (1, 3_600_000));
}

#[tokio::test]
async fn a_grant_that_was_faster_than_the_withdrawal_is_released() {
    let node = in_line_until(|| Act::Granted).await;
    let client = client(&[&node.address], PLENTY);
    let mut ask = in_line(&client, HOUR);
    tokio::select! {
        outcome = client.acquire_with(&mut ask) => panic!("nobody grants it: {outcome:?}"),
        () = until("it is back in line", || node.count("acquire") == 2) => {}
    }
    settled(&client).await;
    assert_eq!(node.releases().len(), 1);
}

#[tokio::test]
async fn a_withdrawal_is_carried_on_through_an_election() {
    let node = Fake::start(|call, before| match (call, before) {
        ("acquire", _) => Act::InLine,
        ("withdraw", 0..3) => Act::Break,
        _ => Act::Answer,
    })
    .await;
    let client = client(&[&node.address], PLENTY);
    let mut ask = in_line(&client, HOUR);
    tokio::select! {
        outcome = client.acquire_with(&mut ask) => panic!("nobody grants it: {outcome:?}"),
        () = until("it stands in line", || node.count("acquire") == 1) => {}
    }
    settled(&client).await;
    assert_eq!(node.count("withdraw"), 4);
}

#[tokio::test]
async fn an_acquire_that_does_not_wait_is_taken_back_as_well() {
    let node = Fake::start(|call, _| match call {
        "acquire" => Act::Silence,
        "withdraw" => Act::Granted,
        _ => Act::Answer,
    })
    .await;
    let options = Options::default().attempt_timeout(PLENTY).timeout(PLENTY);
    let client = Client::connect([&node.address], options).unwrap();
    tokio::select! {
        outcome = acquire(&client) => panic!("nobody answers it: {outcome:?}"),
        () = until("it was sent", || node.count("acquire") == 1) => {}
    }
    settled(&client).await;
    assert_eq!(node.releases().len(), 1);
}

#[tokio::test]
async fn what_was_never_sent_needs_no_withdrawal() {
    let node = Fake::start(|_, _| Act::Answer).await;
    let client = client(&[&node.address], PLENTY);
    drop(acquire(&client));
    let mut ask = in_line(&client, HOUR);
    let outcome = client.withdraw(&mut ask).await.unwrap();
    assert_eq!(outcome, WithdrawOutcome::Left(LeftHow::Withdrawn));
    settled(&client).await;
    granted(&client).await;
    assert_eq!(node.count("withdraw"), 0);
}

#[tokio::test]
async fn an_asking_of_another_process_can_be_withdrawn() {
    let node = Fake::start(|call, before| match (call, before) {
        ("acquire", _) | ("withdraw", 0) => Act::Granted,
        _ => Act::Answer,
    })
    .await;
    let client = client(&[&node.address], PLENTY);
    let mut ask = in_line(&client, HOUR);
    let AcquireOutcome::Granted(_) = client.acquire_with(&mut ask).await.unwrap() else {
        panic!("the script grants it")
    };
    let outcome = client.withdraw(&mut ask).await.unwrap();
    let WithdrawOutcome::Granted(acquired) = outcome else {
        panic!("it has a grant, got {outcome:?}")
    };
    assert_eq!(acquired.safe_until(), None);
    let outcome = client.withdraw(&mut ask).await.unwrap();
    assert_eq!(outcome, WithdrawOutcome::Left(LeftHow::Withdrawn));
    let withdraws = node.withdraws();
    assert_eq!(withdraws[0], withdraws[1]);
}

#[tokio::test]
async fn acquires_that_are_dropped_at_any_moment_leave_nothing_behind() {
    // The kind of redisson#7272: an interrupt between grant and renewal left a lock for ever.
    let node = Fake::start(|call, before| match (call, before % 4) {
        ("acquire", 0) => Act::InLine,
        ("acquire", 1) if before % 100 == 1 => Act::Break,
        ("withdraw", 2) => Act::Granted,
        _ => Act::Answer,
    })
    .await;
    let client = Client::connect([&node.address], Options::default()).unwrap();
    granted(&client).await;
    let tasks = || {
        tokio::runtime::Handle::current()
            .metrics()
            .num_alive_tasks()
    };
    let at_rest = tasks();
    let mut dice = StdRng::seed_from_u64(7_272);
    let mut calls = JoinSet::new();
    for number in 0..5_000 {
        let client = client.clone();
        let patience = dice.random_range(0..200);
        calls.spawn(async move {
            let wait = if number % 2 == 0 {
                HOUR
            } else {
                Duration::ZERO
            };
            let mut ask = in_line(&client, wait);
            let mut call = std::pin::pin!(client.acquire_with(&mut ask));
            for _ in 0..patience {
                tokio::select! {
                    biased;
                    outcome = &mut call => return outcome.is_ok(),
                    () = tokio::task::yield_now() => {}
                }
            }
            false
        });
        if number % 64 == 0 {
            tokio::task::yield_now().await;
        }
    }
    let mut came_out = 0;
    while let Some(call) = calls.join_next().await {
        came_out += usize::from(call.unwrap());
    }
    assert!(came_out > 0 && came_out < 5_000, "{came_out} came out");
    settled(&client).await;
    let withdraws = node.withdraws();
    let taken_back: BTreeSet<_> = withdraws.iter().map(|one| &one.request_id).collect();
    assert!(!taken_back.is_empty() && taken_back.len() <= 5_000 - came_out);
    until("no task is left", || tasks() <= at_rest).await;
}
