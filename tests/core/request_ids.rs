//! What the memory of request ids promises at its full size, and for sends that come out of order.

use fencepost::grant::{AskedAt, EndedHow};
use fencepost::issuer::{AcquireOutcome, ReleaseOutcome, RenewOutcome};
use fencepost::limits::REQUEST_IDS_SETTLED_MAX;

use crate::scene::{Scene, acquire, cluster, ttl};

#[test]
fn a_settled_id_is_known_until_exactly_as_many_later_ids_have_settled_as_the_limit_says() {
    let mut scene = Scene::new();
    let first = scene.granted(acquire("r", "anna", "first"));
    scene.release(first.value());
    let kept = u64::from(REQUEST_IDS_SETTLED_MAX);
    for later in 1..kept {
        let token = scene.granted(acquire("r", "anna", &format!("later {later}")));
        scene.release(token.value());
    }
    let ended = AcquireOutcome::Ended {
        token: first,
        how: EndedHow::Released,
    };
    assert_eq!(scene.ask(acquire("r", "anna", "first")), ended);
    assert_eq!(scene.release(first.value()), ReleaseOutcome::Released);
    let one_more = scene.granted(acquire("r", "anna", "one more"));
    scene.release(one_more.value());
    assert_eq!(scene.release(first.value()), ReleaseOutcome::Unknown);
    assert_eq!(scene.renew(first.value()), RenewOutcome::Unknown);
    let mut copy = acquire("r", "anna", "first");
    copy.asked_at = Some(AskedAt {
        cluster: cluster(),
        applied: 0,
    });
    assert_eq!(scene.ask(copy), AcquireOutcome::TooOld);
    assert_eq!(
        scene.machine().known_request_ids(),
        REQUEST_IDS_SETTLED_MAX as usize
    );
}

#[test]
fn an_id_whose_grant_lives_is_never_forgotten() {
    let mut scene = Scene::of(crate::scene::machine_with(3, 10));
    let annas = scene.granted(acquire("printer", "anna", "a"));
    for later in 0..50 {
        let token = scene.granted(acquire("r", "ben", &later.to_string()));
        scene.release(token.value());
    }
    let replayed = scene.ask(acquire("printer", "anna", "a"));
    let lease = ttl(30_000);
    assert_eq!(
        replayed,
        AcquireOutcome::Granted {
            token: annas,
            lease,
            replayed: true,
            after_wait: false
        }
    );
}

#[test]
fn a_long_held_grant_that_is_forgotten_late_makes_no_recent_asker_too_old() {
    // The mark is the index at which an id came, not the one at which it went.
    let mut scene = Scene::of(crate::scene::machine_with(1, 10));
    let long_held = scene.granted(acquire("printer", "anna", "long"));
    for later in 0..5 {
        scene.new_term();
        scene.renew(long_held.value());
        let _ = later;
    }
    let seen = scene.at.index;
    scene.release(long_held.value());
    let token = scene.granted(acquire("r", "ben", "x"));
    scene.release(token.value());
    assert_eq!(
        scene.how_ended(long_held.value()),
        None,
        "it should be forgotten"
    );
    let mut asked = acquire("scanner", "cleo", "y");
    asked.asked_at = Some(AskedAt {
        cluster: cluster(),
        applied: seen,
    });
    assert_eq!(scene.ask(asked).name(), "granted");
}

#[test]
fn a_lower_attempt_that_comes_late_replays_and_moves_nothing() {
    let mut scene = Scene::new();
    let mut second = acquire("printer", "anna", "a");
    second.attempt = 2;
    let token = scene.granted(second);
    let before = scene.machine().digest();
    let first = scene.ask(acquire("printer", "anna", "a"));
    assert!(
        matches!(first, AcquireOutcome::Granted { token: same, replayed: true, .. } if same == token)
    );
    // All that moved is the log position and the chain.
    assert_ne!(scene.machine().digest(), before);
    assert_eq!(scene.machine().known_request_ids(), 1);
    assert_eq!(scene.machine().live_grants(), 1);
}
