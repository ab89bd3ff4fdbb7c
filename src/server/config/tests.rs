//! Precedence, completeness, and errors that say what to do.

use super::*;

const FLAGS: [(&str, &str); 3] = [
    ("node-id", "1"),
    ("data-dir", "data"),
    ("peers", "1=127.0.0.1:7200"),
];

fn sources() -> Sources {
    Sources::from_flags(FLAGS)
}

fn with_file(mut sources: Sources, text: &str) -> Sources {
    sources.file = Some(("node.toml".to_owned(), text.to_owned()));
    sources
}

fn with_flag(name: &str, value: &str) -> Sources {
    let mut sources = sources();
    sources.flags.insert(name.to_owned(), value.to_owned());
    sources
}

fn variable(name: &str, value: &str) -> (String, String) {
    (name.to_owned(), value.to_owned())
}

/// The one error of a configuration.
fn error(sources: &Sources) -> String {
    let errors = Config::from_sources(sources).unwrap_err();
    assert_eq!(errors.0.len(), 1, "{errors}");
    errors.to_string()
}

#[test]
fn the_defaults_are_those_of_the_table() {
    let config = Config::from_sources(&sources()).unwrap();
    assert_eq!(config.listen.to_string(), "127.0.0.1:7100");
    assert_eq!(config.issuer.as_str(), "fencepost");
    assert_eq!(config.log_format, LogFormat::Text);
    assert_eq!(config.audit_log, None);
}

