//! The one table of everything that can be set.
//!
//! A setting has one name. The flag is that name (`--peer-listen`), the environment variable is
//! `FENCEPOST_PEER_LISTEN`, the key in the TOML file is `peer_listen`; the help, the `--check` output
//! and the error messages are all made from this table, so that they cannot disagree.

/// How a setting is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It takes one value, written as text.
    Value,
    /// The flag stands alone; elsewhere it is `true` or `false`.
    Switch,
    /// A list of `id=host:port`; in TOML also a table.
    Peers,
}

/// One setting.
#[derive(Debug)]
pub struct Setting {
    /// Its name, in words joined by hyphens.
    pub name: &'static str,
    /// What stands for the value in the help.
    pub placeholder: &'static str,
    /// The value in force when nobody says otherwise. `None`: there is none, and its absence means
    /// what the help says.
    pub default: Option<&'static str>,
    /// How it is given.
    pub kind: Kind,
    /// The heading it stands under in the help.
    pub group: &'static str,
    /// What it does, its unit and its limits, in sentences.
    pub help: &'static str,
}

impl Setting {
    /// The environment variable.
    pub fn env(&self) -> String {
        format!("FENCEPOST_{}", self.name.replace('-', "_").to_uppercase())
    }

    /// The key in the TOML file.
    pub fn key(&self) -> String {
        self.name.replace('-', "_")
    }
}

/// The setting of this name.
pub fn find(name: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.name == name)
}

/// The file itself is named by a flag or by the environment alone.
pub const CONFIG_ENV: &str = "FENCEPOST_CONFIG";

const IDENTITY: &str = "Who this node is";
const ADDRESSES: &str = "Addresses";
const CLUSTER: &str = "The cluster";
const TIMING: &str = "Timing";
const STORAGE: &str = "Storage and limits";
const OUTPUT: &str = "Logs";

const fn value(
    name: &'static str,
    placeholder: &'static str,
    default: Option<&'static str>,
    group: &'static str,
    help: &'static str,
) -> Setting {
    Setting {
        name,
        placeholder,
        default,
        kind: Kind::Value,
        group,
        help,
    }
}

