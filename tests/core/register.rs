//! The cluster's own guard register: what its marks promise, and what a restore does to them.

use fencepost::issuer::{AdmitOutcome, Machine, SnapshotError, Weighed};

use crate::doctored::restored_to;
use crate::scene::{Scene, acquire, machine_with, resource, token};

#[test]
fn once_a_token_was_admitted_no_lower_one_ever_is() {
    let mut scene = Scene::new();
    let tokens: Vec<_> = (0..6)
        .map(|n| scene.granted(acquire("printer", "anna", &n.to_string())))
        .map(|granted| granted.value())
        .collect();
    let mut highest = None;
    for place in [2, 0, 2, 4, 1, 3, 5, 4, 5] {
        let admitted = scene.admit("printer", tokens[place]) == AdmitOutcome::Admitted;
        assert_eq!(admitted, highest.is_none_or(|highest| place >= highest));
        highest = highest.max(Some(place));
        assert_eq!(
            scene.machine().high_water(&resource("printer")),
            highest.map(|highest| tokens[highest])
        );
        scene.restart();
    }
}

#[test]
fn a_token_at_the_mark_or_below_changes_nothing_but_the_log_position() {
    let mut scene = Scene::new();
    let older = scene.granted(acquire("printer", "anna", "a")).value();
    let newer = scene.granted(acquire("printer", "anna", "b")).value();
    scene.admit("printer", newer);
    let weigh = |scene: &Scene, token| {
        let machine = scene.machine();
        machine.weigh(&resource("printer"), token, false)
    };
    assert_eq!(weigh(&scene, newer), Weighed::Equal);
    assert_eq!(weigh(&scene, older), Weighed::Stale { required: newer });
    for token in [newer, older] {
        let before = scene.machine().snapshot().concat();
        scene.admit("printer", token);
        // The head has the log position and the chain; nothing behind it moved.
        let after = scene.machine().snapshot().concat();
        let records = |bytes: &[u8]| crate::doctored::records(bytes)[1..].to_vec();
        let (mut before, mut after) = (records(&before), records(&after));
        before.pop();
        after.pop();
        assert_eq!(before, after);
    }
}

#[test]
fn a_restore_raises_every_mark_also_those_that_are_not_there() {
    let mut scene = Scene::new();
    let old = scene.granted(acquire("printer", "anna", "a")).value();
    scene.admit("printer", old);
    // After the backup was taken, somebody was admitted to the scanner with this one.
    let lost = token(70_000);
    let restored = restored_to(scene.machine(), 5_000_000);
    let machine = Machine::read_snapshot(&restored[..]).unwrap();
    assert_eq!(machine.snapshot().concat(), restored, "it is kept");
    let mut scene = Scene::of(machine);
    scene.new_term();
    let required = token(5_000_000);
    for (name, token) in [("printer", old), ("scanner", lost), ("scanner", old)] {
        let mark = scene.machine().high_water(&resource(name));
        assert_eq!(mark, Some(required), "{name}");
        assert_eq!(scene.admit(name, token), AdmitOutcome::Stale { required });
    }
    assert!(scene.machine().accounts_for(lost));
    let new = scene.granted(acquire("scanner", "ben", "b")).value();
    assert!(new > required);
    assert_eq!(scene.admit("scanner", new), AdmitOutcome::Admitted);
    assert_eq!(
        scene.machine().high_water(&resource("scanner")),
        Some(new),
        "a mark rises beyond the floor of all"
    );
}

#[test]
fn a_snapshot_whose_marks_no_token_could_pass_is_refused() {
    let mut scene = Scene::new();
    scene.granted(acquire("printer", "anna", "a"));
    let mut restored = restored_to(scene.machine(), 5_000_000);
    Machine::read_snapshot(&restored[..]).unwrap();
    // The floor of the tokens is left where it was.
    restored = crate::doctored::with_token_floor(&restored, 0);
    assert!(matches!(
        Machine::read_snapshot(&restored[..]),
        Err(SnapshotError::Inconsistent { .. })
    ));
}

#[test]
fn a_register_keeps_as_many_marks_as_it_may_through_snapshots() {
    let mut machine = machine_with(3, 5).bounds();
    machine.marks_max = 500;
    let mut scene = Scene::of(crate::scene::machine_within(machine));
    let token = scene.granted(acquire("printer", "anna", "a")).value();
    for number in 0..500 {
        let name = format!("device {number}");
        assert_eq!(scene.admit_once(&name, token), AdmitOutcome::Admitted);
    }
    scene.restart();
    assert_eq!(scene.machine().high_water_marks(), 500);
    let limit = 500;
    let full = AdmitOutcome::TooManyMarks { limit };
    assert_eq!(scene.admit("one more", token), full);
    let required = fencepost::token::TokenValue::new(token.get() + 1).unwrap();
    for number in 0..500 {
        let name = format!("device {number}");
        assert_eq!(
            scene.admit_once(&name, token),
            AdmitOutcome::Stale { required }
        );
    }
}
