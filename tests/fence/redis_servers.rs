//! Redis servers of a test's own, with settings of its own, that can be killed and started again.

use std::{
    os::unix::{net::UnixStream, process::CommandExt as _},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use redis::aio::MultiplexedConnection;

use crate::stores::connect;

/// One server and its directory, which outlives the process.
pub(crate) struct Server {
    directory: tempfile::TempDir,
    settings: Vec<String>,
    process: Child,
}

impl Server {
    /// `None`, said aloud, where there is no Redis; a panic where nothing may be skipped.
    pub(crate) fn start(settings: &[&str]) -> Option<Self> {
        if Command::new("redis-server")
            .arg("--version")
            .output()
            .is_err()
        {
            let skipped = "skipped: redis-server is not installed on this machine";
            assert!(std::env::var_os("CI").is_none(), "{skipped}");
            println!("{skipped}");
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let settings: Vec<_> = settings.iter().map(|&word| word.to_owned()).collect();
        let process = spawn(&directory, &settings);
        Some(Self {
            directory,
            settings,
            process,
        })
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("socket")
    }

    pub(crate) fn url(&self) -> String {
        format!("redis+unix://{}", self.socket().display())
    }

    pub(crate) async fn connect(&self) -> MultiplexedConnection {
        connect(&self.url()).await
    }

    /// As `kill -9`.
    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        std::fs::remove_file(self.socket()).unwrap();
    }

    pub(crate) fn start_again(&mut self) {
        self.process = spawn(&self.directory, &self.settings);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have been killed already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts it, and waits until it has read its data.
fn spawn(directory: &tempfile::TempDir, settings: &[String]) -> Child {
    let socket = directory.path().join("socket");
    let mut command = Command::new("setpriv");
    // Whatever ends this test ends its server.
    command
        .args(["--pdeathsig", "KILL", "redis-server", "--save", ""])
        .arg("--dir")
        .arg(directory.path())
        .arg("--unixsocket")
        .arg(&socket)
        .args(settings)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .process_group(0);
    let process = command.spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while !answers(&socket) {
        assert!(Instant::now() < deadline, "Redis does not answer");
        std::thread::sleep(Duration::from_millis(5));
    }
    process
}

/// Whether it answers a ping, and with more than that it is loading.
fn answers(socket: &std::path::Path) -> bool {
    use std::io::{Read as _, Write as _};
    let Ok(mut stream) = UnixStream::connect(socket) else {
        return false;
    };
    let mut answer = [0; 5];
    stream.write_all(b"PING\r\n").is_ok()
        && stream.read_exact(&mut answer).is_ok()
        && &answer == b"+PONG"
}

/// A free port for servers that must find each other.
pub(crate) fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}
