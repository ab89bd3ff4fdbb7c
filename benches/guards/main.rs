//! What a guarded write costs over an unguarded one, for each kind of resource, as a ratio in one run.
//!
//!     cargo bench --bench guards                     # all of them, about five minutes
//!     cargo bench --bench guards -- postgres memory  # some of them
//!
//! Everything is durable as in production: the databases sync each commit, files are synced. Each
//! measurement has the unguarded write and the guarded ones take turns, in rounds that begin with another one
//! each time, so that whatever else the machine does falls on all of them. A ratio is that of the median latencies
//! of one round; the median of all rounds is printed with its quartiles. Nothing here is asserted: the figures go to
//! `docs/benchmarks.md`, with the machine that they were taken on.

#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a bench reads clocks to measure, and a panic is its failure"
)]

#[path = "../../tests/databases/mod.rs"]
mod databases;
mod file;
mod http;
mod mariadb;
mod memory;
mod object;
mod postgres;
mod redis;
mod rounds;
mod sql;
mod sqlite;

use std::{future::Future, pin::Pin};

use fencepost::{
    fence::Rules,
    resource::{IssuerName, ResourceName},
    sequencer::Sequencer,
    token::TokenValue,
};

/// Rows, or names, that each writer goes round: enough that no single one is hot.
const ROWS: u64 = 100;
/// Writers at once.
const CONCURRENCY: [u64; 2] = [1, 16];

type Measurement = (&'static str, fn(u64) -> Pin<Box<dyn Future<Output = ()>>>);

const MEASUREMENTS: [Measurement; 8] = [
    ("postgres", |writers| Box::pin(postgres::measure(writers))),
    ("mariadb", |writers| Box::pin(mariadb::measure(writers))),
    ("sqlite", |writers| Box::pin(sqlite::measure(writers))),
    ("redis", |writers| Box::pin(redis::measure(writers))),
    ("file", |writers| Box::pin(file::measure(writers))),
    ("object", |writers| Box::pin(object::measure(writers))),
    ("memory", |writers| Box::pin(memory::measure(writers))),
    ("http", |writers| Box::pin(http::measure(writers))),
];

fn main() {
    // Cargo adds `--bench`; everything else names a measurement. None means all of them.
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    let names = MEASUREMENTS.map(|(name, _)| name);
    let unknown = asked.iter().find(|name| !names.contains(&name.as_str()));
    assert!(
        unknown.is_none(),
        "{unknown:?} is not a measurement; there are: {}",
        names.join(" ")
    );
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    rounds::head();
    for (name, measure) in MEASUREMENTS {
        if asked.is_empty() || asked.iter().any(|asked| asked == name) {
            for writers in CONCURRENCY {
                runtime.block_on(measure(writers));
            }
        }
    }
}

/// Whose tokens the guards take.
fn issuer() -> IssuerName {
    "bench".parse().unwrap()
}

fn rules() -> Rules {
    Rules::issued_by(issuer())
}

/// What the holder of a row's resource sends along.
fn sequencer(id: u64) -> Sequencer {
    Sequencer {
        issuer: issuer(),
        resource: ResourceName::new(format!("accounts/{id}")).unwrap(),
        token: TokenValue::new(123_456_789).unwrap(),
    }
}

/// The sequencers of all rows of one writer.
fn sequencers(writer: u64) -> Vec<Sequencer> {
    (0..ROWS).map(|n| sequencer(row(writer, n))).collect()
}

/// The row of a writer's write.
fn row(writer: u64, n: u64) -> u64 {
    writer * ROWS + n % ROWS
}

/// The place of a write's row among those of its writer.
fn at(n: u64) -> usize {
    usize::try_from(n % ROWS).unwrap()
}

/// What is written: a hundred characters that are never the same.
fn body(n: u64) -> String {
    format!("{n:0>100}")
}
