//! The search beside another one: `stateright`'s `LinearizabilityTester`, on many small random
//! histories. Both must say the same of every one of them.
//!
//! The tester knows no time, only the order of invocations and returns. So each moment from which on a
//! lease may run out becomes a call that is invoked then and never returns, which the tester may place
//! or leave out; it does something only if what set the lease is what set it last.

use std::time::Duration;

use stateright::semantics::{ConsistencyTester, LinearizabilityTester, SequentialSpec};

use super::{
    model::{Act, State},
    search::{Found, Item, search},
};
use crate::{checks::story::ms, dice::Dice, history::Moment};

const LEASE: Duration = Duration::from_millis(30);

/// A call with its answer in it: only whether it fits is asked.
#[derive(Clone, Debug)]
enum Op {
    Does(Act, Moment),
    /// The lease that runs out from then on may be over.
    RunsOut(Moment),
}

#[derive(Clone, Debug, PartialEq)]
struct Fits;

#[derive(Clone, Debug, Default)]
struct Spec(State);

impl SequentialSpec for Spec {
    type Op = Op;
    type Ret = Fits;

    fn invoke(&mut self, op: &Op) -> Fits {
        let Op::RunsOut(from) = op else {
            unreachable!("only what runs out stays open");
        };
        // Too soon for a lease that was set later on, which has an item of its own.
        if let Some(after) = self.0.expired(*from) {
            self.0 = after;
        }
        Fits
    }

    fn is_valid_step(&mut self, op: &Op, _: &Fits) -> bool {
        let Op::Does(act, sent) = op else {
            return false;
        };
        match self.0.step(act, *sent) {
            Some(after) => {
                self.0 = after;
                true
            }
            None => false,
        }
    }
}

/// What the other one says.
fn has_an_order(items: &[Item]) -> bool {
    let mut events: Vec<(Moment, u8, usize)> = Vec::new();
    for (at, item) in items.iter().enumerate() {
        events.push((item.from, 1, at));
        events.push((item.to, 2, at));
        if sets_a_lease(&item.act) {
            // Nothing is later than what runs out at the same moment.
            events.push((item.from + LEASE, 0, at));
        }
    }
    events.sort_unstable();
    let mut tester = LinearizabilityTester::new(Spec::default());
    for (when, what, at) in events {
        let item = &items[at];
        let done = match what {
            0 => tester.on_invoke(1_000 + at, Op::RunsOut(when)).map(|_| ()),
            1 => {
                let op = Op::Does(item.act.clone(), item.from);
                tester.on_invoke(at, op).map(|_| ())
            }
            _ => tester.on_return(at, Fits).map(|_| ()),
        };
        done.unwrap();
    }
    tester.is_consistent()
}

fn sets_a_lease(act: &Act) -> bool {
    matches!(act, Act::Grant { .. } | Act::Renew { .. })
}

/// A few calls of three callers on one resource: what might have happened, and often could not.
fn random(dice: &mut Dice) -> Vec<Item> {
    let calls = 3 + dice.below(4);
    let mut token = 0;
    let items = (0..calls).map(|_| {
        let from = dice.millis(0, 60);
        let holder = u32::try_from(dice.below(3)).unwrap();
        let some = 1 + dice.below(token.max(1));
        let act = match dice.below(10) {
            0..4 => {
                token += 1;
                let lease = LEASE;
                Act::Grant {
                    token,
                    holder,
                    lease,
                }
            }
            4 | 5 => Act::Release { token: some },
            6 => Act::Renew {
                token: some,
                lease: LEASE,
            },
            7 => Act::Held { by: some },
            8 => Act::NotLive { token: some },
            _ => Act::Seen(Some(some).filter(|_| dice.percent(60))),
        };
        Item {
            act,
            from,
            to: from + dice.millis(1, 40),
            must: true,
        }
    });
    items.collect()
}

#[test]
fn both_say_the_same_of_small_random_histories() {
    let (mut dice, mut with, mut without) = (Dice::new(1), 0, 0);
    for _ in 0..20_000 {
        let items = random(&mut dice);
        let theirs = has_an_order(&items);
        let ours = search(items.clone(), 100_000);
        assert_eq!(ours == Found::Order, theirs, "{items:#?}: {ours:?}");
        if theirs {
            with += 1;
        } else {
            without += 1;
        }
    }
    println!("{with} histories with an order, {without} without");
    assert!(with > 2_000 && without > 2_000, "{with} and {without}");
}

#[test]
fn a_search_without_steps_has_no_answer() {
    let act = Act::Seen(Some(1));
    let (from, to, must) = (ms(1), ms(2), true);
    let item = Item {
        act,
        from,
        to,
        must,
    };
    assert_eq!(search(vec![item], 0), Found::OutOfSteps);
}
