//! What the nodes spend on a load, read from their own metrics, beside what this program spends itself.
//!
//! The nodes tell what they spend on their HTTP ports, which a client's connection does not know of: so
//! those are named apart, with `--metrics`, and without them only this program's own CPU time is told.

use super::super::exit::{Failure, UNAVAILABLE};
use super::latency::{many, rate};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// How long a node may take to show its metrics, under full load.
const PAGE_MAX: Duration = Duration::from_secs(5);

/// A page of metrics is a few ten kilobytes.
const PAGE_BYTES_MAX: u64 = 4 << 20;

/// Where a load finds room, and who tells what it costs there: options of all loads.
#[derive(Debug, Clone, clap::Args)]
pub(super) struct Site {
    /// What the names of resources and holders begin with
    #[arg(long, default_value = "bench")]
    pub(super) prefix: String,

    /// HTTP ports of all nodes, as host:port separated by commas: tells what the nodes spend, too.
    /// Of `fencepost dev`, name the leader's only: its nodes are one process
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(super) metrics: Vec<String>,
}

/// What has been spent up to a moment.
#[derive(Debug, Clone, Default)]
pub(super) struct Sample {
    own_cpu: f64,
    nodes: Vec<Node>,
}

/// What one node tells.
#[derive(Debug, Clone, Default, PartialEq)]
struct Node {
    cpu: f64,
    resident_bytes: u64,
    /// By command; those of a leader.
    proposals: BTreeMap<String, u64>,
}

/// What was spent between two moments. Its field names are stable.
#[derive(Debug, Clone, Default, Serialize)]
pub(super) struct Spent {
    /// Of this program, user and system.
    own_cpu_seconds: f64,
    /// Of each node, in the order of `--metrics`.
    node_cpu_seconds: Vec<f64>,
    /// Of each node at the end.
    pub(super) node_resident_bytes: Vec<u64>,
    /// Log entries proposed, by command, over all nodes.
    log_entries: BTreeMap<String, u64>,
    #[serde(skip)]
    time: Duration,
    /// Over how many operations, those of the warm-up included.
    operations: u64,
}

impl Site {
    /// Reads what has been spent so far.
    pub(super) async fn sample(&self) -> Result<Sample, Failure> {
        let mut nodes = Vec::new();
        for address in &self.metrics {
            let read = tokio::time::timeout(PAGE_MAX, page(address)).await;
            let read = read.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            let text = read.map_err(|error| {
                let what = format_args!("cannot read http://{address}/metrics: {error}");
                Failure::new(UNAVAILABLE, what).hint("--metrics takes the nodes' --http-listen.")
            })?;
            nodes.push(Node::read(&text));
        }
        Ok(Sample {
            own_cpu: own_cpu(),
            nodes,
        })
    }

    /// Reads what has been spent since `start`, `time` ago.
    pub(super) async fn spent_since(
        &self,
        start: &Sample,
        time: Duration,
    ) -> Result<Spent, Failure> {
        Ok(self.sample().await?.since(start, time))
    }
}

impl Sample {
    fn since(self, start: &Self, time: Duration) -> Spent {
        let mut spent = Spent {
            own_cpu_seconds: self.own_cpu - start.own_cpu,
            time,
            ..Spent::default()
        };
        for (node, before) in self.nodes.into_iter().zip(&start.nodes) {
            spent.node_cpu_seconds.push(node.cpu - before.cpu);
            spent.node_resident_bytes.push(node.resident_bytes);
            for (command, count) in node.proposals {
                let before = before.proposals.get(&command).copied().unwrap_or(0);
                *spent.log_entries.entry(command).or_default() += count.saturating_sub(before);
            }
        }
        spent.log_entries.retain(|_, count| *count > 0);
        spent
    }

    /// Memory of each node that is in RAM, in bytes.
    pub(super) fn resident_bytes(&self) -> Vec<u64> {
        self.nodes.iter().map(|node| node.resident_bytes).collect()
    }
}

impl Spent {
    /// What was spent on so many operations.
    pub(super) fn over(mut self, operations: u64) -> Self {
        self.operations = operations;
        self
    }

    /// How many log entries of `command` a second; `None` without metrics.
    pub(super) fn entries_per_second(&self, command: &str) -> Option<f64> {
        let count = self.log_entries.get(command).copied().unwrap_or(0);
        (!self.node_cpu_seconds.is_empty()).then(|| rate(count, self.time))
    }

