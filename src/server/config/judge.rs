//! From texts to a configuration: each value alone first, then what they must be to each other.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf, time::Duration};

use super::{
    Config, ConfigError, Given, Membership, Sources,
    settings::find,
    values::{listen, number, peers, reachable, size, switch, time},
};

use crate::{
    resource::IssuerName,
    server::telemetry::{LogFormat, check_level},
};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// Hands out values one by one and collects what is wrong with them.
struct Judge {
    given: BTreeMap<&'static str, Given>,
    errors: Vec<ConfigError>,
}

impl Judge {
    /// The value of a setting that may be absent.
    fn optional<T>(&mut self, name: &str, read: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let given = self.given.get(name)?;
        match read(&given.text) {
            Ok(value) => Some(value),
            Err(message) => {
                self.wrong(name, message);
                None
            }
        }
    }

    /// The value of a setting that must be there.
    fn required<T>(&mut self, name: &str, read: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        if !self.given.contains_key(name) {
            let setting = find(name).expect("the settings asked for are in the table");
            let (env, key) = (setting.env(), setting.key());
            self.wrong(
                name,
                format!("is missing: give --{name}, {env}, or `{key}` in the file"),
            );
            return None;
        }
        self.optional(name, read)
    }

    fn wrong(&mut self, name: &str, message: impl Into<String>) {
        let setting = find(name).expect("the settings asked for are in the table");
        let source = self.given.get(name).map(|given| given.source.clone());
        self.errors.push(ConfigError {
            setting: Some((setting.name, source)),
            message: message.into(),
        });
    }

    fn membership(&mut self, node_id: Option<u64>) -> Option<Membership> {
        let join = self.required("join", switch)?;
        if join {
            if self.given.contains_key("peers") {
                self.wrong(
                    "peers",
                    "and --join exclude each other: a node either founds a cluster with its peers, or \
                     is added to one that runs",
                );
                return None;
            }
            return Some(Membership::Join);
        }
        if !self.given.contains_key("peers") {
            let id = node_id.unwrap_or(1);
            self.wrong(
                "peers",
                format!(
                    "is missing: list the founding nodes (--peers \
                     1=host:7200,2=host:7200,3=host:7200), or just this one for an experiment (--peers \
                     {id}=127.0.0.1:7200), or give --join to be added to a running cluster"
                ),
            );
            return None;
        }
        let list = self.optional("peers", peers)?;
        if let Some(id) = node_id.filter(|id| !list.contains_key(id)) {
            self.wrong(
                "peers",
                format!("does not name this node, {id}: every node is in its own list"),
            );
        }
        Some(Membership::Founding(list))
    }

    /// An address to listen on; beyond loopback only when that was said in so many words.
    fn listen(&mut self, name: &str, insecure: bool) -> Option<SocketAddr> {
        let address = self.required(name, listen)?;
        if !insecure && !address.ip().is_loopback() {
            self.wrong(
                name,
                format!(
                    "would listen on {}, beyond this machine, and without TLS everybody who reaches it \
                     could take or revoke any grant: use a loopback address, or say --insecure if the \
                     network itself keeps others out",
                    address.ip()
                ),
            );
        }
        Some(address)
    }

    fn advertised(
        &mut self,
        name: &str,
        listen_name: &str,
        listen: Option<SocketAddr>,
        known: bool,
    ) -> Option<String> {
        let advertised = self.optional(name, reachable);
        if let Some(listen) = listen.filter(|listen| listen.ip().is_unspecified())
            && !self.given.contains_key(name)
            && !known
        {
            let env = find(name)
                .expect("the settings asked for are in the table")
                .env();
            self.wrong(
                name,
                format!(
                    "is missing: give --{name} or {env}, as host:port; {listen_name} is {}, which says where to listen but not where others \
                     reach this node",
                    listen.ip()
                ),
            );
        }
        advertised
    }

    /// Each port has one listener; port 0 is a new one each time.
    fn ports(&mut self, listeners: [(&str, Option<SocketAddr>); 3]) {
        for (n, (name, address)) in listeners.iter().enumerate() {
            let before = listeners[..n].iter().find(|(_, other)| {
                let both = other.zip(*address);
                both.is_some_and(|(one, other)| collide(one, other))
            });
            if let Some((other, _)) = before {
                self.wrong(
                    name,
                    format!("is the port of --{other}, too: give each of them one of its own"),
                );
            }
        }
    }

    fn timing(&mut self) -> Option<(Duration, Duration, Duration)> {
        let (low, second, minute) = (
            Duration::from_millis(10),
            Duration::from_secs(1),
            Duration::from_secs(60),
        );
        let heartbeat = self.required("heartbeat", |text| time(text, low, 10 * second));
        let shortest = self.required("election-min", |text| time(text, 3 * low, minute));
        let longest = self.required("election-max", |text| time(text, 3 * low, minute));
        let (heartbeat, shortest, longest) = (heartbeat?, shortest?, longest?);
        if shortest < 3 * heartbeat {
            self.wrong(
                "election-min",
                format!(
                    "is {shortest:?}, less than three heartbeats of {heartbeat:?}: one late heartbeat \
                     would depose a healthy leader"
                ),
            );
        }
        if longest <= shortest {
            self.wrong(
                "election-max",
                format!(
                    "is {longest:?}, not more than election-min, {shortest:?}: nodes that wait equally \
                     long keep standing against each other"
                ),
            );
        }
        Some((heartbeat, shortest, longest))
    }
}

