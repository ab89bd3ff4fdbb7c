//! A run of the probe, and what it said.

use serde_json::Value;

use crate::running::{Running, fencepost};
use crate::service::Service;

/// A run that has ended.
pub(crate) struct Report {
    pub(crate) code: Option<i32>,
    pub(crate) printed: String,
}

/// What keeps a run short, unless a test says otherwise.
const SHORT: [[&str; 2]; 2] = [["--others", "20"], ["--idle", "10ms"]];

/// Probes with all that can be probed, so that nothing is left untried but for a reason.
pub(crate) fn probe(service: &Service, more: &[&str]) -> Report {
    let url = service.url();
    let restart = service.restart_command();
    let mut all = vec!["--read-url", &url, "--restart-command", &restart];
    all.extend(more);
    for short in SHORT.iter().filter(|short| !more.contains(&short[0])) {
        all.extend(short);
    }
    probe_url(&url, &all)
}

/// Probes a URL with these options only.
pub(crate) fn probe_url(url: &str, options: &[&str]) -> Report {
    run(&[&["guard", "probe", url], options].concat())
}

/// Runs `fencepost` with these arguments to its end.
pub(crate) fn run(arguments: &[&str]) -> Report {
    let mut running = Running::start(&mut fencepost(arguments));
    let status = running.end();
    Report {
        code: status.code(),
        printed: running.printed(),
    }
}

impl Report {
    /// The one object among what was printed, with `--output json`.
    pub(crate) fn json(&self) -> Value {
        let object = self.printed.lines().find(|line| line.starts_with('{'));
        serde_json::from_str(object.unwrap_or_else(|| panic!("no object: {}", self.printed)))
            .unwrap()
    }

    /// The names of the checks with an outcome.
    pub(crate) fn named(&self, outcome: &str) -> Vec<String> {
        let report = self.json();
        let checks = report["checks"].as_array().unwrap();
        checks
            .iter()
            .filter(|check| check["outcome"] == outcome)
            .map(|check| check["name"].as_str().unwrap().to_owned())
            .collect()
    }

    /// All that it found, in the order of the checks.
    pub(crate) fn findings(&self) -> Vec<Value> {
        let report = self.json();
        let checks = report["checks"].as_array().unwrap().iter();
        checks
            .filter_map(|check| check["findings"].as_array())
            .flatten()
            .cloned()
            .collect()
    }
}
