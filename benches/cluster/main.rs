//! Figures of whole clusters: three real `fencepost serve` processes, durable, on loopback.
//!
//!     cargo bench --bench cluster -- failover    # from the leader's end to the next grant
//!     cargo bench --bench cluster -- memory      # of each node: with many leases, under many pairs
//!     cargo bench --bench cluster -- register    # what the cluster's own guard register costs
//!
//! Throughput and latency are `fencepost bench`'s business, against any running cluster. Nothing here
//! is asserted: the figures go to `docs/benchmarks.md`, with the machine that they were taken on.

#![allow(
    dead_code,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "shares the harness of tests/cluster; reads clocks to measure, and a panic is its failure"
)]

mod failover;
mod memory;
#[path = "../../tests/cluster/nodes/mod.rs"]
mod nodes;
mod register;
#[path = "../../tests/cluster/waiting.rs"]
mod waiting;

use fencepost::wire::v1::{AcquireRequest, acquire_response};

/// The measurements by name.
const USAGE: &str = "usage: cargo bench --bench cluster -- [failover] [memory] [register]";

#[tokio::main]
async fn main() {
    // Cargo adds `--bench`; everything else names a measurement. None means all of them.
    let asked: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| argument != "--bench")
        .collect();
    if let Some(unknown) = asked
        .iter()
        .find(|name| !["failover", "memory", "register"].contains(&name.as_str()))
    {
        eprintln!("{unknown} is not a measurement; {USAGE}");
        std::process::exit(2);
    }
    let wanted = |name: &str| asked.is_empty() || asked.iter().any(|asked| asked == name);
    if wanted("failover") {
        failover::measure().await;
    }
    if wanted("memory") {
        memory::measure().await;
    }
    if wanted("register") {
        register::measure().await;
    }
}

/// Asks `node` once for a resource.
async fn granted(calls: &nodes::calls::Calls, resource: String, ttl_ms: u64) -> Option<u64> {
    let message = AcquireRequest {
        resource,
        holder: "bench".into(),
        ttl_ms,
        ..AcquireRequest::default()
    };
    match calls.acquire(message).await.ok()?.outcome? {
        acquire_response::Outcome::Granted(granted) => granted.token.map(|token| token.value),
        _ => None,
    }
}
