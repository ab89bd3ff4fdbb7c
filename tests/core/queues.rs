//! Queues at their full size, and what the clock of a node keeps for them.

use std::time::Duration;

use fencepost::grant::LeftHow;
use fencepost::issuer::{
    AcquireOutcome, Bounds, PromoteOutcome, RequestKey, Standing, WithdrawOutcome,
};
use fencepost::limits::{WAITERS_MAX, WAITERS_PER_RESOURCE_MAX};

use crate::scene::{Scene, acquire, holder, machine_within, resource, waiting};

#[test]
fn as_many_wait_as_may_and_all_are_granted_in_order() {
    let mut scene = Scene::new();
    let first = scene.granted(acquire("printer", "first", "a"));
    let name = resource("printer");
    for number in 0..WAITERS_PER_RESOURCE_MAX {
        let outcome = scene.ask(waiting(acquire("printer", &format!("h{number}"), "a")));
        let queued = AcquireOutcome::Queued {
            position: number + 1,
            queue: number + 1,
            replayed: false,
        };
        assert_eq!(outcome, queued);
    }
    let refused = scene.ask(waiting(acquire("printer", "one more", "a")));
    assert_eq!(refused.name(), "too_many_waiters");
    let last = holder(&format!("h{}", WAITERS_PER_RESOURCE_MAX - 1));
    let position = scene.machine().position(&name, &last);
    assert_eq!(position, Some(WAITERS_PER_RESOURCE_MAX));
    // Half way through, the node restarts.
    let mut token = first.value();
    for number in 0..WAITERS_PER_RESOURCE_MAX {
        if number == WAITERS_PER_RESOURCE_MAX / 2 {
            scene.restart();
        }
        scene.release(token);
        let grant = scene.machine().inspect(&name).unwrap();
        assert_eq!(grant.holder.as_str(), format!("h{number}"));
        token = grant.token.value();
    }
    assert_eq!(scene.machine().waiters_len(), 0);
    assert_eq!(scene.replica.clock().waits_len(), 0);
}

#[test]
fn the_limit_on_all_waiters_is_reached_over_many_resources() {
    let mut scene = Scene::new();
    let per_resource = 64;
    for number in 0..WAITERS_MAX / per_resource {
        let name = format!("r{number}");
        scene.granted(acquire(&name, "first", "a"));
        for waiter in 0..per_resource {
            let asked = waiting(acquire(&name, &format!("h{waiter}"), "a"));
            assert_eq!(scene.ask(asked).name(), "queued");
        }
    }
    let refused = AcquireOutcome::TooManyWaiters {
        limit: WAITERS_MAX,
        of_resource: false,
        replayed: false,
    };
    assert_eq!(scene.ask(waiting(acquire("r0", "late", "a"))), refused);
    assert_eq!(scene.machine().places().count(), WAITERS_MAX as usize);
    let bytes = scene.machine().snapshot().concat();
    let restored = fencepost::issuer::Machine::read_snapshot(&bytes[..]).unwrap();
    assert_eq!(restored.digest(), scene.machine().digest());
    // One leaves, and there is room for one.
    let request = acquire("r7", "h3", "a").request;
    scene.withdraw(&[request], 1);
    assert_eq!(
        scene.ask(waiting(acquire("r0", "late", "b"))).name(),
        "queued"
    );
}

#[test]
fn promotions_come_in_the_order_of_names_and_no_more_than_asked_for() {
    let mut scene = Scene::new();
    for name in ["c", "a", "b", "free"] {
        scene.granted(acquire(name, "anna", "a"));
    }
    for name in ["b", "c", "a"] {
        scene.ask(waiting(acquire(name, "ben", "b")));
    }
    scene.pass(40_000);
    assert_eq!(scene.expire_due(), 4);
    let names = |max| scene.machine().promotable(max);
    assert_eq!(names(0), []);
    assert_eq!(names(2), [resource("a"), resource("b")]);
    assert_eq!(names(9), [resource("a"), resource("b"), resource("c")]);
    for name in ["a", "b", "c"] {
        assert!(matches!(
            scene.promote(name),
            PromoteOutcome::Granted { .. }
        ));
    }
    assert_eq!(scene.machine().promotable(9), []);
    assert_eq!(scene.promote("a"), PromoteOutcome::Nothing);
}

