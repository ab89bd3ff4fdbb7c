//! The counts as text that Prometheus and its relatives read.

use std::fmt::{self, Write as _};

use super::{Counts, Mode, Watch};

type Counter = (&'static str, &'static str, fn(&Counts) -> u64);

/// Name, help, and the count of it; the same names are in `docs/monitoring.md`.
const COUNTERS: [Counter; 8] = [
    (
        "fencepost_guard_admitted",
        "Calls that the rules admitted.",
        |counts| counts.admitted,
    ),
    (
        "fencepost_guard_stale",
        "Calls whose token was below the mark.",
        |counts| counts.stale,
    ),
    (
        "fencepost_guard_foreign",
        "Calls with a token of another issuer or for another resource.",
        |counts| counts.foreign,
    ),
    (
        "fencepost_guard_missing",
        "Calls without a token.",
        |counts| counts.missing,
    ),
    (
        "fencepost_guard_invalid",
        "Calls with a token that cannot be read.",
        |counts| counts.invalid,
    ),
    (
        "fencepost_guard_errors",
        "Calls that could not be judged because the store of the marks failed.",
        |counts| counts.errors,
    ),
    (
        "fencepost_guard_overlooked",
        "Calls that went through only because the guard observes.",
        |counts| counts.overlooked,
    ),
    (
        "fencepost_guard_ahead",
        "Admitted tokens that their issuer never issued.",
        |counts| counts.ahead,
    ),
];

const ENFORCING: &str = "fencepost_guard_enforcing";
const HIGHEST: &str = "fencepost_guard_highest_token";

/// The metrics of these watches in the OpenMetrics text format, without the closing `# EOF`, so that
/// it can be put in front of a service's own. Give all watches in one call, each with a name of its own:
/// a metric may be described once only.
///
/// A service that has no metrics yet serves it as
/// `application/openmetrics-text; version=1.0.0; charset=utf-8`, with `# EOF\n` behind it.
#[must_use]
pub fn openmetrics<'w>(watches: impl IntoIterator<Item = &'w Watch>) -> String {
    let watches: Vec<&Watch> = watches.into_iter().collect();
    let mut text = String::new();
    write(&mut text, &watches).expect("a String takes everything");
    text
}

fn write(text: &mut String, watches: &[&Watch]) -> fmt::Result {
    let counts: Vec<Counts> = watches.iter().map(|watch| watch.counts()).collect();
    for (name, help, count) in COUNTERS {
        describe(text, name, "counter", help)?;
        for (watch, counts) in watches.iter().zip(&counts) {
            let guard = label(watch.name());
            writeln!(text, "{name}_total{{guard=\"{guard}\"}} {}", count(counts))?;
        }
    }
    let help = "1 while the guard refuses, 0 while it observes.";
    describe(text, ENFORCING, "gauge", help)?;
    for watch in watches {
        let guard = label(watch.name());
        let enforcing = u8::from(watch.mode() == Mode::Enforce);
        writeln!(text, "{ENFORCING}{{guard=\"{guard}\"}} {enforcing}")?;
    }
    let help = "The highest token that was admitted, of any resource.";
    describe(text, HIGHEST, "gauge", help)?;
    for watch in watches {
        let guard = label(watch.name());
        for (issuer, token) in watch.highest() {
            let issuer = label(issuer.as_str());
            writeln!(
                text,
                "{HIGHEST}{{guard=\"{guard}\",issuer=\"{issuer}\"}} {token}"
            )?;
        }
    }
    Ok(())
}

fn describe(text: &mut String, name: &str, kind: &str, help: &str) -> fmt::Result {
    writeln!(text, "# HELP {name} {help}")?;
    writeln!(text, "# TYPE {name} {kind}")
}

/// A label's value, with what would end it written otherwise.
fn label(value: &str) -> String {
    value
        .replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_the_text() {
        let watch = Watch::new("a\"b\\c\nd", Mode::Observe);
        let text = openmetrics([&watch]);
        let line = r#"fencepost_guard_stale_total{guard="a\"b\\c\nd"} 0"#;
        assert!(text.lines().any(|found| found == line), "{text}");
    }
}
