//! The cluster's own guard register, from the side of a guard: its verdicts, and what may be sent again.

use crate::fake::{Act, Fake, client};
use crate::{PLENTY, SHORT, until};
use fencepost::client::{AdmitOutcome, Client, ErrorKind, RegisterError, ReportOutcome};
use fencepost::fence::watched::{Mode, Watch, Watched};
use fencepost::fence::{EqualTokens, Foreign, Guard, Rules, Verdict, memory::MemoryGuard};
use fencepost::sequencer::Sequencer;
use fencepost::token::TokenValue;
use fencepost::wire::failure::{Failure, Reason};
use std::sync::Arc;
use tonic::Status;

fn sequencer(issuer: &str, token: u64) -> Sequencer {
    Sequencer {
        issuer: issuer.parse().unwrap(),
        resource: "door".parse().unwrap(),
        token: TokenValue::new(token).unwrap(),
    }
}

fn token(value: u64) -> TokenValue {
    TokenValue::new(value).unwrap()
}

async fn guarded_by(node: &Fake) -> Client {
    client(&[&node.address], PLENTY)
}

#[tokio::test]
async fn the_register_is_a_guard_like_any_other() {
    let node = Fake::start(|_, _| Act::Answer).await;
    let register = guarded_by(&node).await.register(EqualTokens::MayWriteAgain);
    let said = register.admit(&sequencer("test", 12)).await.unwrap();
    assert_eq!(said, Verdict::Admitted);
    let said = register.admit(&sequencer("elsewhere", 12)).await.unwrap();
    let foreign = Foreign::Issuer {
        presented: "elsewhere".parse().unwrap(),
        expected: "test".parse().unwrap(),
    };
    assert_eq!(said, Verdict::Foreign(foreign));
    let mark = register.high_water(&"door".parse().unwrap()).await.unwrap();
    let mark = mark.unwrap();
    assert_eq!((mark.issuer.as_str(), mark.token), ("test", token(12)));
}

#[tokio::test]
async fn a_stale_token_is_a_verdict_and_one_that_was_never_issued_an_error() {
    let node = Fake::acting("admit", || Act::Held).await;
    let register = guarded_by(&node).await.register(EqualTokens::Once);
    let said = register.admit(&sequencer("test", 12)).await.unwrap();
    let (presented, required) = (token(12), token(17));
    assert_eq!(
        said,
        Verdict::Stale {
            presented,
            required
        }
    );

    let node = Fake::acting("admit", || Act::Unknown).await;
    let client = guarded_by(&node).await;
    let register = client.register(EqualTokens::MayWriteAgain);
    let error = register.admit(&sequencer("test", 12)).await.unwrap_err();
    let RegisterError::Ahead(ahead) = &error else {
        panic!("{error:?}")
    };
    assert_eq!(ahead.last_token, Some(token(7)));
    assert_eq!(
        error.to_string(),
        "token 12 was never issued (the last one was 7): do something about it"
    );
    let said = client
        .admit(&sequencer("test", 12), EqualTokens::Once)
        .await;
    assert_eq!(said.unwrap(), AdmitOutcome::Ahead(ahead.clone()));
}

#[tokio::test]
async fn a_lost_answer_is_asked_for_again_unless_each_token_passes_once() {
    let losing = || {
        Fake::start(|call, before| match (call, before) {
            ("admit", 0) => Act::Foreign(Status::unavailable("a proxy says no")),
            _ => Act::Answer,
        })
    };
    let node = losing().await;
    let guard = guarded_by(&node).await;
    let presented = sequencer("test", 12);
    let again = guard.admit(&presented, EqualTokens::MayWriteAgain).await;
    assert_eq!(again.unwrap(), AdmitOutcome::Admitted);
    assert_eq!(node.count("admit"), 2);

    // The first copy may have used the token up: a second one would be told so, and mislead.
    let node = losing().await;
    let guard = guarded_by(&node).await;
    let once = guard.admit(&sequencer("test", 12), EqualTokens::Once).await;
    let error = once.unwrap_err();
    assert_eq!(error.kind(), &ErrorKind::UnknownOutcome);
    assert!(error.can_have_had_effect());
    assert_eq!(node.count("admit"), 1);
}

#[tokio::test]
async fn a_report_is_answered_and_one_that_fails_had_no_effect() {
    let node = Fake::start(|_, _| Act::Answer).await;
    let said = guarded_by(&node).await.report(&sequencer("test", 12)).await;
    let last_token = Some(token(12));
    assert_eq!(said.unwrap(), ReportOutcome::Fine { last_token });

    let node = Fake::acting("report", || Act::Unknown).await;
    let said = guarded_by(&node).await.report(&sequencer("test", 12)).await;
    assert!(matches!(said.unwrap(), ReportOutcome::Ahead(ahead) if ahead.presented == token(12)));

    let node = Fake::acting("report", || Act::Foreign(Status::unavailable("no"))).await;
    let client = client(&[&node.address], SHORT);
    let error = client.report(&sequencer("test", 12)).await.unwrap_err();
    assert!(!error.can_have_had_effect(), "{error}");
}

#[tokio::test]
async fn a_resource_without_a_mark_has_none() {
    let node = Fake::acting("high_water", || Act::Unknown).await;
    let client = guarded_by(&node).await;
    let mark = client.high_water(&"door".parse().unwrap()).await.unwrap();
    assert_eq!(mark, None);
}

#[tokio::test]
async fn what_a_watched_guard_admits_is_reported_and_the_answer_brought_back() {
    // The first report fails for good, the later ones say that the token was never issued.
    let node = Fake::start(|call, before| match (call, before) {
        ("report", 0) => Act::Fail(Failure::new(Reason::Refused, "not now")),
        ("report", _) => Act::Unknown,
        _ => Act::Answer,
    })
    .await;
    let watch = Arc::new(Watch::new("door", Mode::Enforce));
    let guard = MemoryGuard::new(Rules::default());
    let guard = Watched::new(guard, Arc::clone(&watch));
    let client = guarded_by(&node).await;
    let reporter = {
        let watch = Arc::clone(&watch);
        tokio::spawn(async move { client.report_admitted(&watch).await })
    };
    let said = guard.admit(&sequencer("test", 12)).await.unwrap();
    assert_eq!(said, Verdict::Admitted);
    until("the watch hears of it", || watch.counts().ahead == 1).await;
    assert_eq!(node.count("report"), 2);
    let said = guard.admit(&sequencer("test", 15)).await.unwrap();
    assert_eq!(said, Verdict::Admitted);
    until("the next one is reported too", || watch.counts().ahead == 2).await;
    assert!(!reporter.is_finished());
    reporter.abort();
}
