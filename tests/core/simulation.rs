//! Leases in a world of differing clocks, late proposals and changing leaders: never ended before
//! the holder's own deadline, and in calm weather not late either; tokens rise; replicas agree.

use crate::world::{Bug, Weather, World};

const STEPS: u64 = 2_000;

/// How many worlds of `seeds` a check fires in, and what it says first.
fn fired(seeds: u64, bug: Bug, weather: Weather) -> (usize, Option<String>) {
    let mut fired = Vec::new();
    let mut expired = 0;
    for seed in 0..seeds {
        let mut world = World::new(seed, bug, weather);
        if let Err(what) = world.run(STEPS) {
            fired.push(format!("seed {seed}: {what}"));
        }
        expired += world.expired;
    }
    println!(
        "{bug:?}, {weather:?}: {} of {seeds} fired, {expired} expiries",
        fired.len()
    );
    assert!(expired > seeds, "hardly any lease expired: {expired}");
    (fired.len(), fired.into_iter().next())
}

#[test]
fn no_lease_ends_before_its_holders_deadline_in_rough_weather() {
    assert_eq!(fired(200, Bug::None, Weather::Rough), (0, None));
}

#[test]
fn no_lease_ends_early_or_late_when_leaders_change_all_the_time() {
    assert_eq!(fired(200, Bug::None, Weather::Calm), (0, None));
}

#[test]
fn an_expiry_that_ignores_renewals_ends_leases_early() {
    let (times, what) = fired(10, Bug::ExpireIgnoresRenewals, Weather::Rough);
    assert!(times >= 8, "only {times} times");
    assert!(what.unwrap().contains("NO-EARLY"));
}

#[test]
fn an_expiry_that_names_the_current_number_of_renewals_ends_leases_early() {
    let (times, what) = fired(10, Bug::ExpireNamesTheCurrentRenewals, Weather::Rough);
    assert!(times >= 8, "only {times} times");
    assert!(what.unwrap().contains("NO-EARLY"));
}

#[test]
fn a_clock_that_runs_faster_than_agreed_ends_leases_early() {
    let (times, what) = fired(10, Bug::FastClock, Weather::Calm);
    assert!(times >= 5, "only {times} times");
    assert!(what.unwrap().contains("NO-EARLY"));
}

#[test]
fn elections_that_restart_leases_end_them_late() {
    let (times, what) = fired(10, Bug::ElectionRestartsLeases, Weather::Calm);
    assert!(times >= 8, "only {times} times");
    assert!(what.unwrap().contains("NO-LATE"));
}
