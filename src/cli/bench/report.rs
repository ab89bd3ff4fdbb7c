//! The result of single calls, for people and for scripts.

use super::super::acquire::millis;
use super::calls::Settings;
use super::latency::{HEAD, Latency, Row, many, rate};
use super::load::{Load, Operation};
use super::nodes::Spent;
use super::record::{Record, tell_errors};
use fencepost::client::NodeStatus;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

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
    /// The warm-up included.
    spent: Spent,
}

impl Report {
    pub(super) fn new(
        args: &Settings,
        load: &Load,
        status: &NodeStatus,
        took: Duration,
        record: &Record,
    ) -> Self {
        let operations = record.count();
        Self {
            operation: Operation::as_str(load.operation),
            concurrency: load.concurrency,
            connections: args.connections,
            resources: load.resources,
            ttl_ms: load.ttl.as_ms(),
            warm_up_ms: millis(args.warm_up),
            duration_ms: millis(took),
            cluster_id: status.cluster_id.clone(),
            nodes: status.members.iter().filter(|member| member.voter).count(),
            version: status.version.clone(),
            operations,
            per_second: rate(operations, took),
            refused: record.refused,
            failed: record.errors.count(),
            resends: 0,
            errors: record.errors.by_kind().clone(),
            latency_us: record.latencies(),
            spent: Spent::default(),
        }
    }

    pub(super) fn resends(mut self, resends: u64) -> Self {
        self.resends = resends;
        self
    }

    pub(super) fn spent(mut self, spent: Spent) -> Self {
        self.spent = spent;
        self
    }

    /// Nothing succeeded.
    pub(super) fn is_empty(&self) -> bool {
        self.operations == 0
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
            many(self.nodes, "node")
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
        tell_errors(f, &self.errors)?;
        self.spent.tell(f)?;
        writeln!(f, "\n{HEAD}")?;
        for (call, latency) in &self.latency_us {
            writeln!(f, "{}", Row(call, latency))?;
        }
        Ok(())
    }
}