    /// Writes it for people, with what each operation cost.
    pub(super) fn tell(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let each = |seconds: f64| seconds * 1e6 / self.operations.max(1) as f64;
        let own = self.own_cpu_seconds;
        write!(
            f,
            "  CPU: this program {own:.1} s ({:.1} us each)",
            each(own)
        )?;
        if self.node_cpu_seconds.is_empty() {
            return writeln!(f);
        }
        let all: f64 = self.node_cpu_seconds.iter().sum();
        let nodes = many(self.node_cpu_seconds.len(), "node");
        writeln!(f, ", {nodes} {all:.1} s ({:.1} us each)", each(all))?;
        writeln!(
            f,
            "  memory of the nodes: {}",
            mebibytes(&self.node_resident_bytes)
        )?;
        let entries = self.log_entries.iter();
        let entries =
            entries.map(|(command, count)| format!("{:.1} {command}", rate(*count, self.time)));
        writeln!(
            f,
            "  log entries a second: {}",
            entries.collect::<Vec<_>>().join(", ")
        )
    }
}

/// `101, 99, 98 MiB`.
pub(super) fn mebibytes(bytes: &[u64]) -> String {
    let each = bytes.iter().map(|bytes| format!("{}", bytes >> 20));
    format!("{} MiB", each.collect::<Vec<_>>().join(", "))
}

impl Node {
    /// Reads a page in the OpenMetrics text format; what is not there counts as 0.
    fn read(page: &str) -> Self {
        let mut node = Self::default();
        for (name, value) in page.lines().filter_map(|line| line.rsplit_once(' ')) {
            match name {
                "fencepost_process_cpu_seconds_total" => node.cpu = value.parse().unwrap_or(0.0),
                "fencepost_process_resident_bytes" => {
                    node.resident_bytes = value.parse().unwrap_or(0);
                }
                _ => {
                    let labels = name.strip_prefix("fencepost_proposals_total{command=\"");
                    let command = labels.and_then(|labels| labels.strip_suffix("\"}"));
                    if let (Some(command), Ok(count)) = (command, value.parse()) {
                        node.proposals.insert(command.to_owned(), count);
                    }
                }
            }
        }
        node
    }
}

/// Reads a node's page of metrics. HTTP/1.0, so that the body ends with the connection.
async fn page(address: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream
        .take(PAGE_BYTES_MAX)
        .read_to_string(&mut answer)
        .await?;
    let status = answer.split(' ').nth(1);
    match answer.split_once("\r\n\r\n") {
        Some((_, page)) if status == Some("200") => Ok(page.to_owned()),
        _ => Err(io::Error::other("what answers there shows no metrics")),
    }
}

/// CPU time of this process, in seconds.
fn own_cpu() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "# TYPE fencepost_proposals counter\n\
        fencepost_proposals_total{command=\"renew\"} 10\n\
        fencepost_process_resident_bytes 1048576\n\
        fencepost_process_cpu_seconds_total 1.5\n\
        # EOF\n";
    const AFTER: &str = "fencepost_proposals_total{command=\"renew\"} 40\n\
        fencepost_proposals_total{command=\"acquire\"} 5\n\
        fencepost_proposals_total{command=\"release\"} 0\n\
        fencepost_process_resident_bytes 3145728\n\
        fencepost_process_cpu_seconds_total 4.0\n";

    fn sample(pages: &[&str]) -> Sample {
        Sample {
            own_cpu: 0.0,
            nodes: pages.iter().map(|page| Node::read(page)).collect(),
        }
    }

    #[test]
    fn what_was_spent_is_the_difference_of_two_pages() {
        let (before, after) = (sample(&[BEFORE, BEFORE]), sample(&[AFTER, BEFORE]));
        let spent = after.since(&before, Duration::from_secs(10));
        assert_eq!(spent.node_cpu_seconds, [2.5, 0.0]);
        assert_eq!(spent.node_resident_bytes, [3 << 20, 1 << 20]);
        assert_eq!(spent.entries_per_second("renew"), Some(3.0));
        assert_eq!(spent.entries_per_second("acquire"), Some(0.5));
        assert!(
            !spent.log_entries.contains_key("release"),
            "nothing was released"
        );
        assert_eq!(mebibytes(&spent.node_resident_bytes), "3, 1 MiB");
    }

    #[test]
    fn without_metrics_nothing_is_claimed_of_the_nodes() {
        let spent = sample(&[]).since(&sample(&[]), Duration::from_secs(1));
        assert_eq!(spent.entries_per_second("renew"), None);
    }
}
