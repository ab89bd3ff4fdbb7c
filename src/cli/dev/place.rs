//! Where a development cluster lives: its directory, who else uses it, and its addresses.
//!
//! `dev.json` in the directory records how many nodes there are and where they listen. The peer
//! addresses are part of the cluster's membership, so a restart must come back to the same ones.

use std::{
    fs::{self, File, TryLockError},
    io,
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use super::super::{
    exit::{ADDRESS_IN_USE, CONFIGURATION, Failure, IDENTITY, UNEXPECTED},
    ports,
};

/// The first client port of a new cluster: where the client commands look by themselves.
pub(super) const FIRST_PORT: u16 = 7100;

/// Peers listen this far above the clients, and HTTP twice as far.
const STRIDE: u16 = 100;

/// How many runs of ports are tried before any free ones are taken.
const RUNS: u16 = 9;

const RECORD: &str = "dev.json";
const LOCK: &str = "dev.lock";
/// The meaning of the record; it rises if the meaning changes.
const RECORD_FORMAT: u64 = 1;

/// One node of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Seat {
    pub(super) id: u64,
    pub(super) client: SocketAddr,
    pub(super) peer: SocketAddr,
    pub(super) http: SocketAddr,
}

/// A directory that is ours while this lives.
pub(super) struct Place {
    pub(super) directory: PathBuf,
    pub(super) seats: Vec<Seat>,
    /// The cluster was there before.
    pub(super) goes_on: bool,
    /// The usual ports were busy, and others were taken.
    pub(super) moved: bool,
    _lock: File,
}

/// Tells whether nobody listens on an address.
pub(super) type Probe<'p> = &'p dyn Fn(SocketAddr) -> bool;

/// What the command line asks for; nothing where it leaves the choice.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Wanted {
    pub(super) nodes: Option<usize>,
    pub(super) port: Option<u16>,
}

impl Place {
    /// Takes the directory over: goes on with the cluster in it, or founds one.
    ///
    /// `is_free` tells whether nobody listens on an address.
    pub(super) fn open(directory: &Path, wanted: Wanted, is_free: Probe) -> Result<Self, Failure> {
        let shown = directory.display();
        let failed = |error: io::Error| {
            Failure::new(
                UNEXPECTED,
                format_args!("the directory {shown} cannot be used: {error}"),
            )
        };
        let record = directory.join(RECORD);
        let known = record.try_exists().map_err(failed)?;
        if !known {
            refuse_strangers(directory)?;
        }
        // Before anything is made, so that a busy port leaves no trace.
        let founded = match known {
            true => None,
            false => Some(found(wanted, is_free)?),
        };
        fs::create_dir_all(directory).map_err(failed)?;
        let lock = lock(directory)?;
        let (seats, moved) = match founded {
            None => (go_on(directory, &record, wanted, is_free)?, false),
            Some(founded) => founded,
        };
        if !known {
            // Written whole, then renamed: a crash leaves no half of it.
            let draft = directory.join("dev.json.new");
            fs::write(&draft, written(&seats)).map_err(failed)?;
            fs::rename(&draft, &record).map_err(failed)?;
        }
        Ok(Self {
            directory: directory.to_owned(),
            seats,
            goes_on: known,
            moved,
            _lock: lock,
        })
    }

    /// The data directory of a node.
    pub(super) fn data(&self, seat: &Seat) -> PathBuf {
        self.directory.join(format!("node-{}", seat.id))
    }
}

/// A directory with other things in it is somebody's, and not for us to fill.
fn refuse_strangers(directory: &Path) -> Result<(), Failure> {
    let ours = |name: &std::ffi::OsStr| name == LOCK || name == "dev.json.new";
    let Ok(entries) = fs::read_dir(directory) else {
        return Ok(());
    };
    let Some(stranger) = entries.flatten().find(|entry| !ours(&entry.file_name())) else {
        return Ok(());
    };
    let message = format!(
        "the directory {} is not one of `fencepost dev`: it has {:?} in it, but no {RECORD}",
        directory.display(),
        stranger.file_name()
    );
    Err(Failure::new(IDENTITY, message).hint("name another one with --dir"))
}

