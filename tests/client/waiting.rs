//! Standing in line: through lost connections, elections and half-open cables, under one request id.

use crate::cable::Cable;
use crate::fake::{Act, Fake, client};
use crate::{PLENTY, SHORT, in_line, until};
use fencepost::client::{AcquireOutcome, Acquired, Ask, Cause, Client, ErrorKind};
use fencepost::grant::LeftHow;
use fencepost::wire::failure::{Failure, Reason};
use fencepost::wire::v1;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

const HOUR: Duration = Duration::from_secs(3_600);

async fn granted(client: &Client, ask: &mut Ask) -> Acquired {
    let waited = tokio::time::timeout(PLENTY, client.acquire_with(ask)).await;
    match waited.unwrap().unwrap() {
        AcquireOutcome::Granted(acquired) => acquired,
        other => panic!("expected a grant, got {other:?}"),
    }
}

/// A node that answers the first acquires like this, and the others with a grant out of the line.
async fn node(acts: impl Fn(usize) -> Option<Act> + Send + Sync + 'static) -> Fake {
    Fake::start(move |call, before| match call {
        "acquire" => acts(before).unwrap_or(Act::Granted),
        _ => Act::Answer,
    })
    .await
}

fn no_leader() -> Act {
    Act::Fail(Failure::new(Reason::NoLeader, "cut off from the leader"))
}

/// All copies of one asking: what they share, and their rising attempts.
fn copies_of_one(sends: &[v1::AcquireRequest]) {
    for (send, attempt) in sends.iter().zip(1..) {
        let expected = v1::AcquireRequest {
            attempt,
            ..sends[0].clone()
        };
        assert_eq!(send, &expected);
    }
}

#[tokio::test]
async fn a_grant_out_of_the_line_claims_nothing_until_it_is_renewed() {
    let node = node(|_| None).await;
    let client = client(&[&node.address], PLENTY);
    let mut ask = in_line(&client, HOUR);
    let acquired = granted(&client, &mut ask).await;
    assert!(acquired.after_wait);
    assert_eq!(acquired.safe_until(), None);
    assert_eq!(node.acquires()[0].wait_ms, 3_600_000);
}

#[tokio::test]
async fn whoever_waits_comes_back_with_the_same_id_and_an_unchanged_wait() {
    let node = node(|before| match before {
        0 => Some(Act::Break),
        1..4 => Some(no_leader()),
        _ => None,
    })
    .await;
    let client = client(&[&node.address], PLENTY);
    let mut ask = in_line(&client, Duration::from_micros(59_999_999));
    granted(&client, &mut ask).await;
    let sends = node.acquires();
    assert_eq!((sends.len(), sends[0].wait_ms), (5, 60_000));
    copies_of_one(&sends);
}

