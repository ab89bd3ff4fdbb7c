//! What the clients said became of their updates, number by number.

use std::collections::BTreeSet;

use crate::{
    members::Members,
    script::{Outcome, Said, Update},
};

/// The updates of one register.
#[derive(Clone, Debug, Default)]
pub(crate) struct Updates {
    pub(crate) acknowledged: BTreeSet<u64>,
    pub(crate) refused: BTreeSet<u64>,
    /// Counted apart: such an update may be in the final value or not, and neither is a fault.
    pub(crate) unknown: BTreeSet<u64>,
}

impl Updates {
    fn take(&mut self, number: u64, outcome: &Outcome) {
        let kind = match outcome {
            Outcome::Acknowledged => &mut self.acknowledged,
            Outcome::Stale { .. } => &mut self.refused,
            Outcome::Unknown { .. } => &mut self.unknown,
        };
        assert!(kind.insert(number), "update {number} was told twice");
    }

    /// Acknowledged, and not in the final value.
    pub(crate) fn lost(&self, value: &Members) -> u64 {
        let missing = self.acknowledged.iter().filter(|n| !value.contains(**n));
        missing.count() as u64
    }

    /// Refused, and in the final value all the same.
    pub(crate) fn refused_in_vain(&self, value: &Members) -> u64 {
        self.refused.iter().filter(|n| value.contains(**n)).count() as u64
    }

    /// In the final value, and by no update that anybody made.
    pub(crate) fn made_by_nobody(&self, value: &Members) -> u64 {
        let made = |n: &u64| {
            [&self.acknowledged, &self.refused, &self.unknown]
                .iter()
                .any(|kind| kind.contains(n))
        };
        value.iter().filter(|n| !made(n)).count() as u64
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) fenced: Updates,
    pub(crate) unfenced: Updates,
    /// Why turns ended without an update.
    pub(crate) gave_up: Vec<String>,
    /// Each update that both registers acknowledged, by its client and its token.
    both: Vec<(u64, u64)>,
}

impl Tally {
    pub(crate) fn take(&mut self, client: u64, said: &Said) {
        match said {
            Said::Inside { .. } => {}
            Said::GaveUp { why } => self.gave_up.push(why.clone()),
            Said::Update(update) => self.update(client, update),
        }
    }

    fn update(&mut self, client: u64, update: &Update) {
        self.fenced.take(update.number, &update.fenced);
        self.unfenced.take(update.number, &update.unfenced);
        if [&update.fenced, &update.unfenced] == [&Outcome::Acknowledged; 2] {
            self.both.push((client, update.token));
        }
    }

    /// How many updates other clients have had acknowledged, in both registers, with higher tokens.
    pub(crate) fn written_after(&self, client: u64, token: u64) -> u64 {
        let after = |(other, higher): &&(u64, u64)| *other != client && *higher > token;
        // The newest are at the end, and only few of them come after a token that is just being used.
        self.both.iter().rev().take(10_000).filter(after).count() as u64
    }
}

#[test]
fn updates_are_counted_one_by_one() {
    let mut updates = Updates::default();
    updates.take(1, &Outcome::Acknowledged);
    updates.take(2, &Outcome::Acknowledged);
    updates.take(3, &Outcome::Stale { required: 9 });
    updates.take(4, &Outcome::Unknown { why: "lost".into() });
    let value = |numbers: &[u64]| {
        numbers
            .iter()
            .fold(Members::default(), |set, &n| set.with(n))
    };
    assert_eq!(updates.lost(&value(&[1, 2])), 0);
    assert_eq!(updates.lost(&value(&[2, 3, 4])), 1);
    assert_eq!(updates.refused_in_vain(&value(&[1, 3])), 1);
    assert_eq!(updates.made_by_nobody(&value(&[1, 2, 3, 4])), 0);
    assert_eq!(updates.made_by_nobody(&value(&[1, 5])), 1);
}

#[test]
fn those_count_who_wrote_to_both_registers_with_higher_tokens() {
    let mut tally = Tally::default();
    let mut say = |client, token, fenced| {
        let number = client + 10 * token;
        let unfenced = Outcome::Acknowledged;
        let update = Update {
            number,
            token,
            fenced,
            unfenced,
        };
        tally.take(client, &Said::Update(update));
    };
    say(1, 5, Outcome::Acknowledged);
    say(2, 7, Outcome::Acknowledged);
    say(3, 8, Outcome::Stale { required: 9 });
    say(1, 9, Outcome::Acknowledged);
    assert_eq!(tally.written_after(0, 6), 2);
    assert_eq!(tally.written_after(1, 6), 1, "its own do not count");
    assert_eq!(tally.written_after(0, 9), 0);
}