fn lock(directory: &Path) -> Result<File, Failure> {
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(directory.join(LOCK))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => {
            let shown = directory.display();
            let message = format!("another `fencepost dev` is running on {shown}");
            Err(Failure::new(IDENTITY, message)
                .hint("use that one, or start a second cluster with --dir or --ephemeral"))
        }
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

/// The seats of the cluster that is there, if they are what was asked for and nobody has taken them.
fn go_on(
    directory: &Path,
    record: &Path,
    wanted: Wanted,
    is_free: Probe,
) -> Result<Vec<Seat>, Failure> {
    let shown = directory.display();
    let text = fs::read_to_string(record)?;
    let seats = read(&text).map_err(|reason| {
        Failure::new(
            IDENTITY,
            format_args!("{} cannot be read: {reason}", record.display()),
        )
    })?;
    let differs = |has: String, flag: &str, wanted: usize| {
        let message = format!("the cluster in {shown} has {has}, and {flag} says {wanted}");
        Failure::new(CONFIGURATION, message)
            .hint(format_args!("leave {flag} out to go on with it"))
            .hint("or found another one beside it, with --dir OTHER or --ephemeral")
            .hint(format_args!(
                "or delete {shown} to begin anew; its grants and its place in the tokens are lost"
            ))
    };
    if let Some(nodes) = wanted.nodes.filter(|nodes| *nodes != seats.len()) {
        let has = match seats.len() {
            1 => "1 node".to_owned(),
            count => format!("{count} nodes"),
        };
        return Err(differs(has, "--nodes", nodes));
    }
    let first = seats.first().map_or(0, |seat| seat.client.port());
    if let Some(port) = wanted.port.filter(|port| *port != first) {
        return Err(differs(format!("port {first}"), "--port", port.into()));
    }
    refuse_busy(
        &seats,
        is_free,
        "its nodes know each other by these addresses; end what uses them",
    )?;
    Ok(seats)
}

/// Seats for a new cluster: on the wanted port, or the usual ones, or others if those are busy.
fn found(wanted: Wanted, is_free: Probe) -> Result<(Vec<Seat>, bool), Failure> {
    let nodes = wanted.nodes.unwrap_or(3);
    if let Some(port) = wanted.port {
        let Some(seats) = run_of(port, nodes) else {
            let message = format!("--port {port} leaves no room for the ports of {nodes} nodes");
            return Err(
                Failure::new(CONFIGURATION, message).hint("the last one must be at most 65535")
            );
        };
        refuse_busy(&seats, is_free, "name another first port with --port")?;
        return Ok((seats, false));
    }
    for run in 0..=RUNS {
        if let Some(seats) =
            run_of(FIRST_PORT + run * 10, nodes).filter(|seats| addresses(seats).all(is_free))
        {
            return Ok((seats, run > 0));
        }
    }
    let free = ports::free(nodes * 3, std::process::id())
        .ok_or_else(|| Failure::new(ADDRESS_IN_USE, "no free ports were found on 127.0.0.1"))?;
    let seats = (1..).zip(free.chunks_exact(3)).map(|(id, addresses)| Seat {
        id,
        client: addresses[0],
        peer: addresses[1],
        http: addresses[2],
    });
    Ok((seats.collect(), true))
}

/// Neighbouring ports from `first`; none if they do not exist.
fn run_of(first: u16, nodes: usize) -> Option<Vec<Seat>> {
    let nodes = u16::try_from(nodes).ok()?;
    first.checked_add(2 * STRIDE + nodes)?;
    let at = |port: u16| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let seat = |n: u16| Seat {
        id: u64::from(n) + 1,
        client: at(first + n),
        peer: at(first + STRIDE + n),
        http: at(first + 2 * STRIDE + n),
    };
    Some((0..nodes).map(seat).collect())
}

fn addresses(seats: &[Seat]) -> impl Iterator<Item = SocketAddr> {
    seats
        .iter()
        .flat_map(|seat| [seat.client, seat.peer, seat.http])
}

fn refuse_busy(seats: &[Seat], is_free: Probe, hint: &str) -> Result<(), Failure> {
    let Some(busy) = addresses(seats).find(|address| !is_free(*address)) else {
        return Ok(());
    };
    let message = format!("{busy} is in use by another process");
    Err(Failure::new(ADDRESS_IN_USE, message).hint(hint))
}

fn written(seats: &[Seat]) -> String {
    let nodes = seats.iter().map(|seat| {
        json!({
            "id": seat.id,
            "client": seat.client.to_string(),
            "peer": seat.peer.to_string(),
            "http": seat.http.to_string(),
        })
    });
    let record = json!({ "format": RECORD_FORMAT, "nodes": nodes.collect::<Vec<_>>() });
    format!("{record:#}\n")
}

fn read(text: &str) -> Result<Vec<Seat>, String> {
    let record: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if record["format"] != RECORD_FORMAT {
        return Err(format!(
            "its format is {}, not {RECORD_FORMAT}",
            record["format"]
        ));
    }
    let address = |node: &Value, name: &str| {
        let text = node[name].as_str().unwrap_or_default();
        text.parse()
            .map_err(|_| format!("{name} {text:?} is no address"))
    };
    let nodes = record["nodes"].as_array().map_or(&[][..], Vec::as_slice);
    let seat = |node: &Value| {
        Ok(Seat {
            id: node["id"].as_u64().ok_or("a node has no id")?,
            client: address(node, "client")?,
            peer: address(node, "peer")?,
            http: address(node, "http")?,
        })
    };
    let seats = nodes.iter().map(seat).collect::<Result<Vec<_>, String>>()?;
    match seats.len() {
        1 | 3 | 5 => Ok(seats),
        other => Err(format!("it names {other} nodes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(nodes: usize) -> Wanted {
        Wanted {
            nodes: Some(nodes),
            port: None,
        }
    }

    fn open(directory: &tempfile::TempDir, wanted: Wanted) -> Result<Place, Failure> {
        Place::open(directory.path(), wanted, &|_| true)
    }

    fn message(result: Result<Place, Failure>) -> String {
        format!("{:?}", result.err().expect("it is refused"))
    }

    #[test]
    fn a_restart_comes_back_to_the_same_addresses() {
        let directory = tempfile::tempdir().unwrap();
        let first = open(&directory, nodes(5)).unwrap();
        assert!(!first.goes_on);
        let seats = first.seats.clone();
        drop(first);
        let again = open(&directory, Wanted::default()).unwrap();
        assert!(again.goes_on);
        assert_eq!(again.seats, seats);
    }

    #[test]
    fn another_number_of_nodes_than_the_directory_has_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        drop(open(&directory, nodes(1)).unwrap());
        let refused = message(open(&directory, nodes(3)));
        assert!(
            refused.contains("has 1 node, and --nodes says 3"),
            "{refused}"
        );
        assert!(open(&directory, nodes(1)).is_ok());
    }

    #[test]
    fn a_directory_has_one_user_at_a_time() {
        let directory = tempfile::tempdir().unwrap();
        let _first = open(&directory, nodes(1)).unwrap();
        let refused = message(open(&directory, nodes(1)));
        assert!(refused.contains("another `fencepost dev`"), "{refused}");
    }

    #[test]
    fn a_directory_with_other_things_in_it_is_left_alone() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("thesis.txt"), "precious").unwrap();
        let refused = message(open(&directory, nodes(1)));
        assert!(refused.contains("thesis.txt"), "{refused}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_busy_port_is_named_when_the_cluster_must_have_it() {
        let directory = tempfile::tempdir().unwrap();
        let peer = open(&directory, nodes(3)).unwrap().seats[1].peer;
        let busy = Place::open(directory.path(), Wanted::default(), &|address| {
            address != peer
        });
        let refused = message(busy);
        assert!(refused.contains("127.0.0.1:7201 is in use"), "{refused}");
        assert!(open(&directory, Wanted::default()).is_ok());
    }

    #[test]
    fn a_new_cluster_moves_over_when_the_usual_ports_are_busy() {
        let directory = tempfile::tempdir().unwrap();
        let usual = |address: SocketAddr| address.port() != 7302;
        let place = Place::open(directory.path(), nodes(3), &usual).unwrap();
        assert!(place.moved);
        assert_eq!(place.seats, run_of(7110, 3).unwrap());
        let directory = tempfile::tempdir().unwrap();
        let wanted = Wanted {
            nodes: None,
            port: Some(7100),
        };
        let refused = message(Place::open(directory.path(), wanted, &usual));
        assert!(refused.contains("127.0.0.1:7302 is in use"), "{refused}");
        assert!(
            fs::read_dir(directory.path())
                .unwrap()
                .all(|it| it.unwrap().file_name() == LOCK)
        );
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_nothing_else_is() {
        let seats = run_of(7100, 3).unwrap();
        assert_eq!(read(&written(&seats)), Ok(seats.clone()));
        assert_eq!(seats[2].http.to_string(), "127.0.0.1:7302");
        for wrong in [
            "",
            "{}",
            "[]",
            r#"{"format":2,"nodes":[]}"#,
            r#"{"format":1,"nodes":[{}]}"#,
        ] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        assert!(read(&written(&seats[..2])).is_err());
        assert_eq!(run_of(65_400, 3), None);
    }
}