/// Every setting, in the order of the help.
pub const SETTINGS: &[Setting] = &[
    value(
        "node-id",
        "ID",
        None,
        IDENTITY,
        "The number of this node, from 1. Required. A cluster never takes a number back: a node that \
         lost its data comes back under a new one.",
    ),
    value(
        "data-dir",
        "DIR",
        None,
        IDENTITY,
        "The directory that holds everything this node has acknowledged. Required; made if it is not \
         there. One node, one directory, never copied and never emptied.",
    ),
    value(
        "issuer",
        "NAME",
        Some("fencepost"),
        IDENTITY,
        "The stable name of who issues: 1 to 80 characters, the same on all nodes. Tokens are compared \
         only within one issuer, so give every cluster a name of its own.",
    ),
    value(
        "listen",
        "IP:PORT",
        Some("127.0.0.1:7100"),
        ADDRESSES,
        "Where clients call (gRPC).",
    ),
    value(
        "advertise",
        "HOST:PORT",
        None,
        ADDRESSES,
        "Where clients reach --listen, as told to them. Without it the bound address; needed when \
         --listen is 0.0.0.0 or [::].",
    ),
    value(
        "peer-listen",
        "IP:PORT",
        Some("127.0.0.1:7200"),
        ADDRESSES,
        "Where the other nodes call.",
    ),
    value(
        "peer-advertise",
        "HOST:PORT",
        None,
        ADDRESSES,
        "Where the other nodes reach --peer-listen. Without it this node's entry in --peers, or the \
         bound address.",
    ),
    value(
        "http-listen",
        "IP:PORT",
        Some("127.0.0.1:7300"),
        ADDRESSES,
        "Where /metrics, /healthz and /readyz are served over HTTP.",
    ),
    Setting {
        name: "insecure",
        placeholder: "",
        default: Some("false"),
        kind: Kind::Switch,
        group: ADDRESSES,
        help: "Allow listening beyond this machine without TLS: everybody who reaches the ports can \
               take, release and revoke any grant, and pose as a node. Without it only loopback \
               addresses are accepted.",
    },
    Setting {
        name: "peers",
        placeholder: "ID=HOST:PORT,...",
        default: None,
        kind: Kind::Peers,
        group: CLUSTER,
        help: "The peer addresses of the founding nodes, this one included: 1, 3 or 5 of them, the same \
               list on every node. Needed to form a cluster; once formed, the stored membership wins.",
    },
    Setting {
        name: "join",
        placeholder: "",
        default: Some("false"),
        kind: Kind::Switch,
        group: CLUSTER,
        help: "Wait to be added to a running cluster (`fencepost cluster add-node`) and never form one. \
               Excludes --peers.",
    },
    value(
        "heartbeat",
        "TIME",
        Some("50ms"),
        TIMING,
        "How often the leader shows its followers that it lives: 10ms to 10s.",
    ),
    value(
        "election-min",
        "TIME",
        Some("150ms"),
        TIMING,
        "The shortest a follower waits without a sign of the leader before it stands for election: at \
         least three heartbeats.",
    ),
    value(
        "election-max",
        "TIME",
        Some("350ms"),
        TIMING,
        "The longest it waits: more than --election-min, at most 60s.",
    ),
    value(
        "snapshot-entries",
        "COUNT",
        Some("50000"),
        STORAGE,
        "A snapshot is taken, and the log before it dropped, after this many entries: 100 to \
         100000000.",
    ),
    value(
        "snapshot-bytes",
        "SIZE",
        Some("16MiB"),
        STORAGE,
        "Or after this much log, whichever comes first: 1MiB to 4GiB.",
    ),
    value(
        "max-in-flight",
        "COUNT",
        Some("4096"),
        STORAGE,
        "How many proposals may wait for their commit on the leader before new grants are refused with \
         RESOURCE_EXHAUSTED: 16 to 65536. Renewals and releases are never refused.",
    ),
    value(
        "max-connections",
        "COUNT",
        Some("10000"),
        STORAGE,
        "How many connections clients may have open at --listen, 16 to 1000000; one more is closed at \
         once. Each takes a file descriptor and some 20 KiB; a node allows fewer if the system gives it \
         fewer descriptors.",
    ),
    value(
        "max-calls",
        "COUNT",
        Some("32768"),
        STORAGE,
        "How many calls may be under way at a node, 16 to 1000000, each operation of a Pipeline counted and \
         waits in line aside; beyond it new ones get RESOURCE_EXHAUSTED, renewals and releases at twice as \
         many. Each takes up to some 4 KiB.",
    ),
    value(
        "max-pipelined",
        "COUNT",
        Some("4096"),
        STORAGE,
        "How many operations one Pipeline stream may have in flight before it is read no further, 16 to \
         65536. A large one counts for several; acquires that wait in line are counted apart.",
    ),
    value(
        "cache-size",
        "SIZE",
        Some("8MiB"),
        STORAGE,
        "Memory for the database's page cache: 1MiB to 4GiB.",
    ),
    value(
        "history-size",
        "SIZE",
        Some("8MiB"),
        STORAGE,
        "Memory for what happened lately, from which watches go on after a lost connection: about \
         25000 grants and ends of grants in 8MiB. 1MiB to 4GiB.",
    ),
    value(
        "max-watchers",
        "COUNT",
        Some("1000"),
        STORAGE,
        "How many watches may be open on this node at a time, further ones are refused with \
         RESOURCE_EXHAUSTED: 1 to 100000. Each may hold some hundred kilobytes that its reader has not \
         taken yet.",
    ),
    value(
        "free-space-floor",
        "SIZE",
        Some("256MiB"),
        STORAGE,
        "With less free space than this under --data-dir new grants are refused, while renewals and \
         releases go on: 0 to 1TiB. 0 turns it off.",
    ),
    value(
        "audit-log",
        "FILE",
        None,
        OUTPUT,
        "Append one JSON line for every applied entry to this file. Off without it. Nothing rotates \
         it: it grows with every grant and renewal.",
    ),
    value(
        "log-format",
        "FORMAT",
        Some("text"),
        OUTPUT,
        "How the log on standard error is written: text or json.",
    ),
    value(
        "log-level",
        "LEVEL",
        Some("info"),
        OUTPUT,
        "error, warn, info, debug or trace, or filters for parts such as \
         `info,fencepost::server::raft=debug`.",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_unique_and_well_formed() {
        let names: BTreeSet<_> = SETTINGS.iter().map(|setting| setting.name).collect();
        assert_eq!(names.len(), SETTINGS.len());
        for name in names {
            assert!(
                name.chars().all(|c| c.is_ascii_lowercase() || c == '-'),
                "{name}"
            );
        }
    }

    #[test]
    fn the_environment_variable_and_the_key_follow_from_the_name() {
        let setting = find("peer-listen").unwrap();
        assert_eq!(setting.env(), "FENCEPOST_PEER_LISTEN");
        assert_eq!(setting.key(), "peer_listen");
    }

    #[test]
    fn every_help_says_something_in_sentences() {
        for setting in SETTINGS {
            assert!(setting.help.ends_with('.'), "{}", setting.name);
            assert!(!setting.help.contains("  "), "{}", setting.name);
        }
    }
}
