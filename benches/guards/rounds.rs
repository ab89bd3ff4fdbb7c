//! Taking turns, and the figures of it.

use std::{
    future::Future,
    pin::Pin,
    time::{Duration, Instant},
};

use tokio::task::{JoinSet, LocalSet};

/// So many rounds; in each every variant writes for one slice. Short slices, so that what else the machine does
/// falls on all of them alike.
const ROUNDS: usize = 51;
const SLICE: Duration = Duration::from_millis(60);

/// One writer with a connection of its own: `writes(first, count)` makes so many writes, one after the other.
pub(crate) trait Writes {
    fn writes(&mut self, first: u64, count: u64) -> Pin<Box<dyn Future<Output = ()> + '_>>;
}

impl<W: AsyncFnMut(u64)> Writes for W {
    fn writes(&mut self, first: u64, count: u64) -> Pin<Box<dyn Future<Output = ()> + '_>> {
        Box::pin(async move {
            for n in first..first + count {
                self(n).await;
            }
        })
    }
}

/// One way to write.
pub(crate) struct Variant {
    name: &'static str,
    /// The unguarded variant of the same form, by its place in the list.
    like: usize,
    writers: Vec<Box<dyn Writes>>,
    /// The median of each round, in microseconds a write.
    took_us: Vec<f64>,
    next: u64,
}

impl Variant {
    /// A way to write; `like` is the place of the unguarded write that does the same without a guard.
    pub(crate) fn new(name: &'static str, like: usize, writers: Vec<Box<dyn Writes>>) -> Self {
        Self {
            name,
            like,
            writers,
            took_us: Vec::new(),
            next: 0,
        }
    }

    /// Lets all writers write for one slice, and gives the median of the microseconds that a write took. The
    /// median, because one slow sync of a shared disk would otherwise decide for a whole slice.
    async fn slice(&mut self, batch: u64) -> f64 {
        let first = self.next;
        let begun = Instant::now();
        let mut tasks = JoinSet::new();
        for mut writer in self.writers.drain(..) {
            tasks.spawn_local(async move {
                let (mut next, mut took) = (first, Vec::new());
                while begun.elapsed() < SLICE {
                    let asked = Instant::now();
                    writer.writes(next, batch).await;
                    took.push(asked.elapsed().as_secs_f64() * 1e6 / batch as f64);
                    next += batch;
                }
                (writer, next, took)
            });
        }
        let mut took_us = Vec::new();
        while let Some(done) = tasks.join_next().await {
            let (writer, next, took) = done.unwrap();
            self.writers.push(writer);
            self.next = self.next.max(next);
            took_us.extend(took);
        }
        median(&took_us)
    }
}

pub(crate) fn head() {
    println!(
        "{:<10} {:>7}  {:<34} {:>9}  {:<20} {:>8}",
        "resource", "writers", "write", "p50 us", "ratio (quartiles)", "to plain"
    );
}

/// Measures variants against each other; the first is the plain unguarded write. `batch` writes are made between
/// two looks at the clock.
pub(crate) async fn measure(resource: &str, batch: u64, mut variants: Vec<Variant>) {
    let local = LocalSet::new();
    local
        .run_until(async {
            for variant in &mut variants {
                variant.slice(batch).await;
            }
            for round in 0..ROUNDS {
                for turn in 0..variants.len() {
                    let at = (round + turn) % variants.len();
                    let took = variants[at].slice(batch).await;
                    variants[at].took_us.push(took);
                }
            }
        })
        .await;
    for variant in &variants {
        let writers = variant.writers.len();
        let us = median(&variant.took_us);
        let to_like = ratios(variant, &variants[variant.like]);
        let to_first = median(&ratios(variant, &variants[0]));
        let (low, high) = (quantile(&to_like, 0.25), quantile(&to_like, 0.75));
        println!(
            "{resource:<10} {writers:>7}  {:<34} {us:>9.2}  {:<20} {to_first:>8.2}",
            variant.name,
            format!("{:.2} ({low:.2} to {high:.2})", median(&to_like)),
        );
    }
}

fn ratios(variant: &Variant, to: &Variant) -> Vec<f64> {
    let pairs = variant.took_us.iter().zip(&to.took_us);
    pairs.map(|(one, other)| one / other).collect()
}

fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a place in a list"
    )]
    let at = (sorted.len() as f64 * share) as usize;
    sorted[at]
}
