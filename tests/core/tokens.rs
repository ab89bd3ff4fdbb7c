//! Tokens: strictly increasing, one for each grant, and none rather than a doubtful one.

use fencepost::issuer::{Broken, Command, InstanceId, LogId, RaiseFloor};
use fencepost::token::TokenValue;

use crate::scene::{STAMP_MS, Scene, acquire, machine, token};

#[test]
fn twenty_grants_with_a_forced_expiry_between_each_are_strictly_increasing() {
    let mut scene = Scene::new();
    let mut tokens = Vec::new();
    for round in 0..20 {
        let holder = if round % 2 == 0 { "anna" } else { "ben" };
        tokens.push(scene.granted(acquire("printer", holder, &round.to_string())));
        scene.pass(30_061);
        assert_eq!(scene.expire_due(), 1);
        if round % 5 == 0 {
            scene.new_term();
        }
        if round % 7 == 0 {
            scene.restart();
        }
    }
    assert!(tokens.is_sorted_by(|one, next| one < next), "{tokens:?}");
}

#[test]
fn a_lease_survives_a_restart_and_the_next_grant_after_it_has_a_higher_token() {
    let mut scene = Scene::new();
    let annas = scene.granted(acquire("printer", "anna", "a"));
    scene.restart();
    scene.new_term();
    let refused = scene.ask(acquire("printer", "ben", "b"));
    assert_eq!(refused.name(), "held");
    scene.pass(30_061);
    assert_eq!(scene.expire_due(), 1);
    let bens = scene.granted(acquire("printer", "ben", "c"));
    assert!(bens > annas);
}

#[test]
fn a_token_is_the_sum_of_floor_term_and_index_with_its_entry_as_evidence() {
    let mut machine = machine();
    machine.apply_blank(LogId::new(3, 1)).unwrap();
    let raise = RaiseFloor {
        above: 1_000_000,
        stamped_at_us: 2_000_000,
    };
    machine
        .apply(LogId::new(3, 2), &Command::RaiseFloor(raise))
        .unwrap();
    let floor = 1_000_000 - (3 * 65_536 + 2);
    assert_eq!(machine.floor(), floor);
    let at = LogId::new(5, 3);
    machine
        .apply(at, &Command::Acquire(acquire("printer", "anna", "a")))
        .unwrap();
    let granted = machine.grants().next().unwrap().token;
    assert_eq!(granted.value().get(), floor + 5 * 65_536 + 3);
    assert_eq!((granted.term(), granted.index()), (5, 3));
}

#[test]
fn an_entry_that_is_not_the_next_one_breaks() {
    let mut machine = machine();
    machine.apply_blank(LogId::new(2, 1)).unwrap();
    let last = machine.applied();
    let acquire = Command::Acquire(acquire("printer", "anna", "a"));
    for next in [
        LogId::new(2, 1),
        LogId::new(2, 3),
        LogId::new(1, 2),
        LogId::new(3, 0),
        LogId::new(u64::MAX, u64::MAX),
    ] {
        let broken = Err(Broken::NotNext { last, next });
        assert_eq!(
            machine.apply(next, &acquire),
            broken.clone().map(|()| unreachable!())
        );
        assert_eq!(machine.apply_blank(next), broken.clone());
        assert_eq!(
            machine.apply_members(next, &[(1, InstanceId::new(1))]),
            broken
        );
    }
    assert_eq!(machine.applied(), last);
    assert_eq!(machine.live_grants(), 0);
    machine.apply(LogId::new(2, 2), &acquire).unwrap();
}

#[test]
fn a_token_that_would_not_fit_breaks_before_anything_changes() {
    let mut machine = machine();
    let acquire = Command::Acquire(acquire("printer", "anna", "a"));
    // The term alone is worth more than a BIGINT; it even passes 64 bits.
    for term in [1 << 47, 1 << 48, u64::MAX] {
        let at = LogId::new(term, 1);
        let broken = Broken::TokenSpaceExhausted { at, floor: 0 };
        assert_eq!(machine.apply(at, &acquire), Err(broken));
    }
    assert_eq!((machine.live_grants(), machine.known_request_ids()), (0, 0));
    let highest = LogId::new((1 << 47) - 1, 1);
    machine.apply(highest, &acquire).unwrap();
    assert!(machine.last_token().unwrap() < TokenValue::new(i64::MAX as u64).unwrap());
}

#[test]
fn a_superseding_grant_that_breaks_leaves_the_old_grant() {
    let mut machine = machine();
    machine
        .apply(
            LogId::new(1, 1),
            &Command::Acquire(acquire("printer", "anna", "a")),
        )
        .unwrap();
    let again = Command::Acquire(acquire("printer", "anna", "b"));
    machine.apply(LogId::new(u64::MAX, 2), &again).unwrap_err();
    assert_eq!(machine.live_grants(), 1);
    assert_eq!(machine.how_ended(token(65_537)), None);
}

#[test]
fn a_token_stays_below_two_to_the_53_in_the_year_2255_after_a_restore() {
    // Floors are microseconds; 285 years of them, and a hundred thousand elections on top.
    let year_2255_us: u64 = 285 * 31_556_952 * 1_000_000;
    assert!(year_2255_us + 100_000 * 65_536 < 1 << 53);
}

#[test]
fn stamps_at_the_end_of_time_decide_nothing_and_do_not_overflow() {
    let mut scene = Scene::new();
    let mut late = acquire("printer", "anna", "a");
    late.stamped_at_ms = u64::MAX;
    let first = scene.granted(late);
    let mut early = acquire("printer", "anna", "b");
    early.stamped_at_ms = 0;
    assert!(scene.granted(early) > first);
    let grant = scene.machine().grants().next().unwrap();
    assert!(grant.expires_at_ms < STAMP_MS);
}
