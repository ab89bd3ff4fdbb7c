//! `fencepost dev`: a cluster to play with, which goes on where it was.

use std::{net::TcpListener, path::Path, time::Duration};

use fencepost::{
    client::{AcquireOutcome, Client, Options},
    grant::Ttl,
};
use rustix::process::Signal;

use crate::running::{PATIENCE, Running, fencepost};

/// What the last line of the guide says; all is up when it is printed.
const UP: &str = "Ctrl-C";

/// A first port with room above it that nobody uses, below those of outgoing connections. `salt`
/// keeps the tests of one run apart.
fn port(salt: u16) -> u16 {
    let start = u16::try_from(std::process::id() % 250).unwrap();
    let free = |first: &u16| {
        let ports = [0, 100, 200].map(|stride| first + stride);
        let mut all = ports.iter().flat_map(|port| *port..*port + 5);
        all.all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok())
    };
    (0..250)
        .map(|step| 10_000 + salt * 1_000 + (start + step) % 250 * 2)
        .find(free)
        .unwrap()
}

fn dev(directory: &Path, arguments: &[&str]) -> Running {
    let directory = directory.to_str().unwrap();
    let arguments = [&["dev", "--dir", directory], arguments].concat();
    Running::start(&mut fencepost(&arguments))
}

fn refused(directory: &Path, arguments: &[&str], code: i32) -> String {
    let mut refused = dev(directory, arguments);
    let status = refused.end();
    assert_eq!(status.code(), Some(code), "{}", refused.printed());
    refused.printed()
}

async fn acquire(port: u16, holder: &str) -> AcquireOutcome {
    let endpoints = [format!("127.0.0.1:{port}")];
    let client = Client::connect(endpoints, Options::default().timeout(PATIENCE)).unwrap();
    let ttl = Ttl::try_from(Duration::from_secs(600)).unwrap();
    let (resource, holder) = ("report".parse().unwrap(), holder.parse().unwrap());
    client.acquire(&resource, &holder, ttl).await.unwrap()
}

#[tokio::test]
async fn it_stops_cleanly_and_goes_on_where_it_was() {
    let (directory, port) = (tempfile::tempdir().unwrap(), port(1));
    let text = port.to_string();
    let mut first = dev(directory.path(), &["--port", &text]);
    first.wait_for(UP);
    let AcquireOutcome::Granted(granted) = acquire(port, "me").await else {
        panic!("nobody holds it yet")
    };
    first.signal(Signal::INT);
    assert!(first.end().success(), "{}", first.printed());

    let mut again = dev(directory.path(), &[]);
    again.wait_for(UP);
    let AcquireOutcome::Held(held) = acquire(port + 2, "you").await else {
        panic!("the grant is gone:\n{}", again.printed())
    };
    assert_eq!(held.token, Some(granted.token));
    let AcquireOutcome::Granted(newer) = acquire(port + 1, "me").await else {
        panic!("the holder may ask anew")
    };
    assert!(newer.token > granted.token);
    again.signal(Signal::TERM);
    assert!(again.end().success(), "{}", again.printed());
}

#[test]
fn what_it_tells_one_to_try_works_as_it_stands() {
    let (directory, port) = (tempfile::tempdir().unwrap(), port(4));
    let mut dev = dev(directory.path(), &["--port", &port.to_string()]);
    dev.wait_for(UP);
    let printed = dev.printed();
    let export = printed
        .lines()
        .find(|line| line.contains("export FENCEPOST_ENDPOINTS"));
    let export = export.expect("these are not the usual ports");
    let program = env!("CARGO_BIN_EXE_fencepost");
    let tries = printed
        .lines()
        .filter(|line| line.trim_start().starts_with("./") || line.contains(program));
    let tries: Vec<_> = tries.filter(|line| line.starts_with("  ")).collect();
    assert_eq!(tries.len(), 5, "{printed}");
    for line in tries {
        let output = std::process::Command::new("sh")
            .args(["-c", &format!("{export}\n{line}")])
            .output()
            .unwrap();
        // The second one asks for what the first one has got.
        let code = if line.contains("--holder you") { 3 } else { 0 };
        assert_eq!(output.status.code(), Some(code), "{line}: {output:?}");
    }
}

#[test]
fn what_does_not_fit_the_directory_is_refused_with_the_way_out() {
    let (directory, port) = (tempfile::tempdir().unwrap(), port(2));
    let text = port.to_string();
    let mut one = dev(directory.path(), &["--nodes", "1", "--port", &text]);
    one.wait_for(UP);
    let busy = refused(directory.path(), &[], 11);
    assert!(
        busy.contains("another `fencepost dev` is running"),
        "{busy}"
    );
    one.signal(Signal::INT);
    assert!(one.end().success(), "{}", one.printed());

    let other = refused(directory.path(), &["--nodes", "3"], 10);
    assert!(
        other.contains("--nodes says 3") && other.contains("--dir"),
        "{other}"
    );
    let taken = TcpListener::bind(("127.0.0.1", port + 100)).unwrap();
    let busy = refused(directory.path(), &[], 15);
    assert!(
        busy.contains(&format!("127.0.0.1:{} is in use", port + 100)),
        "{busy}"
    );
    drop(taken);
    let even = refused(directory.path(), &["--nodes", "2"], 2);
    assert!(even.contains("1, 3 or 5"), "{even}");
}

#[tokio::test]
async fn an_ephemeral_cluster_leaves_nothing_behind() {
    let temporary = tempfile::tempdir().unwrap();
    let text = port(3).to_string();
    let mut command = fencepost(&["dev", "--ephemeral", "--nodes", "1", "--port", &text]);
    let mut dev = Running::start(command.env("TMPDIR", temporary.path()));
    dev.wait_for(UP);
    assert!(temporary.path().read_dir().unwrap().next().is_some());
    dev.signal(Signal::INT);
    assert!(dev.end().success(), "{}", dev.printed());
    assert!(
        temporary.path().read_dir().unwrap().next().is_none(),
        "files are left"
    );
}
