//! What a node tells about itself: its log, its metrics, its health.

mod http;
mod logging;
mod metrics;
mod snapshot;
mod table;

pub use http::{Probe, serve};
pub use logging::{LogFormat, check_level, start as start_logging};
pub use metrics::{CallMetrics, Count, Level, Metrics, Spread};
pub use snapshot::{ROLES, Snapshot};
pub use table::{METRICS, Metric, MetricKind};

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::server::port::EntranceCounts;

    /// A node that has done a little of everything.
    fn busy() -> Metrics {
        let metrics = Metrics::new("issuer", 1);
        for (counter, label) in [
            (metrics.renewals("renewed"), "renewed"),
            (metrics.releases("released"), "released"),
            (metrics.expiries("expired"), "expired"),
            (metrics.refusals("held"), "held"),
            (metrics.failures("OVERLOADED"), "OVERLOADED"),
            (metrics.proposals("acquire"), "acquire"),
            (metrics.hand_overs("promotion"), "promotion"),
            (metrics.places_left("detached"), "detached"),
            (metrics.admissions("stale"), "stale"),
            (metrics.tokens_ahead("report"), "report"),
        ] {
            counter.inc();
            assert!(
                metrics.encode().contains(&format!("\"{label}\"")),
                "{label}"
            );
        }
        metrics.call("Acquire").observe(Duration::from_millis(3));
        metrics.set(&Snapshot {
            role: "leader",
            term: 7,
            ports: vec![("client", EntranceCounts::default())],
            ready: true,
            ..Snapshot::default()
        });
        metrics
    }

    #[test]
    fn everything_in_the_table_is_scraped_with_its_help_and_nothing_else_is() {
        let text = busy().encode();
        for row in METRICS {
            let family = match row.kind {
                MetricKind::Counter => row.name.trim_end_matches("_total"),
                _ => row.name,
            };
            assert!(
                text.contains(&format!("# HELP {family} {}\n", row.help)),
                "{family}"
            );
            assert!(
                text.contains(&format!("\n{}", row.name)),
                "{} has a value",
                row.name
            );
            for label in row.labels {
                assert!(text.contains(&format!("{label}=\"")), "{family} {label}");
            }
        }
        assert_eq!(text.matches("# HELP ").count(), METRICS.len());
        assert!(text.ends_with("# EOF\n"));
    }

    #[test]
    fn a_scrape_shows_the_state_of_the_node() {
        let text = busy().encode();
        for line in [
            "fencepost_term 7",
            "fencepost_ready 1",
            "fencepost_role{role=\"leader\"} 1",
            "fencepost_role{role=\"follower\"} 0",
            "fencepost_calls_total{method=\"Acquire\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
    }
}