#[tokio::test]
async fn a_wait_is_as_patient_as_it_was_asked_to_be() {
    // Its node says nothing for much longer than an attempt may take otherwise.
    let said = Arc::new(Notify::new());
    let later = Arc::clone(&said);
    let node = node(move |_| Some(Act::Once(Arc::clone(&later), Box::new(Act::Granted)))).await;
    let client = client(&[&node.address], PLENTY);
    let waiting = tokio::spawn({
        let client = client.clone();
        async move {
            let mut ask = in_line(&client, HOUR);
            granted(&client, &mut ask).await
        }
    });
    until("it stands in line", || node.count("acquire") == 1).await;
    let mut looks = 0;
    while looks < 75 {
        client.inspect(&"jobs".parse().unwrap()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
        looks += 1;
    }
    said.notify_one();
    waiting.await.unwrap();
    assert_eq!((client.resends(), node.count("acquire")), (0, 1));
}

#[tokio::test]
async fn whoever_waits_at_a_member_that_is_cut_off_goes_to_another() {
    // The kind of etcd#8308: the answers of the member go on naming itself as the leader.
    let cut_off = node(|_| Some(no_leader())).await;
    let sound = node(|_| None).await;
    sound.become_(|node| node.leader.clone_from(&cut_off.address));
    for _ in 0..4 {
        let client = client(&[&cut_off.address, &sound.address], PLENTY);
        let mut ask = in_line(&client, HOUR);
        granted(&client, &mut ask).await;
        assert!(client.resends() <= 1);
    }
    assert_eq!(sound.count("acquire"), 4);
}

#[tokio::test]
async fn a_half_open_connection_is_left_in_time_to_keep_the_place() {
    let first = node(|_| Some(Act::InLine)).await;
    let second = node(|_| None).await;
    let cable = Cable::to(first.address.clone()).await;
    first.become_(|node| node.leader.clone_from(&cable.address));
    second.become_(|node| node.leader.clear());
    let client = client(&[&cable.address], PLENTY);
    let mut ask = in_line(&client, HOUR);
    let wait = async {
        until("it stands in line", || first.count("acquire") == 1).await;
        // The way to another node is known from an answer, and this one goes dead without a word.
        first.become_(|node| node.leader.clone_from(&second.address));
        client.inspect(&"jobs".parse().unwrap()).await.unwrap();
        cable.cut();
    };
    let (acquired, ()) = tokio::join!(granted(&client, &mut ask), wait);
    assert!(acquired.after_wait);
    let sends = [first.acquires(), second.acquires()].concat();
    assert_eq!(sends.len(), 2);
    copies_of_one(&sends);
}

#[tokio::test]
async fn the_deadline_counts_from_the_first_send_and_never_from_a_later_one() {
    // The resource was free, and the grant is no replay: the first copy never reached a leader.
    let said = Arc::new(Notify::new());
    let later = Arc::clone(&said);
    let node = node(move |before| match before {
        0 => Some(Act::Once(Arc::clone(&later), Box::new(Act::Break))),
        _ => Some(Act::Answer),
    })
    .await;
    let client = client(&[&node.address], PLENTY);
    let mut ask = in_line(&client, HOUR);
    let retried = async {
        until("the first copy arrives", || node.count("acquire") == 1).await;
        let first_send_was_before = client.now();
        tokio::time::sleep(Duration::from_millis(50)).await;
        said.notify_one();
        first_send_was_before
    };
    let (acquired, first_send_was_before) = tokio::join!(granted(&client, &mut ask), retried);
    assert_eq!(node.count("acquire"), 2);
    let safe_until = acquired.safe_until().unwrap();
    assert!(safe_until <= first_send_was_before.plus(acquired.lease));
}

#[tokio::test]
async fn a_place_that_was_lost_is_told_and_not_taken_up_in_silence() {
    for how in [
        LeftHow::Detached,
        LeftHow::WaitedOut,
        LeftHow::Superseded,
        LeftHow::Withdrawn,
    ] {
        let node = node(move |before| (before == 0).then(|| Act::Left(how.into()))).await;
        let client = client(&[&node.address], PLENTY);
        let mut ask = in_line(&client, HOUR);
        let outcome = client.acquire_with(&mut ask).await.unwrap();
        assert_eq!(outcome, AcquireOutcome::Left(how));
        assert_eq!(node.count("acquire"), 1);

        // Asking again is another request, which waits as long as the first one did.
        granted(&client, &mut ask).await;
        let sends = node.acquires();
        assert_ne!(sends[0].request_id, sends[1].request_id);
        assert_eq!((sends[1].attempt, sends[1].wait_ms), (1, 3_600_000));
    }
}

#[tokio::test]
async fn a_refusal_by_a_limit_spends_the_id() {
    let node = node(|before| {
        let full = || Failure::new(Reason::Limit, "8,192 wait for it already");
        (before == 0).then(|| Act::Fail(full()))
    })
    .await;
    let client = client(&[&node.address], PLENTY);
    let mut ask = in_line(&client, HOUR);
    let error = client.acquire_with(&mut ask).await.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::Exhausted);
    assert!(!error.can_have_had_effect());
    assert!(error.to_string().contains("8,192 wait"), "{error}");
    granted(&client, &mut ask).await;
    let sends = node.acquires();
    assert_ne!(sends[0].request_id, sends[1].request_id);
}

#[tokio::test]
async fn a_forgotten_id_is_replaced_for_the_rest_of_the_wait() {
    let node = node(|before| {
        let too_old = || Failure::new(Reason::TooOld, "older than memory");
        (before == 0).then(|| Act::Fail(too_old()))
    })
    .await;
    let client = client(&[&node.address], PLENTY);
    let mut ask = in_line(&client, HOUR);
    granted(&client, &mut ask).await;
    let sends = node.acquires();
    assert_ne!(sends[0].request_id, sends[1].request_id);
    let rest = ask.sent_wait();
    assert!(rest > Duration::from_secs(3_500) && rest <= HOUR + HOUR / 256);
}

#[tokio::test]
async fn a_wait_without_a_quorum_ends_with_what_is_known() {
    // The kind of tsoracle#417.
    let node = node(|_| {
        let failure = Failure::new(Reason::NoLeader, "no leader is known");
        Some(Act::Fail(failure.leader(Some("127.0.0.1:9".to_owned()))))
    })
    .await;
    let client = client(&[&node.address], Duration::from_secs(1));
    let mut ask = in_line(&client, SHORT);
    let begin = client.now();
    let error = client.acquire_with(&mut ask).await.unwrap_err();
    assert!(
        client.now().since(begin) >= SHORT,
        "it goes on for as long as the wait lasts"
    );
    assert_eq!(error.kind(), &ErrorKind::Unavailable);
    assert!(!error.can_have_had_effect() && error.attempts() > 2);
    assert!(matches!(
        error.last_cause(),
        Some(Cause::Told { .. } | Cause::Unreachable { .. })
    ));
    assert!(error.to_string().contains("leader"), "{error}");
}
