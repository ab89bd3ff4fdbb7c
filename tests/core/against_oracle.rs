//! Random commands: the core and the oracle agree on every outcome, event and view; and a state
//! comes out the same whether it was applied through, replayed from the log's bytes, or restored from
//! a snapshot at any point.

use fencepost::issuer::{Machine, decode_command};

use crate::dice::Dice;
use crate::play::{BOUNDS, Carried, Core, Entry, Seen, play, through_snapshot};
use crate::scene::machine_within;

/// `FENCEPOST_SEED` replays one seed; `FENCEPOST_SEEDS` plays more of them than CI does.
pub(crate) fn seeds(usual: u64) -> std::ops::Range<u64> {
    let number = |name| {
        std::env::var(name)
            .ok()
            .map(|text| text.parse::<u64>().unwrap())
    };
    match number("FENCEPOST_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("FENCEPOST_SEEDS").unwrap_or(usual),
    }
}

#[test]
fn random_commands_come_out_as_the_oracle_says_also_through_snapshots_and_replays() {
    let seeds = seeds(700);
    println!("seeds {seeds:?}, 500 entries each; FENCEPOST_SEED=n replays one");
    let mut seen = Seen::default();
    for seed in seeds.clone() {
        let log = play::<Core>(seed, 500, &mut seen).unwrap_or_else(|what| panic!("{what}"));
        replays_alike(seed, &log);
    }
    println!("{} commands, {} cuts", seen.commands, seen.cuts);
    seen.words
        .iter()
        .for_each(|(word, times)| println!("{times:>8} {word}"));
    if seeds.end - seeds.start < 700 {
        return;
    }
    // A run that met too little proves too little.
    assert!(seen.commands >= 300_000, "only {} commands", seen.commands);
    for word in [
        "outcome granted",
        "outcome held",
        "outcome ended",
        "outcome too_old",
        "outcome parameters_differ",
        "outcome too_many_grants",
        "outcome released",
        "outcome unknown",
        "outcome revoked",
        "outcome other_resource",
        "outcome queued",
        "outcome left",
        "outcome too_many_waiters",
        "outcome too_many_grants_of_holder",
        "promotion granted",
        "promotion nothing",
        "withdrawal left",
        "withdrawal granted",
        "withdrawal ended",
        "withdrawal refused",
        "withdrawal marked",
        "withdrawal stale",
        "withdrawal unknown",
        "admission admitted",
        "admission stale",
        "admission ahead",
        "admission too_many_marks",
        "event admitted",
        "event queued",
        "event left",
        "outcome raised",
        "outcome beyond_clock",
        "renewal renewed",
        "renewal ended",
        "renewal unknown",
        "event granted",
        "event renewed",
        "event released",
        "event expired",
        "event revoked",
        "event superseded",
        "event floor_raised",
    ] {
        let times = seen.words.get(word).copied().unwrap_or_default();
        assert!(times >= 500, "{word}: only {times} times");
    }
}

/// Replays a log from its bytes: from the start, and from a snapshot somewhere in the middle.
fn replays_alike(seed: u64, log: &[Entry]) {
    let cut = usize::try_from(Dice::new(seed ^ 0xcafe).below(log.len() as u64)).unwrap();
    let mut whole = machine_within(BOUNDS);
    let mut from_cut = None;
    for (place, entry) in log.iter().enumerate() {
        replay(seed, &mut whole, entry);
        if let Some(machine) = &mut from_cut {
            replay(seed, machine, entry);
        }
        if place == cut {
            from_cut = Some(through_snapshot(&whole));
        }
    }
    let from_cut = from_cut.unwrap();
    assert_eq!(
        whole.digest(),
        from_cut.digest(),
        "seed {seed}, cut after entry {cut}"
    );
}

pub(crate) fn replay(seed: u64, machine: &mut Machine, entry: &Entry) {
    let applied = match &entry.carried {
        Carried::Blank => {
            machine.apply_blank(entry.at).unwrap();
            None
        }
        Carried::Members(members) => {
            machine.apply_members(entry.at, members).unwrap();
            None
        }
        Carried::Command(bytes) => Some(
            machine
                .apply(entry.at, &decode_command(bytes).unwrap())
                .unwrap(),
        ),
    };
    assert_eq!(applied, entry.applied, "seed {seed}, entry {}", entry.at);
    assert_eq!(
        machine.chain(),
        entry.chain,
        "seed {seed}, entry {}",
        entry.at
    );
}
