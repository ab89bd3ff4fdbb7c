//! The lease clock: never before the holder's own deadline, and quick with very many leases.

use std::time::{Duration, Instant};

use fencepost::issuer::{Command, DueLease, LeaseClock, Renew, Renewal};

use crate::dice::Dice;
use crate::scene::{STAMP_MS, Scene, acquire, token, ttl};

#[test]
fn a_lease_is_due_at_its_ttl_and_two_thousandths_and_not_a_nanosecond_before() {
    let start = Instant::now();
    for ms in [100, 1_000, 30_000, 86_400_000] {
        let mut clock = LeaseClock::new();
        clock.set(token(1), 0, ttl(ms), start);
        let due = start + Duration::from_nanos(ms * 1_002_000);
        assert_eq!(clock.next_deadline(), Some(due));
        assert!(clock.due(due - Duration::from_nanos(1), 9).is_empty());
        assert_eq!(
            clock.due(due, 9),
            [DueLease {
                token: token(1),
                renewals: 0
            }]
        );
        assert_eq!(clock.remaining(token(1), start), Some(due - start));
        assert_eq!(
            clock.remaining(token(1), due + Duration::from_secs(1)),
            Some(Duration::ZERO)
        );
    }
}

#[test]
fn a_holder_whose_clock_runs_a_thousandth_slow_still_stops_first() {
    // In one second of the node the holder counts only 999 ms, and the node's own is as fast as
    // agreed: the holder believes in its lease until TTL / 0.999.
    for ms in [100, 30_000, 86_400_000_u64] {
        let holder_stops_ns = u128::from(ms) * 1_000_000 * 1_000 / 999;
        let mut clock = LeaseClock::new();
        let start = Instant::now();
        clock.set(token(1), 0, ttl(ms), start);
        let due = clock.next_deadline().unwrap() - start;
        assert!(due.as_nanos() > holder_stops_ns);
    }
}

#[test]
fn a_clock_that_seems_to_step_back_panics_nowhere() {
    let mut scene = Scene::new();
    let granted = scene.granted(acquire("printer", "anna", "a")).value();
    let later = scene.now;
    scene.now = later.checked_sub(Duration::from_secs(1)).unwrap();
    scene.renew(granted);
    assert!(scene.replica.due(scene.now, 9).is_empty());
    scene.restart();
    let remaining = scene.replica.clock().remaining(granted, scene.now).unwrap();
    assert_eq!(remaining, Duration::from_micros(30_060_000));
}

#[test]
fn the_clock_agrees_with_a_plain_list_of_deadlines() {
    for seed in 0..200 {
        let mut dice = Dice::new(seed);
        let mut now = Instant::now();
        let mut clock = LeaseClock::new();
        let mut list: Vec<(Instant, u64, u64)> = Vec::new();
        for step in 0..200 {
            let value = 1 + dice.below(12);
            match dice.below(4) {
                0 => now += Duration::from_millis(dice.below(200)),
                1 => {
                    clock.clear(token(value));
                    list.retain(|lease| lease.1 != value);
                }
                _ => {
                    let ms = 100 + dice.below(300);
                    clock.set(token(value), step, ttl(ms), now);
                    list.retain(|lease| lease.1 != value);
                    list.push((now + Duration::from_nanos(ms * 1_002_000), value, step));
                }
            }
            list.sort();
            let due = list.iter().filter(|lease| lease.0 <= now).take(5);
            let due: Vec<_> = due
                .map(|(_, value, renewals)| DueLease {
                    token: token(*value),
                    renewals: *renewals,
                })
                .collect();
            assert_eq!(clock.due(now, 5), due, "seed {seed}, step {step}");
            assert_eq!(clock.len(), list.len());
            assert_eq!(clock.next_deadline(), list.first().map(|lease| lease.0));
        }
    }
}

#[test]
fn a_hundred_thousand_leases_that_are_due_at_once_all_expire() {
    let mut scene = Scene::new();
    for number in 0..100_000 {
        scene.granted(acquire(&format!("r{number}"), "anna", "a"));
    }
    assert_eq!(scene.replica.clock().len(), 100_000);
    scene.pass(30_061);
    let mut ended = 0;
    while scene
        .replica
        .next_deadline()
        .is_some_and(|next| next <= scene.now)
    {
        ended += scene.expire_due();
    }
    assert_eq!(ended, 100_000);
    assert_eq!(scene.machine().live_grants(), 0);
    assert!(scene.replica.clock().is_empty());
}

#[test]
fn every_renewal_restarts_the_lease_with_the_number_that_it_was_computed_for() {
    let mut scene = Scene::new();
    let granted = scene.granted(acquire("printer", "anna", "a")).value();
    for number in 1..=3 {
        scene.pass(10_000);
        let renewals = vec![Renewal {
            token: granted,
            ttl: None,
        }];
        scene.apply(&Command::Renew(Renew {
            renewals,
            stamped_at_ms: STAMP_MS,
        }));
        let left = scene.replica.clock().remaining(granted, scene.now).unwrap();
        assert_eq!(left, Duration::from_micros(30_060_000));
        let due = scene.replica.due(scene.now + left, 1);
        assert_eq!(
            due,
            [DueLease {
                token: granted,
                renewals: number
            }]
        );
    }
}

#[test]
fn what_was_due_when_a_snapshot_came_gets_its_full_ttl_and_keeps_its_number_of_renewals() {
    let mut scene = Scene::new();
    let granted = scene.granted(acquire("printer", "anna", "a")).value();
    scene.renew(granted);
    scene.pass(40_000);
    assert_eq!(scene.replica.due(scene.now, 9).len(), 1);
    scene.restart();
    assert!(scene.replica.due(scene.now, 9).is_empty());
    scene.pass(30_060);
    assert_eq!(
        scene.replica.due(scene.now, 9),
        [DueLease {
            token: granted,
            renewals: 1
        }]
    );
}
