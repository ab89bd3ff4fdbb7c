//! Late copies of an Acquire, whatever became of the first: none of them acts.

use fencepost::grant::{AskedAt, EndedHow, LeftHow};
use fencepost::issuer::{Acquire, AcquireOutcome, WithdrawOutcome};

use crate::scene::{Scene, acquire, cluster, machine_with, resource, waiting};

/// Delivers copies of every send so far, and looks that all of them say the same and move nothing.
fn copies_say(scene: &mut Scene, of: &Acquire, expected: &AcquireOutcome) {
    let before = state(scene);
    for attempt in 1..=of.attempt {
        let mut copy = of.clone();
        copy.attempt = attempt;
        assert_eq!(scene.ask(copy), *expected, "attempt {attempt}");
    }
    assert_eq!(state(scene), before);
}

/// Everything that a copy could have moved.
fn state(scene: &Scene) -> (Vec<u64>, Vec<[u8; 16]>, usize) {
    let machine = scene.machine();
    let grants = machine.grants().map(|grant| grant.token.value().get());
    let waiters = machine
        .all_waiters()
        .map(|waiter| *waiter.request.as_bytes());
    (
        grants.collect(),
        waiters.collect(),
        machine.known_request_ids(),
    )
}

fn sent_twice(acquire: Acquire) -> Acquire {
    Acquire {
        attempt: 2,
        ..acquire
    }
}

#[test]
fn a_copy_that_comes_after_the_release_tells_of_it() {
    let mut scene = Scene::new();
    let annas = sent_twice(acquire("printer", "anna", "a"));
    let token = scene.granted(annas.clone());
    scene.release(token.value());
    let how = EndedHow::Released;
    copies_say(&mut scene, &annas, &AcquireOutcome::Ended { token, how });
    // Also when the resource has gone to somebody else, and came free again.
    let bens = scene.granted(acquire("printer", "ben", "b"));
    copies_say(&mut scene, &annas, &AcquireOutcome::Ended { token, how });
    scene.release(bens.value());
    copies_say(&mut scene, &annas, &AcquireOutcome::Ended { token, how });
}

#[test]
fn a_copy_that_comes_after_the_release_of_what_was_waited_for_tells_of_it() {
    let mut scene = Scene::new();
    let first = scene.granted(acquire("printer", "ben", "b"));
    let annas = sent_twice(waiting(acquire("printer", "anna", "a")));
    scene.ask(annas.clone());
    scene.release(first.value());
    let token = scene.machine().inspect(&resource("printer")).unwrap().token;
    scene.renew(token.value());
    scene.release(token.value());
    let how = EndedHow::Released;
    copies_say(&mut scene, &annas, &AcquireOutcome::Ended { token, how });
}

#[test]
fn a_copy_that_comes_after_a_refusal_is_refused_though_the_resource_is_free() {
    let mut scene = Scene::new();
    let token = scene.granted(acquire("printer", "ben", "b"));
    let annas = sent_twice(acquire("printer", "anna", "a"));
    assert_eq!(scene.ask(annas.clone()).name(), "held");
    scene.release(token.value());
    let held = AcquireOutcome::Held {
        by: None,
        queue: 0,
        replayed: true,
    };
    copies_say(&mut scene, &annas, &held);
}

#[test]
fn a_copy_that_comes_after_a_newer_acquire_of_the_same_holder_leaves_that_alone() {
    let mut scene = Scene::new();
    let old = sent_twice(acquire("printer", "anna", "old"));
    let token = scene.granted(old.clone());
    let newer = scene.granted(acquire("printer", "anna", "new"));
    let how = EndedHow::Superseded;
    copies_say(&mut scene, &old, &AcquireOutcome::Ended { token, how });
    assert_eq!(scene.how_ended(newer.value()), None);
    // In the queue too: the place is the newer request's.
    let old = sent_twice(waiting(acquire("printer", "ben", "old")));
    scene.ask(old.clone());
    scene.ask(waiting(acquire("printer", "ben", "new")));
    let how = LeftHow::Superseded;
    copies_say(&mut scene, &old, &AcquireOutcome::Left { how });
}

#[test]
fn a_copy_that_comes_after_its_caller_gave_up_is_never_granted() {
    let mut scene = Scene::new();
    let token = scene.granted(acquire("printer", "ben", "b"));
    let annas = sent_twice(waiting(acquire("printer", "anna", "a")));
    // The withdrawal overtakes both sends.
    assert_eq!(
        scene.withdraw(&[annas.request], 2),
        [WithdrawOutcome::Marked]
    );
    let how = LeftHow::Withdrawn;
    copies_say(&mut scene, &annas, &AcquireOutcome::Left { how });
    scene.release(token.value());
    copies_say(&mut scene, &annas, &AcquireOutcome::Left { how });
    // Or it comes in between.
    let token = scene.granted(acquire("printer", "ben", "c"));
    let again = sent_twice(waiting(acquire("printer", "anna", "again")));
    scene.ask(again.clone());
    let left = WithdrawOutcome::Left { how };
    assert_eq!(scene.withdraw(&[again.request], 2), [left]);
    scene.release(token.value());
    copies_say(&mut scene, &again, &AcquireOutcome::Left { how });
}

#[test]
fn a_copy_that_comes_after_the_window_is_too_old_whatever_became_of_the_first() {
    let outcomes: [fn(&mut Scene, Acquire); 5] = [
        // Granted and released.
        |scene, annas| {
            let token = scene.granted(annas);
            scene.release(token.value());
        },
        // Refused.
        |scene, annas| {
            let token = scene.granted(acquire("printer", "ben", "b"));
            scene.ask(annas);
            scene.release(token.value());
        },
        // Waited, and gave up.
        |scene, annas| {
            let token = scene.granted(acquire("printer", "ben", "b"));
            let request = annas.request;
            scene.ask(waiting(annas));
            scene.withdraw(&[request], 9);
            scene.release(token.value());
        },
        // Withdrawn before it came.
        |scene, annas| {
            scene.withdraw(&[annas.request], 9);
        },
        // Marked, overtaken, granted and released.
        |scene, annas| {
            scene.withdraw(&[annas.request], 0);
            let token = scene.granted(annas);
            scene.release(token.value());
        },
    ];
    for (number, come_out) in outcomes.iter().enumerate() {
        let mut scene = Scene::of(machine_with(4, 10));
        scene.new_term();
        let mut annas = acquire("printer", "anna", "a");
        annas.asked_at = Some(AskedAt {
            cluster: cluster(),
            applied: scene.at.index,
        });
        come_out(&mut scene, annas.clone());
        for later in 0..4 {
            let token = scene.granted(acquire("scanner", "ben", &later.to_string()));
            scene.release(token.value());
        }
        copies_say(&mut scene, &annas, &AcquireOutcome::TooOld);
        let waits = sent_twice(waiting(annas));
        copies_say(&mut scene, &waits, &AcquireOutcome::TooOld);
        assert!(
            scene.machine().inspect(&resource("printer")).is_none(),
            "{number}"
        );
    }
}
