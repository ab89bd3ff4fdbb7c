//! File descriptors: as many as the system gives, and no more connections than leave some over.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::server::config::Config;

/// What a node needs beside its clients: the database, the audit log, peers, probes, and some to spare.
const OTHERS: u64 = 512;

/// Raises the number of descriptors that this process may have to what it is allowed to ask for: shells
/// and service managers often begin with 1,024.
pub(super) fn raise() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    let raised = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(
            %error,
            current = limit.current,
            "the number of file descriptors could not be raised"
        );
    }
}

/// So many clients may be connected: what the configuration says, or what the descriptors allow.
pub(super) fn connections_max(config: &Config) -> usize {
    let Some(descriptors) = getrlimit(Resource::Nofile).current else {
        return config.connections_max;
    };
    let allowed = descriptors.saturating_sub(OTHERS).max(descriptors / 2);
    let allowed = usize::try_from(allowed).unwrap_or(usize::MAX);
    if allowed < config.connections_max {
        tracing::warn!(
            descriptors,
            allowed,
            configured = config.connections_max,
            "too few file descriptors for max-connections: raise the limit (ulimit -n, LimitNOFILE)"
        );
    }
    allowed.min(config.connections_max)
}