#[test]
fn flags_win_over_the_environment_over_the_file_over_the_default() {
    let file = "heartbeat = \"11ms\"\nlisten = \"127.0.0.1:1\"\nissuer = \"file\"\n";
    let environment = [
        variable("FENCEPOST_LISTEN", "127.0.0.1:2"),
        variable("FENCEPOST_ISSUER", "environment"),
        variable("FENCEPOST_LOG_LEVEL", ""),
        variable("OTHER_LISTEN", "127.0.0.1:9"),
    ];
    let sources = with_file(with_flag("issuer", "flag"), file).with_environment(environment);
    let config = Config::from_sources(&sources).unwrap();
    assert_eq!(config.issuer.as_str(), "flag");
    assert_eq!(config.listen.to_string(), "127.0.0.1:2");
    assert_eq!(config.heartbeat, Duration::from_millis(11));
    assert_eq!(config.log_level, "info", "an empty variable is not set");

    let report = report(&config);
    let line = |key: &str| {
        let found = report.lines().find(|line| line.starts_with(key));
        found
            .unwrap()
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(line("issuer"), "issuer = \"flag\" # flag --issuer");
    assert_eq!(
        line("listen"),
        "listen = \"127.0.0.1:2\" # environment FENCEPOST_LISTEN"
    );
    assert_eq!(
        line("heartbeat"),
        "heartbeat = \"11ms\" # file node.toml, key heartbeat"
    );
    assert_eq!(
        line("snapshot_bytes"),
        "snapshot_bytes = \"16MiB\" # default"
    );
    assert_eq!(line("# audit_log"), "# audit_log # not set");
}

#[test]
fn the_report_can_be_used_as_a_file() {
    let config = Config::from_sources(&sources()).unwrap();
    let text = report(&config);
    let again = Config::from_sources(&with_file(Sources::default(), &text)).unwrap();
    let values = |config: &Config| -> Vec<String> {
        config
            .given
            .values()
            .map(|given| given.text.clone())
            .collect()
    };
    assert_eq!(values(&config), values(&again));
}

#[test]
fn peers_may_be_a_table_in_the_file() {
    let mut sources = sources();
    sources.flags.remove("peers");
    let text = "[peers]\n1 = \"a:7200\"\n2 = \"b:7200\"\n3 = \"c:7200\"\n";
    let config = Config::from_sources(&with_file(sources, text)).unwrap();
    let Membership::Founding(peers) = config.membership else {
        panic!("founding nodes were listed");
    };
    assert_eq!(peers[&2], "b:7200");
}

#[test]
fn an_unknown_key_is_refused_with_the_nearest_one() {
    let message = error(&with_file(sources(), "peer_lisen = \"127.0.0.1:1\""));
    assert!(
        message.contains("`peer_lisen`; did you mean `peer_listen`?"),
        "{message}"
    );
    let message = error(&with_file(sources(), "zzz = 1"));
    assert!(!message.contains("did you mean"), "{message}");
}

#[test]
fn a_file_that_is_not_toml_or_has_other_types_is_refused() {
    assert!(error(&with_file(sources(), "issuer = ")).contains("not valid TOML"));
    let message = error(&with_file(sources(), "insecure = \"yes\""));
    assert!(
        message.contains("`insecure` must be true or false"),
        "{message}"
    );
    let missing = Sources::default().with_file(std::path::Path::new("no/such/file"));
    assert!(missing.unwrap_err().to_string().contains("no/such/file"));
}

#[test]
fn everything_that_is_wrong_is_told_at_once() {
    let sources = Sources::from_flags([
        ("node-id", "0"),
        ("listen", "7100"),
        ("heartbeat", "50"),
        ("cache-size", "64"),
        ("log-level", "fencepost=loud"),
    ]);
    let errors = Config::from_sources(&sources).unwrap_err().to_string();
    for name in [
        "node-id",
        "data-dir",
        "listen",
        "peers",
        "heartbeat",
        "cache-size",
        "log-level",
    ] {
        assert!(
            errors.lines().any(|line| line.starts_with(name)),
            "{name}: {errors}"
        );
    }
    assert!(errors.contains("FENCEPOST_DATA_DIR"), "{errors}");
}

#[test]
fn beyond_loopback_only_in_so_many_words() {
    for name in ["listen", "peer-listen", "http-listen"] {
        let mut sources = with_flag(name, "10.0.0.1:7100");
        assert!(error(&sources).contains("--insecure"), "{name}");
        sources
            .flags
            .insert("insecure".to_owned(), "true".to_owned());
        assert!(Config::from_sources(&sources).is_ok(), "{name}");
    }
    for loopback in ["127.0.0.2:0", "[::1]:0", "localhost:0"] {
        assert!(
            Config::from_sources(&with_flag("listen", loopback)).is_ok(),
            "{loopback}"
        );
    }
}

#[test]
fn listening_everywhere_needs_an_address_to_tell() {
    let mut sources = with_flag("listen", "0.0.0.0:7100");
    sources
        .flags
        .insert("insecure".to_owned(), "true".to_owned());
    assert!(error(&sources).starts_with("advertise is missing"));
    sources
        .flags
        .insert("advertise".to_owned(), "node-1.example:7100".to_owned());
    assert!(Config::from_sources(&sources).is_ok());
    // The own entry in the list says where peers reach this node.
    sources
        .flags
        .insert("peer-listen".to_owned(), "0.0.0.0:7200".to_owned());
    assert!(Config::from_sources(&sources).is_ok());
}

#[test]
fn a_node_founds_or_joins_and_stands_in_its_own_list() {
    assert!(error(&with_flag("join", "true")).contains("exclude each other"));
    let message = error(&with_flag("peers", "7=127.0.0.1:7200"));
    assert!(message.contains("does not name this node, 1"), "{message}");
    let mut sources = with_flag("join", "true");
    sources.flags.remove("peers");
    let config = Config::from_sources(&sources).unwrap();
    assert_eq!(config.membership, Membership::Join);
}

#[test]
fn timings_that_would_depose_healthy_leaders_are_refused() {
    assert!(error(&with_flag("heartbeat", "60ms")).contains("three heartbeats"));
    assert!(error(&with_flag("election-max", "150ms")).contains("not more than election-min"));
}

#[test]
fn two_listeners_do_not_share_a_port() {
    for (listen, peer_listen) in [
        ("127.0.0.1:7200", "127.0.0.1:7200"),
        ("0.0.0.0:7200", "127.0.0.1:7200"),
        ("127.0.0.1:7200", "[::]:7200"),
    ] {
        let mut sources = with_flag("listen", listen);
        sources.flags.extend([
            ("peer-listen".to_owned(), peer_listen.to_owned()),
            ("insecure".to_owned(), "true".to_owned()),
            ("advertise".to_owned(), "localhost:7200".to_owned()),
        ]);
        let error = error(&sources);
        assert!(
            error.starts_with("peer-listen") && error.contains("--listen"),
            "{error}"
        );
    }
    let mut any = with_flag("listen", "127.0.0.1:0");
    any.flags
        .insert("http-listen".to_owned(), "127.0.0.1:0".to_owned());
    assert!(Config::from_sources(&any).is_ok());
}

#[test]
fn a_word_that_is_no_level_is_not_taken_for_a_part() {
    for level in ["nonsense", "info,nonsense", "inf"] {
        let error = error(&with_flag("log-level", level));
        assert!(error.starts_with("log-level"), "{error}");
    }
    for level in [
        "warn",
        "OFF",
        "info,fencepost::server::raft=debug",
        "hyper=info,debug",
    ] {
        assert!(
            Config::from_sources(&with_flag("log-level", level)).is_ok(),
            "{level}"
        );
    }
}
