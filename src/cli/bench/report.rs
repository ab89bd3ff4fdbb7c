//! The result, for people and for scripts.

use super::super::acquire::millis;
use super::super::number::counted;
use super::Args;
use super::record::Record;
use fencepost::client::NodeStatus;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;

/// What a run measured. Its field names are stable; latencies are microseconds.
#[derive(Serialize)]
pub(super) struct Report {
    operation: &'static str,
    concurrency: u32,
    connections: u32,
    resources: u32,
    ttl_ms: u64,
    warm_up_ms: u64,
    duration_ms: u64,
    cluster_id: String,
    nodes: usize,
    version: String,
    operations: u64,
    per_second: f64,
    refused: u64,
    failed: u64,
    /// How many sends were repeats of an earlier one, warm-up included.
    resends: u64,
    errors: BTreeMap<String, u64>,
    latency_us: BTreeMap<&'static str, Latency>,
}

/// The distribution of one call's latency, in microseconds.
#[derive(Serialize)]
struct Latency {
    count: u64,
    mean: f64,
    p50: u64,
    p90: u64,
    p99: u64,
    p99_9: u64,
    max: u64,
}

impl Report {
    pub(super) fn new(
        args: &Args,
        resources: u32,
        status: &NodeStatus,
        took: Duration,
        resends: u64,
        record: &Record,
    ) -> Self {
        let operations = record.count();
        let seconds = took.as_secs_f64();
        Self {
            operation: args.operation.as_str(),
            concurrency: args.concurrency,
            connections: args.connections,
            resources,
            ttl_ms: args.ttl.as_ms(),
            warm_up_ms: millis(args.warm_up),
            duration_ms: millis(took),
            cluster_id: status.cluster_id.clone(),
            nodes: status.members.iter().filter(|member| member.voter).count(),
            version: status.version.clone(),
            operations,
            per_second: if seconds > 0.0 {
                operations as f64 / seconds
            } else {
                0.0
            },
            refused: record.refused,
            failed: record.failed(),
            resends,
            errors: record.errors().clone(),
            latency_us: record
                .latencies()
                .iter()
                .map(|(call, histogram)| (call.as_str(), latency(histogram)))
                .collect(),
        }
    }

    /// Nothing succeeded.
    pub(super) fn is_empty(&self) -> bool {
        self.operations == 0
    }
}

fn many(count: u32, one: &str) -> String {
    counted(usize::try_from(count).unwrap_or(usize::MAX), one)
}

fn latency(histogram: &Histogram<u64>) -> Latency {
    Latency {
        count: histogram.len(),
        mean: histogram.mean(),
        p50: histogram.value_at_quantile(0.5),
        p90: histogram.value_at_quantile(0.9),
        p99: histogram.value_at_quantile(0.99),
        p99_9: histogram.value_at_quantile(0.999),
        max: histogram.max(),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = Duration::from_millis(self.duration_ms).as_secs_f64();
        writeln!(
            f,
            "{}: {}, {}, {}, {seconds:.1} s, {}",
            self.operation,
            many(self.concurrency, "worker"),
            many(self.resources, "resource"),
            many(self.connections, "connection"),
            counted(self.nodes, "node")
        )?;
        writeln!(
            f,
            "\n  {:.0} operations a second ({} in all)",
            self.per_second, self.operations
        )?;
        writeln!(
            f,
            "  {} refused, {} failed, {} sends repeated",
            self.refused, self.failed, self.resends
        )?;
        for (kind, count) in &self.errors {
            writeln!(f, "    {count} {kind}")?;
        }
        writeln!(
            f,
            "\n  {:<9}{:>10}{:>10}{:>10}{:>10}{:>10}  ms",
            "", "p50", "p90", "p99", "p99.9", "max"
        )?;
        for (call, latency) in &self.latency_us {
            write!(f, "  {call:<9}")?;
            for micros in [
                latency.p50,
                latency.p90,
                latency.p99,
                latency.p99_9,
                latency.max,
            ] {
                write!(f, "{:>10.2}", micros as f64 / 1_000.0)?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}