/// Whether two listeners would want the same port.
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let everywhere = one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port() && one.port() != 0 && (everywhere || one.ip() == other.ip())
}

fn issuer(text: &str) -> Result<IssuerName, String> {
    IssuerName::new(text).map_err(|error| format!("is not valid: {error}"))
}

fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() {
        Err("must not be empty".to_owned())
    } else {
        Ok(PathBuf::from(text))
    }
}

fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(format!("must be text or json, not `{text}`")),
    }
}

fn log_level(text: &str) -> Result<String, String> {
    check_level(text)
        .map(|()| text.to_owned())
        .map_err(|error| {
            format!("must be error, warn, info, debug or trace, or filters for parts: {error}")
        })
}

/// Reads everything, so that everything wrong is found, and puts it together if nothing was.
pub(super) fn judge(sources: &Sources) -> Result<Config, Vec<ConfigError>> {
    let mut errors = Vec::new();
    let given = sources.resolve(&mut errors);
    let mut judge = Judge { given, errors };
    match (all(&mut judge), judge.errors.is_empty()) {
        (Some(mut config), true) => {
            config.given = judge.given;
            Ok(config)
        }
        _ => Err(judge.errors),
    }
}

/// `None` only when an error was noted.
fn all(judge: &mut Judge) -> Option<Config> {
    let node_id = judge.required("node-id", |text| number(text, 1, u64::MAX));
    let data_dir = judge.required("data-dir", path);
    let issuer = judge.required("issuer", issuer);
    let insecure = judge.required("insecure", switch);
    let listen = judge.listen("listen", insecure.unwrap_or(false));
    let advertise = judge.advertised("advertise", "listen", listen, false);
    let peer_listen = judge.listen("peer-listen", insecure.unwrap_or(false));
    let membership = judge.membership(node_id);
    let listed = matches!(membership, Some(Membership::Founding(_)));
    let peer_advertise = judge.advertised("peer-advertise", "peer-listen", peer_listen, listed);
    let http_listen = judge.listen("http-listen", insecure.unwrap_or(false));
    judge.ports([
        ("listen", listen),
        ("peer-listen", peer_listen),
        ("http-listen", http_listen),
    ]);
    let timing = judge.timing();
    let snapshot_entries = judge.required("snapshot-entries", |t| number(t, 100, 100_000_000));
    let snapshot_bytes = judge.required("snapshot-bytes", |t| size(t, MIB, 4 * GIB));
    let in_flight_max = judge.required("max-in-flight", |t| number(t, 16, 65_536));
    let connections_max = judge.required("max-connections", |t| number(t, 16, 1_000_000));
    let calls_max = judge.required("max-calls", |t| number(t, 16, 1_000_000));
    let pipelined_max = judge.required("max-pipelined", |t| number(t, 16, 65_536));
    let cache_bytes = judge.required("cache-size", |t| size(t, MIB, 4 * GIB));
    let history_bytes = judge.required("history-size", |t| size(t, MIB, 4 * GIB));
    let watchers_max = judge.required("max-watchers", |t| number(t, 1, 100_000));
    let free_bytes_min = judge.required("free-space-floor", |t| size(t, 0, TIB));
    let audit_log = judge.optional("audit-log", path);
    let log_format = judge.required("log-format", log_format);
    let log_level = judge.required("log-level", log_level);
    let (heartbeat, election_min, election_max) = timing?;
    Some(Config {
        node_id: node_id?,
        data_dir: data_dir?,
        issuer: issuer?,
        listen: listen?,
        advertise,
        peer_listen: peer_listen?,
        peer_advertise,
        http_listen: http_listen?,
        insecure: insecure?,
        membership: membership?,
        heartbeat,
        election_min,
        election_max,
        snapshot_entries: snapshot_entries?,
        snapshot_bytes: snapshot_bytes?,
        in_flight_max: usize::try_from(in_flight_max?).expect("at most 65,536"),
        connections_max: usize::try_from(connections_max?).expect("at most a million"),
        calls_max: usize::try_from(calls_max?).expect("at most a million"),
        pipelined_max: usize::try_from(pipelined_max?).expect("at most 65,536"),
        cache_bytes: cache_bytes?,
        history_bytes: history_bytes?,
        watchers_max: usize::try_from(watchers_max?).expect("at most 100,000"),
        free_bytes_min: free_bytes_min?,
        audit_log,
        log_format: log_format?,
        log_level: log_level?,
        given: BTreeMap::new(),
    })
}