#[test]
fn a_queue_that_empties_before_its_promotion_leaves_a_free_resource() {
    let mut scene = Scene::of(machine_within(Bounds {
        live_grants_max: 2,
        ..Bounds::default()
    }));
    for name in ["a", "b"] {
        scene.granted(acquire(name, "anna", "a"));
    }
    let waits = waiting(acquire("a", "ben", "b"));
    scene.ask(waits.clone());
    scene.pass(40_000);
    scene.expire_due();
    assert_eq!(
        scene.leave(&[waits.request], 0, LeftHow::WaitedOut).len(),
        1
    );
    assert_eq!(scene.promote("a"), PromoteOutcome::Nothing);
    // Nothing is promised any more, so there is room for two.
    scene.granted(acquire("a", "cleo", "c"));
    scene.granted(acquire("b", "cleo", "c"));
}

#[test]
fn a_wait_is_due_at_its_length_and_two_thousandths_on_every_node() {
    let mut scene = Scene::new();
    scene.granted(acquire("printer", "anna", "a"));
    let mut asked = waiting(acquire("printer", "ben", "b"));
    asked.wait_ms = 1_000;
    let start = scene.now;
    scene.ask(asked.clone());
    let due = start + Duration::from_millis(1_002);
    assert_eq!(scene.replica.next_wait_deadline(), Some(due));
    let just_before = due - Duration::from_nanos(1);
    assert_eq!(scene.replica.due_waits(just_before, 9), []);
    assert_eq!(scene.replica.due_waits(due, 9), [asked.request]);
    assert_eq!(scene.replica.due_waits(due, 0), []);
    // A later send does not start it anew, a request that takes the place over does.
    scene.pass(500);
    asked.attempt = 2;
    scene.ask(asked.clone());
    assert_eq!(scene.replica.next_wait_deadline(), Some(due));
    let mut newer = waiting(acquire("printer", "ben", "c"));
    newer.wait_ms = 1_000;
    scene.ask(newer.clone());
    let due = due + Duration::from_millis(500);
    assert_eq!(scene.replica.next_wait_deadline(), Some(due));
    assert_eq!(scene.replica.due_waits(due, 9), [newer.request]);
    // It is no lease, and no lease's deadline.
    assert!(scene.replica.due(due, 9).is_empty());
    scene.leave(&[newer.request], 0, LeftHow::WaitedOut);
    assert_eq!(scene.replica.next_wait_deadline(), None);
}

#[test]
fn a_standing_is_found_for_whoever_missed_the_events() {
    let mut scene = Scene::new();
    let standing = |scene: &Scene, key: &RequestKey| scene.machine().standing(key);
    let first = scene.granted(acquire("printer", "anna", "a"));
    let bens = waiting(acquire("printer", "ben", "b"));
    assert_eq!(standing(&scene, &bens.request), Standing::Unknown);
    scene.ask(bens.clone());
    scene.restart();
    let waits = Standing::Waiting {
        position: 1,
        queue: 1,
        attempt: 1,
    };
    assert_eq!(standing(&scene, &bens.request), waits);
    scene.release(first.value());
    scene.restart();
    let Standing::Granted {
        token,
        lease,
        after_wait: true,
    } = standing(&scene, &bens.request)
    else {
        panic!("not granted");
    };
    assert_eq!(lease.as_ms(), 2_000);
    scene.release(token.value());
    let how = fencepost::grant::EndedHow::Released;
    let ended = Standing::Ended { token, how };
    assert_eq!(standing(&scene, &bens.request), ended);
    // A mark is not known: a later send would act.
    let marked = acquire("printer", "cleo", "c").request;
    assert_eq!(scene.withdraw(&[marked], 1), [WithdrawOutcome::Marked]);
    assert_eq!(standing(&scene, &marked), Standing::Unknown);
}

#[test]
fn a_renewal_claims_a_grant_with_whatever_ttl_it_names() {
    let mut scene = Scene::new();
    let first = scene.granted(acquire("printer", "anna", "a"));
    scene.ask(waiting(acquire("printer", "ben", "b")));
    scene.release(first.value());
    let grant = scene.machine().inspect(&resource("printer")).unwrap();
    let token = grant.token.value();
    // For people, too, an unclaimed grant ends when it will end.
    assert_eq!(grant.expires_at_ms - grant.granted_at_ms, 2_000);
    let left = |scene: &Scene| scene.replica.clock().remaining(token, scene.now).unwrap();
    assert_eq!(left(&scene), Duration::from_millis(2_004));
    scene.renew(token);
    assert_eq!(left(&scene), Duration::from_millis(30_060));
    // An expiry that was proposed for the unclaimed lease comes late.
    let due = fencepost::issuer::DueLease { token, renewals: 0 };
    assert_eq!(scene.expire(vec![due]), 0);
}
