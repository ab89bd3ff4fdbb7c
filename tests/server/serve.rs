//! The process: `--check`, exit codes, signals, the announcement, the audit log.

use std::{
    io::{BufRead, BufReader},
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::nodes::Nodes;

fn fencepost() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
    command.arg("serve").env_clear();
    command
}

fn with_flags(nodes: &Nodes, n: usize) -> Command {
    let mut command = fencepost();
    for (name, value) in &nodes.places[n].flags {
        command.arg(format!("--{name}")).arg(value);
    }
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn ends_with(output: &Output, code: i32, words: &[&str]) {
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{errors}");
    for word in words {
        assert!(errors.contains(word), "{word}: {errors}");
    }
}

/// A node process that announced itself.
struct Process {
    child: Child,
    announced: Value,
}

impl Process {
    fn start(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let announced = serde_json::from_str(&line).unwrap();
        Process { child, announced }
    }

    fn signal(&self, name: &str) {
        let pid = self.child.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", name, &pid])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Its exit code, once it has ended.
    fn code(&mut self) -> Option<i32> {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < deadline, "the process did not end");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Ended already, most likely.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn check_prints_what_is_in_force_and_touches_nothing() {
    let nodes = Nodes::prepare(3);
    let file = nodes.dir.path().join("node.toml");
    std::fs::write(&file, "heartbeat = \"70ms\"\nelection_min = \"400ms\"\n").unwrap();
    let output = with_flags(&nodes, 0)
        .env("FENCEPOST_CONFIG", &file)
        .env("FENCEPOST_ELECTION_MAX", "900ms")
        .arg("--check")
        .output()
        .unwrap();
    ends_with(&output, 0, &[]);
    let report = text(&output.stdout);
    for (key, value, source) in [
        ("node_id", "1", "flag --node-id"),
        ("heartbeat", "\"70ms\"", "node.toml, key heartbeat"),
        (
            "election_max",
            "\"900ms\"",
            "environment FENCEPOST_ELECTION_MAX",
        ),
        ("issuer", "\"fencepost\"", "default"),
    ] {
        let line = report.lines().find(|line| line.starts_with(key)).unwrap();
        assert!(line.contains(value) && line.ends_with(source), "{line}");
    }
    assert!(!nodes.dir.path().join("node-1").exists());
}

#[test]
fn a_wrong_configuration_lists_everything_and_exits_with_10() {
    let output = fencepost()
        .args([
            "--node-id",
            "0",
            "--listen",
            "0.0.0.0:7100",
            "--cache-size",
            "-1",
            "--check",
        ])
        .output()
        .unwrap();
    ends_with(
        &output,
        10,
        &[
            "node-id",
            "data-dir is missing",
            "--insecure",
            "cache-size",
            "peers",
        ],
    );
    assert!(output.stdout.is_empty());
    let output = fencepost()
        .args(["--config", "no/such/file"])
        .output()
        .unwrap();
    ends_with(&output, 10, &["no/such/file"]);
}

#[test]
fn two_and_four_nodes_are_refused_with_the_reason() {
    for (count, reason) in [(2, "worse than one"), (4, "a fourth")] {
        let nodes = Nodes::prepare(count);
        ends_with(&with_flags(&nodes, 0).output().unwrap(), 10, &[reason]);
    }
}

#[test]
fn a_signal_ends_it_cleanly_and_a_busy_port_or_directory_has_its_own_code() {
    let nodes = Nodes::prepare(1);
    let mut process = Process::start(with_flags(&nodes, 0));
    assert_eq!(process.announced["event"], "listening");
    assert_eq!(process.announced["client"], nodes.flag(0, "listen"));
    let output = with_flags(&nodes, 0).output().unwrap();
    ends_with(&output, 15, &["--listen", "another process has that port"]);
    let mut other = Nodes::prepare(1);
    other.set(0, "data-dir", nodes.flag(0, "data-dir"));
    ends_with(&with_flags(&other, 0).output().unwrap(), 11, &["in use"]);
    process.signal("TERM");
    assert_eq!(process.code(), Some(0));
    let mut again = Process::start(with_flags(&nodes, 0));
    again.signal("INT");
    assert_eq!(again.code(), Some(0));
}

#[test]
fn a_closed_terminal_ends_it_cleanly_and_nohup_keeps_it() {
    let nodes = Nodes::prepare(1);
    let under = |words: &[&str]| {
        let own = with_flags(&nodes, 0);
        let mut command = Command::new(words[0]);
        command
            .args(&words[1..])
            .arg(own.get_program())
            .args(own.get_args())
            .stdin(Stdio::null());
        Process::start(command)
    };
    // Whoever runs the tests under nohup hands its deafness down to this process, and so on.
    let mut process = under(&["env", "--default-signal=HUP"]);
    process.signal("HUP");
    assert_eq!(process.code(), Some(0));
    let mut process = under(&["nohup"]);
    process.signal("HUP");
    process.signal("TERM");
    // Had it listened for both, the second would have ended it at once, with 143.
    assert_eq!(process.code(), Some(0));
}

#[test]
fn damage_has_its_own_code_and_names_the_remedy() {
    let nodes = Nodes::prepare(1);
    let mut process = Process::start(with_flags(&nodes, 0));
    let http = process.announced["http"].as_str().unwrap().to_owned();
    wait_for(|| ready(&http));
    process.signal("KILL");
    process.code();
    std::fs::remove_dir_all(std::path::Path::new(nodes.flag(0, "data-dir")).join("log.sled"))
        .unwrap();
    let output = with_flags(&nodes, 0).output().unwrap();
    ends_with(&output, 12, &["damaged", "remove-node 1", "--join"]);
}

#[test]
fn the_audit_log_tells_every_entry_without_a_hole() {
    let mut nodes = Nodes::prepare(1);
    let path = nodes.dir.path().join("audit.jsonl");
    nodes.set(0, "audit-log", &path.display().to_string());
    std::fs::write(&path, "{\"v\":1,\"torn").unwrap();
    for _ in 0..2 {
        let mut process = Process::start(with_flags(&nodes, 0));
        let http = process.announced["http"].as_str().unwrap().to_owned();
        wait_for(|| ready(&http));
        process.signal("TERM");
        assert_eq!(process.code(), Some(0));
    }
    let log = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<Value> = log
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    assert_eq!(
        lines.len() + 1,
        log.lines().count(),
        "only the torn line cannot be read"
    );
    let mut next = None;
    let mut starts = 0;
    for line in &lines {
        let index = line["index"].as_u64().unwrap();
        if line["kind"] == "start" {
            starts += 1;
        } else {
            assert_eq!(Some(index), next, "{line}");
        }
        next = Some(index + 1);
    }
    assert_eq!(starts, 2);
}

/// Whether a node process answers that it is ready.
fn ready(http: &str) -> bool {
    use std::io::{Read, Write};
    let Ok(mut stream) = std::net::TcpStream::connect(http) else {
        return false;
    };
    let request = "GET /readyz HTTP/1.1\r\nHost: node\r\nConnection: close\r\n\r\n";
    let mut answer = String::new();
    stream.write_all(request.as_bytes()).is_ok()
        && stream.read_to_string(&mut answer).is_ok()
        && answer.starts_with("HTTP/1.1 200")
}

fn wait_for(mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !condition() {
        assert!(Instant::now() < deadline, "never happened");
        std::thread::sleep(Duration::from_millis(10));
    }
}
