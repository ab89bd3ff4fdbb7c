//! A Python service under test: the right one as it stands, or with one change.

use std::{
    fs,
    net::{Ipv4Addr, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use tempfile::TempDir;

use crate::ports;
use crate::running::PATIENCE;

const SERVICES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/probe/services");

/// A running service. Dropping it ends it.
pub(crate) struct Service {
    child: Child,
    directory: TempDir,
    port: u16,
}

/// The text of the right service.
pub(crate) fn right() -> String {
    fs::read_to_string(Path::new(SERVICES).join("right.py")).unwrap()
}

/// The right service with changes; each old text must be there exactly once, so that a change of the
/// right one cannot turn a wrong one right in silence.
pub(crate) fn changed(changes: &[(&str, &str)]) -> String {
    let mut text = right();
    for (old, new) in changes {
        assert_eq!(text.matches(old).count(), 1, "{old:?} in the right service");
        text = text.replace(old, new);
    }
    text
}

impl Service {
    /// Starts a service with this text and an issuer that it expects, if any.
    pub(crate) fn start(text: &str, issuer: Option<&str>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let script = directory.path().join("service.py");
        fs::write(&script, text).unwrap();
        let port = ports::free();
        let mut command = Command::new("python3");
        command
            .arg(Path::new(SERVICES).join("restartable.py"))
            .arg(directory.path().join("started"))
            .arg(script)
            .arg(port.to_string())
            .arg(directory.path().join("notes.db"))
            .args(issuer)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null());
        let child = command.spawn().expect("python3 is there");
        let service = Self {
            child,
            directory,
            port,
        };
        service.wait_until_it_listens();
        service
    }

    fn wait_until_it_listens(&self) {
        let deadline = Instant::now() + PATIENCE;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).is_err() {
            assert!(Instant::now() < deadline, "the service does not listen");
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Where a resource is written and read.
    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/{{resource}}", self.port)
    }

    /// A command that restarts it, and returns once the old process is gone.
    pub(crate) fn restart_command(&self) -> String {
        let started = self.directory.path().join("started");
        let started = started.display();
        let process = self.child.id();
        format!(
            "rm {started} && kill -HUP {process} && until [ -e {started} ]; do sleep 0.01; done"
        )
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
