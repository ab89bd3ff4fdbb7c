//! Leases and queues in a world of differing clocks, late proposals, old copies and changing leaders:
//! never ended before the holder's own deadline, and in calm weather not late either; queues are
//! served in order; a request is granted once at most, and never after it was refused or withdrawn;
//! tokens rise; replicas agree.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::against_oracle::seeds;
use crate::world::{Bug, Weather, World};

const STEPS: u64 = 4_000;

/// What a check says in each world of `seeds` in which one fires.
fn fired(seeds: Range<u64>, bug: Bug, weather: Weather) -> Vec<String> {
    let mut fired = Vec::new();
    let mut seen = BTreeMap::new();
    for seed in seeds.clone() {
        let mut world = World::new(seed, bug, weather);
        if let Err(what) = world.run(STEPS) {
            fired.push(format!("seed {seed}: {what}"));
        }
        for (what, times) in world.seen() {
            *seen.entry(*what).or_insert(0) += times;
        }
    }
    println!("{bug:?}, {weather:?}, seeds {seeds:?}: {fired:#?}, {seen:#?}");
    if bug == Bug::None {
        interesting(seeds.end - seeds.start, weather, &seen);
    }
    fired
}

/// A bug makes the check that is for it fire, in at least so many of twenty worlds.
fn noticed(bug: Bug, weather: Weather, by: &str, least: usize) {
    let fired = fired(0..20, bug, weather);
    let by_it = fired.iter().filter(|what| what.contains(by)).count();
    assert!(by_it >= least, "{by} fired in {by_it} worlds only");
}

/// A world in which too little happens proves too little. A few worlds by themselves may.
fn interesting(seeds: u64, weather: Weather, seen: &BTreeMap<&'static str, u64>) {
    if seeds < 100 {
        return;
    }
    let rough = ["late copy", "marked", "too old"];
    let always = [
        "expired",
        "released",
        "superseded",
        "queued",
        "came back",
        "granted after waiting",
        "promoted",
        "withdrawn",
        "waited out",
        "place superseded",
        "detached",
    ];
    let rough = rough.into_iter().filter(|_| weather == Weather::Rough);
    for what in rough.chain(always) {
        let times = seen.get(what).copied().unwrap_or_default();
        assert!(times > seeds / 4, "{what}: only {times} times");
    }
}

#[test]
fn in_rough_weather_nothing_ends_early_and_no_queue_is_jumped() {
    assert_eq!(
        fired(seeds(150), Bug::None, Weather::Rough),
        Vec::<String>::new()
    );
}

#[test]
fn when_leaders_change_all_the_time_nothing_is_early_or_late() {
    assert_eq!(
        fired(seeds(150), Bug::None, Weather::Calm),
        Vec::<String>::new()
    );
}

#[test]
fn an_expiry_that_ignores_renewals_ends_leases_early() {
    noticed(Bug::ExpireIgnoresRenewals, Weather::Rough, "NO-EARLY", 12);
}

#[test]
fn an_expiry_that_names_the_current_number_of_renewals_ends_leases_early() {
    let bug = Bug::ExpireNamesTheCurrentRenewals;
    noticed(bug, Weather::Rough, "NO-EARLY", 6);
}

#[test]
fn a_clock_that_runs_faster_than_agreed_ends_leases_early() {
    noticed(Bug::FastClock, Weather::Calm, "NO-EARLY", 12);
}

#[test]
fn elections_that_restart_leases_end_them_late() {
    noticed(Bug::ElectionRestartsLeases, Weather::Calm, "NO-LATE", 10);
}

#[test]
fn waiters_that_are_granted_although_they_are_gone_are_noticed() {
    // By the grant itself, or before by the next who comes, and stands behind a place that is gone.
    noticed(Bug::GoneIsGranted, Weather::Rough, "", 18);
    noticed(Bug::GoneIsGranted, Weather::Rough, "HONEST", 1);
}

#[test]
fn a_queue_that_a_leader_change_reverses_is_noticed() {
    noticed(Bug::ElectionReversesQueues, Weather::Calm, "FIFO", 12);
}

#[test]
fn a_stale_withdrawal_that_ends_a_live_place_is_noticed() {
    noticed(Bug::StaleWithdrawActs, Weather::Rough, "FAIR", 12);
}

#[test]
fn a_withdrawal_that_ends_a_grant_is_noticed() {
    noticed(Bug::WithdrawEndsGrants, Weather::Rough, "WITHDRAW", 12);
}

#[test]
fn queues_that_nobody_promotes_are_noticed() {
    noticed(Bug::NobodyPromotes, Weather::Calm, "has a queue", 5);
}
