//! Every guard against a naive model, on random sequences of sequencers from a printed seed.

use std::collections::BTreeMap;

use fencepost::fence::{
    EqualTokens, Foreign, Guard, Rules, Verdict,
    memory::MemoryGuard,
    sql::{GuardTable, SqlGuard, WriteOutcome},
};
use fencepost::sequencer::Sequencer;
use rand::{RngExt as _, SeedableRng as _, rngs::StdRng};

use crate::{
    scene::{ACCOUNT, issuer, resource, sequencer_for, token},
    sql::{
        database::{Database, Server},
        on_each_database,
    },
};

on_each_database!(
    the_table_of_marks_does_what_the_model_does,
    a_guarded_row_does_what_the_model_does,
);

/// The model: plain numbers in a map, written down without a look at the guards.
struct Model {
    once: bool,
    marks: BTreeMap<String, u64>,
}

impl Model {
    fn admit(&mut self, sequencer: &Sequencer) -> Verdict {
        if sequencer.issuer.as_str() != "bank" {
            return Verdict::Foreign(Foreign::Issuer {
                presented: sequencer.issuer.clone(),
                expected: issuer("bank"),
            });
        }
        let presented = sequencer.token.get();
        let mark = self
            .marks
            .entry(sequencer.resource.to_string())
            .or_default();
        let lowest = *mark + u64::from(self.once && *mark > 0);
        if presented < lowest {
            return Verdict::Stale {
                presented: token(presented),
                required: token(lowest),
            };
        }
        *mark = presented;
        Verdict::Admitted
    }
}

/// Mostly close tokens of one issuer for few resources, so that all verdicts are frequent.
fn random(rng: &mut StdRng) -> Sequencer {
    let by = if rng.random_ratio(1, 12) {
        "casino"
    } else {
        "bank"
    };
    let of = ["account/1", "account/2", "Account/1"][rng.random_range(0..3)];
    let around = if rng.random_ratio(1, 2) {
        1
    } else {
        (1 << 53) - 8
    };
    sequencer_for(by, of, around + rng.random_range(0..16))
}

fn seeds(count: u64) -> impl Iterator<Item = (u64, StdRng, Rules, Model)> {
    let first = std::env::var("FENCEPOST_SEED").ok();
    let first = first.map_or(1, |seed| seed.parse().unwrap());
    (first..first + count).map(|seed| {
        let once = seed % 2 == 0;
        let equal = if once {
            EqualTokens::Once
        } else {
            EqualTokens::MayWriteAgain
        };
        let rules = Rules::issued_by(issuer("bank")).equal_tokens(equal);
        let marks = BTreeMap::new();
        (
            seed,
            StdRng::seed_from_u64(seed),
            rules,
            Model { once, marks },
        )
    })
}

async fn follows(seed: u64, rng: &mut StdRng, model: &mut Model, guard: impl Guard, steps: u32) {
    for step in 0..steps {
        let sequencer = random(rng);
        let expected = model.admit(&sequencer);
        let verdict = guard.admit(&sequencer).await.unwrap();
        assert_eq!(
            verdict, expected,
            "FENCEPOST_SEED={seed} step {step}: {sequencer}"
        );
        let mark = guard.high_water(&sequencer.resource).await.unwrap();
        let modelled = model.marks.get(sequencer.resource.as_str());
        assert_eq!(
            mark.map(|mark| mark.token.get()),
            modelled.copied(),
            "FENCEPOST_SEED={seed}"
        );
    }
}

#[tokio::test]
async fn the_guard_in_memory_does_what_the_model_does() {
    for (seed, mut rng, rules, mut model) in seeds(200) {
        follows(seed, &mut rng, &mut model, MemoryGuard::new(rules), 250).await;
    }
}

async fn the_table_of_marks_does_what_the_model_does<DB: Server>(database: Database<DB>) {
    for (seed, mut rng, rules, mut model) in seeds(6) {
        let mut connection = database.connect().await;
        let table = format!("marks_of_{seed}");
        let marks = GuardTable::<DB>::create(&mut connection, &table, rules);
        let guard = SqlGuard::new(database.pool(2).await, marks.await.unwrap());
        follows(seed, &mut rng, &mut model, guard, 250).await;
    }
}

async fn a_guarded_row_does_what_the_model_does<DB: Server>(database: Database<DB>) {
    for (seed, mut rng, rules, mut model) in seeds(6) {
        let (accounts, mut connection) = (database.accounts(rules).await, database.connect().await);
        // A row for each seed, and the first write must be one that makes it.
        let row = i64::try_from(seed).unwrap() + 1;
        for step in 0..200_i64 {
            let mut sequencer = random(&mut rng);
            sequencer.resource = resource(ACCOUNT);
            let upsert = step == 0 || model.marks.is_empty() || rng.random_ratio(1, 2);
            let write = accounts.write(&resource(ACCOUNT), &sequencer);
            let write = write.key(DB::number(row)).set("balance", DB::number(step));
            let outcome = match upsert {
                true => write.upsert(&mut connection).await.unwrap(),
                false => write.update(&mut connection).await.unwrap(),
            };
            let expected = match model.admit(&sequencer) {
                Verdict::Admitted => WriteOutcome::Written,
                Verdict::Stale {
                    presented,
                    required,
                } => WriteOutcome::Stale {
                    presented,
                    required,
                },
                Verdict::Foreign(foreign) => WriteOutcome::Foreign(foreign),
            };
            assert_eq!(
                outcome, expected,
                "FENCEPOST_SEED={seed} step {step}: {sequencer}"
            );
        }
    }
}
