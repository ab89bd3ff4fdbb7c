//! Snapshots: the whole state, whatever its size, or a refusal; never a part of it.

use std::io::Read;

use fencepost::issuer::{AdmitOutcome, Machine, SnapshotError};

use crate::dice::Dice;
use crate::play::{BOUNDS, Core, Seen, play};
use crate::scene::{Scene, acquire, machine, machine_with, machine_within, waiting};

/// A state with something of everything.
fn scene() -> Scene {
    let mut scene = Scene::of(machine_with(14, 20));
    for number in 0..12 {
        let token = scene
            .granted(acquire(&format!("r{number}"), "anna", "a"))
            .value();
        match number % 4 {
            0 => drop(scene.release(token)),
            1 => drop(scene.renew(token)),
            2 => drop(scene.ask(acquire(&format!("r{number}"), "ben", "b"))),
            _ => {}
        }
    }
    for (resource, holder) in [("r1", "ben"), ("r1", "cleo"), ("r3", "ben"), ("r5", "ben")] {
        scene.ask(waiting(acquire(resource, holder, "waits")));
    }
    // One place is given up, one request is withdrawn before it came and one comes after all.
    scene.withdraw(&[acquire("r1", "ben", "waits").request], 1);
    scene.withdraw(&[acquire("r6", "dora", "never").request], 3);
    scene.withdraw(&[acquire("r6", "dora", "later").request], 0);
    scene.ask(waiting(acquire("r6", "dora", "later")));
    // Two end in one entry, so that a queue is left without a grant.
    scene.pass(60_000);
    let due = scene.replica.due(scene.now, 20);
    assert!(scene.expire(due) > 1);
    assert!(!scene.machine().promotable(9).is_empty());
    // A grant that nobody has claimed.
    scene.promote("r5");
    // Marks, one of them for what has no grant.
    let last = scene.machine().last_token().unwrap();
    for name in ["r1", "r5", "nowhere"] {
        assert_eq!(scene.admit(name, last), AdmitOutcome::Admitted);
    }
    scene
}

#[test]
fn a_snapshot_that_was_cut_anywhere_is_refused() {
    let bytes = scene().machine().snapshot().concat();
    for length in 0..bytes.len() {
        assert!(
            Machine::read_snapshot(&bytes[..length]).is_err(),
            "the first {length} bytes"
        );
    }
    let longer = [&bytes[..], &[0]].concat();
    assert!(Machine::read_snapshot(&longer[..]).is_err());
}

#[test]
fn a_snapshot_with_any_bit_flipped_is_refused() {
    let bytes = scene().machine().snapshot().concat();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[at] ^= 1 << bit;
            assert!(
                Machine::read_snapshot(&flipped[..]).is_err(),
                "byte {at}, bit {bit}"
            );
        }
    }
}

#[test]
fn a_refused_snapshot_leaves_the_state_as_it_was() {
    let mut scene = scene();
    let before = (scene.machine().digest(), scene.replica.clock().len());
    let mut bytes = machine().snapshot().concat();
    bytes[20] ^= 1;
    scene.replica.install(&bytes[..], scene.now).unwrap_err();
    assert_eq!(
        (scene.machine().digest(), scene.replica.clock().len()),
        before
    );
}

#[test]
fn a_reader_that_fails_is_told_apart_from_a_snapshot_that_is_damaged() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("no such luck"))
        }
    }
    assert!(matches!(
        Machine::read_snapshot(Broken),
        Err(SnapshotError::Io(_))
    ));
    assert!(matches!(
        Machine::read_snapshot(&b""[..]),
        Err(SnapshotError::Decode(_))
    ));
}

#[test]
fn arbitrary_bytes_are_refused_and_never_panic() {
    let good = scene().machine().snapshot().concat();
    for seed in 0..20_000 {
        let mut dice = Dice::new(seed);
        let mut bytes = if dice.one_in(2) {
            good.clone()
        } else {
            Vec::new()
        };
        for _ in 0..1 + dice.below(20) {
            let at = usize::try_from(dice.below(bytes.len() as u64 + 1)).unwrap();
            bytes.insert(at, dice.next().to_le_bytes()[0]);
        }
        assert!(Machine::read_snapshot(&bytes[..]).is_err(), "seed {seed}");
    }
}

#[test]
fn equal_states_have_equal_digests_and_a_digest_is_that_of_the_snapshot() {
    let mut one = Vec::new();
    let scene = scene();
    let written = scene.machine().write_snapshot(&mut one).unwrap();
    assert_eq!(written, scene.machine().digest());
    let restored = Machine::read_snapshot(&one[..]).unwrap();
    assert_eq!(restored.digest(), written);
    let mut other = scene;
    other.new_term();
    assert_ne!(other.machine().digest(), written);
}

#[test]
fn a_state_of_two_hundred_thousand_grants_comes_in_chunks_and_goes_through() {
    let mut scene = Scene::new();
    let tail = "x".repeat(140);
    for number in 0..200_000 {
        let holder = format!("somebody {}", number % 3);
        scene.granted(acquire(&format!("{number:06}-{tail}"), &holder, "a"));
    }
    let chunks = scene.machine().snapshot();
    assert!(chunks.iter().all(|chunk| chunk.len() < 70_000));
    let bytes = chunks.concat();
    println!("{} MiB in {} chunks", bytes.len() >> 20, chunks.len());
    assert!(bytes.len() > 32 << 20);
    let before = scene.machine().chain();
    let restored = Machine::read_snapshot(&bytes[..]).unwrap();
    assert_eq!(restored.chain(), before);
    assert_eq!(restored.live_grants(), 200_000);
    assert_eq!(restored.digest(), scene.machine().digest());
}

#[test]
fn snapshots_after_random_commands_are_refused_when_anything_in_them_is_changed() {
    let mut seen = Seen::default();
    for seed in 0..20 {
        let log = play::<Core>(seed, 300, &mut seen).unwrap();
        let mut machine = machine_within(BOUNDS);
        for entry in &log {
            crate::against_oracle::replay(seed, &mut machine, entry);
        }
        let bytes = machine.snapshot().concat();
        let mut dice = Dice::new(seed);
        for _ in 0..200 {
            let mut changed = bytes.clone();
            let at = usize::try_from(dice.below(bytes.len() as u64)).unwrap();
            changed[at] = changed[at].wrapping_add(1 + dice.next().to_le_bytes()[0] % 255);
            assert!(
                Machine::read_snapshot(&changed[..]).is_err(),
                "seed {seed}, byte {at}"
            );
        }
    }
}
