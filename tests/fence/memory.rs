//! The guard in memory: its limit, and threads that race for one mark.

use std::sync::Barrier;

use fencepost::fence::{
    EqualTokens, Verdict,
    memory::{MemoryGuard, TooManyResources},
};

use crate::scene::{rules, sequencer, sequencer_for};

#[test]
fn at_its_limit_it_refuses_new_resources_and_forgets_none() {
    let guard = MemoryGuard::new(rules()).resources_max(2);
    let other = |value| sequencer_for("bank", "account/2", value);
    assert_eq!(guard.admit_now(&sequencer(5)), Ok(Verdict::Admitted));
    assert_eq!(guard.admit_now(&other(5)), Ok(Verdict::Admitted));
    let third = sequencer_for("bank", "account/3", 5);
    let full = TooManyResources { resources_max: 2 };
    assert_eq!(guard.admit_now(&third), Err(full));
    assert_eq!(guard.admit_now(&sequencer(6)), Ok(Verdict::Admitted));
    assert!(matches!(
        guard.admit_now(&other(4)),
        Ok(Verdict::Stale { .. })
    ));
}

#[test]
fn of_racing_threads_at_most_one_is_admitted_with_a_token_that_counts_once() {
    let guard = MemoryGuard::new(rules().equal_tokens(EqualTokens::Once));
    let last = 20_000;
    let start = Barrier::new(4);
    let race = || {
        start.wait();
        let presented = 1..=last;
        let admitted = |value: &u64| guard.admit_now(&sequencer(*value)) == Ok(Verdict::Admitted);
        presented.filter(admitted).collect::<Vec<_>>()
    };
    let mut all = std::thread::scope(|scope| {
        let threads = [(); 4].map(|()| scope.spawn(race));
        threads.map(|thread| thread.join().unwrap()).concat()
    });
    let admitted = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!(
        all.len(),
        admitted,
        "two threads were admitted with one token"
    );
    assert_eq!(
        all.last(),
        Some(&last),
        "the highest token is always admitted"
    );
}
