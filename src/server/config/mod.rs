//! The configuration of a node: complete and checked before a port is bound or a file is touched.
//!
//! Flags win over `FENCEPOST_*` variables, these over the TOML file, that over the defaults. All
//! mistakes are told at once, not one a start.

mod judge;
mod report;
pub mod settings;
mod sources;
#[cfg(test)]
mod tests;
mod values;

use std::{collections::BTreeMap, fmt, net::SocketAddr, path::PathBuf, time::Duration};

use crate::{resource::IssuerName, server::telemetry::LogFormat};

pub use report::report;
pub use sources::{Given, Source, Sources};

/// A mistake in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The setting, and who gave it, when it is about one.
    pub setting: Option<(&'static str, Option<Source>)>,
    /// What is wrong and what would be right.
    pub message: String,
}

impl ConfigError {
    fn general(message: impl Into<String>) -> Self {
        ConfigError {
            setting: None,
            message: message.into(),
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.setting {
            Some((name, Some(source))) => write!(f, "{name} ({source}) {}", self.message),
            Some((name, None)) => write!(f, "{name} {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// Everything that is wrong.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct ConfigErrors(pub Vec<ConfigError>);

/// How the cluster is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Membership {
    /// By the founding list: node id to peer address, this node included.
    Founding(BTreeMap<u64, String>),
    /// By being added to one that runs.
    Join,
}

/// A checked configuration.
#[derive(Clone, Debug)]
pub struct Config {
    /// This node's number, from 1.
    pub node_id: u64,
    /// Where everything is kept.
    pub data_dir: PathBuf,
    /// Who issues.
    pub issuer: IssuerName,
    /// Where clients call.
    pub listen: SocketAddr,
    /// What clients are told instead of the bound address.
    pub advertise: Option<String>,
    /// Where peers call.
    pub peer_listen: SocketAddr,
    /// What peers are told instead of the bound address.
    pub peer_advertise: Option<String>,
    /// Where metrics and probes are.
    pub http_listen: SocketAddr,
    /// Listening beyond loopback without TLS was asked for.
    pub insecure: bool,
    /// How the cluster is found.
    pub membership: Membership,
    /// The leader's sign of life.
    pub heartbeat: Duration,
    /// The shortest wait before an election.
    pub election_min: Duration,
    /// The longest.
    pub election_max: Duration,
    /// Log entries between snapshots.
    pub snapshot_entries: u64,
    /// Log bytes between snapshots.
    pub snapshot_bytes: u64,
    /// Proposals in flight before new grants are refused.
    pub in_flight_max: usize,
    /// Connections of clients before further ones are closed.
    pub connections_max: usize,
    /// Calls under way before new ones are refused, waits in line aside.
    pub calls_max: usize,
    /// Operations in flight on one stream before it is read no further.
    pub pipelined_max: usize,
    /// Page cache of the database, bytes.
    pub cache_bytes: u64,
    /// Memory for what happened lately, bytes.
    pub history_bytes: u64,
    /// Watches that may be open at a time.
    pub watchers_max: usize,
    /// Free bytes under the data directory below which new grants are refused.
    pub free_bytes_min: u64,
    /// Where applied entries are told.
    pub audit_log: Option<PathBuf>,
    /// How the log is written.
    pub log_format: LogFormat,
    /// What is logged.
    pub log_level: String,
    /// What each setting was given as, and by whom; for `--check`.
    pub given: BTreeMap<&'static str, Given>,
}

impl Config {
    /// Judges what the sources say.
    ///
    /// # Errors
    ///
    /// Everything that is wrong, in the order of the settings.
    pub fn from_sources(sources: &Sources) -> Result<Config, ConfigErrors> {
        judge::judge(sources).map_err(ConfigErrors)
    }
}
