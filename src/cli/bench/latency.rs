//! The distribution of a latency, in numbers.

use super::super::number::counted;
use serde::Serialize;
use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;

/// Latencies up to this are told apart, in microseconds; longer ones count as this.
const MICROS_MAX: u64 = 120_000_000;

/// Latencies as they are taken.
pub(super) struct Latencies(Histogram<u64>);

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, MICROS_MAX, 3);
        Self(histogram.expect("the bounds are constants that fit three digits"))
    }
}

impl Latencies {
    pub(super) fn took(&mut self, latency: Duration) {
        let micros = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.0.saturating_record(micros.max(1));
    }

    pub(super) fn count(&self) -> u64 {
        self.0.len()
    }

    pub(super) fn summary(&self) -> Latency {
        let at = |quantile| self.0.value_at_quantile(quantile);
        Latency {
            count: self.0.len(),
            mean: self.0.mean(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            max: self.0.max(),
        }
    }
}

/// The distribution of one call's latency, in microseconds. Its field names are stable.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Latency {
    pub(super) count: u64,
    pub(super) mean: f64,
    pub(super) p50: u64,
    pub(super) p90: u64,
    pub(super) p99: u64,
    pub(super) p99_9: u64,
    pub(super) max: u64,
}

/// The head of a table of latencies.
pub(super) const HEAD: &str = "                    p50       p90       p99     p99.9       max  ms";

/// One row of that table.
pub(super) struct Row<'a>(pub(super) &'a str, pub(super) &'a Latency);

impl fmt::Display for Row<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(name, latency) = self;
        write!(f, "  {name:<11}")?;
        for micros in [
            latency.p50,
            latency.p90,
            latency.p99,
            latency.p99_9,
            latency.max,
        ] {
            write!(f, "{:>10.2}", micros as f64 / 1_000.0)?;
        }
        Ok(())
    }
}

/// `count` a second over `time`; 0 when there was none.
pub(super) fn rate(count: u64, time: Duration) -> f64 {
    match time.as_secs_f64() {
        0.0 => 0.0,
        seconds => count as f64 / seconds,
    }
}

/// `1 node`, `3 nodes`.
pub(super) fn many(count: impl TryInto<usize>, one: &str) -> String {
    counted(count.try_into().unwrap_or(usize::MAX), one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_beyond_the_scale_counts_as_its_end() {
        let mut latencies = Latencies::default();
        latencies.took(Duration::from_secs(100_000));
        latencies.took(Duration::ZERO);
        let summary = latencies.summary();
        assert_eq!(summary.count, 2);
        // Three digits are kept.
        assert!(
            summary.max.abs_diff(MICROS_MAX) < MICROS_MAX / 500,
            "{summary:?}"
        );
    }

    #[test]
    fn the_columns_of_a_row_stand_below_their_names() {
        let mut latencies = Latencies::default();
        latencies.took(Duration::from_micros(1_500));
        let summary = latencies.summary();
        let row = Row("acquire", &summary).to_string();
        assert_eq!(row.len(), HEAD.len() - "  ms".len(), "{row}\n{HEAD}");
    }

    #[test]
    fn no_time_has_no_rate() {
        assert_eq!(rate(7, Duration::ZERO), 0.0);
        assert_eq!(rate(7, Duration::from_millis(500)), 14.0);
    }
}
