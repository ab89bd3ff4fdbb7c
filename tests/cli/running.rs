//! A `fencepost` process under test: what it prints, how it ends, and what it leaves behind.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    sync::{
        Arc, Mutex,
        mpsc::{self, Receiver},
    },
    thread,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

/// The longest that anything may take here; far beyond what it does take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A process of ours. Dropping it kills it.
pub(crate) struct Running {
    child: Child,
    lines: Receiver<String>,
    /// All that was printed so far, both streams.
    printed: Arc<Mutex<String>>,
}

/// A command of the binary under test, with nothing of ours in its environment.
pub(crate) fn fencepost(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fencepost"));
    command.args(arguments);
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("FENCEPOST_") {
            command.env_remove(name);
        }
    }
    command
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Self {
        Self::start_with(command, Stdio::null())
    }

    /// Starts it with somebody who [types](Self::type_in).
    pub(crate) fn start_typed(command: &mut Command) -> Self {
        Self::start_with(command, Stdio::piped())
    }

    fn start_with(command: &mut Command, stdin: Stdio) -> Self {
        let mut child = command
            .stdin(stdin)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let printed = Arc::new(Mutex::new(String::new()));
        let (sender, lines) = mpsc::channel();
        let streams: [Box<dyn std::io::Read + Send>; 2] = [
            Box::new(child.stdout.take().unwrap()),
            Box::new(child.stderr.take().unwrap()),
        ];
        for stream in streams {
            let (sender, printed) = (sender.clone(), Arc::clone(&printed));
            thread::spawn(move || {
                for line in BufReader::new(stream).lines().map_while(Result::ok) {
                    let mut printed = printed.lock().unwrap();
                    printed.push_str(&line);
                    printed.push('\n');
                    // Nobody may be waiting for lines any more.
                    let _ = sender.send(line);
                }
            });
        }
        Self {
            child,
            lines,
            printed,
        }
    }

    /// Waits for a line that contains `text`.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) if line.contains(text) => return line,
                Ok(_) => {}
                Err(_) => panic!("no {text:?} in what it printed:\n{}", self.printed()),
            }
        }
    }

    /// Types on its standard input.
    pub(crate) fn type_in(&mut self, text: &str) {
        let stdin = self.child.stdin.as_mut().expect("somebody types");
        stdin.write_all(text.as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    /// All that it printed so far.
    pub(crate) fn printed(&self) -> String {
        self.printed.lock().unwrap().clone()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.child.id()).unwrap();
        kill_process(Pid::from_raw(pid).unwrap(), signal).unwrap();
    }

    /// Waits until it ends, and until its streams do.
    pub(crate) fn end(&mut self) -> ExitStatus {
        let deadline = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(
                Instant::now() < deadline,
                "it does not end:\n{}",
                self.printed()
            );
            thread::sleep(Duration::from_millis(10));
        };
        while self.lines.recv_timeout(PATIENCE).is_ok() {}
        status
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The processes, other than this one, whose arguments or environment name `path`.
pub(crate) fn processes_naming(path: &Path) -> Vec<String> {
    let name = path.display().to_string();
    let names = |file: &Path| {
        let text = fs::read(file).unwrap_or_default();
        String::from_utf8_lossy(&text).contains(&name)
    };
    let own = std::process::id().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let pid = entry.file_name().to_string_lossy().into_owned();
        let is_process = pid.bytes().all(|byte| byte.is_ascii_digit()) && pid != own;
        let gone = || {
            fs::read_to_string(entry.path().join("stat")).is_ok_and(|stat| stat.contains(") Z "))
        };
        let named = ["cmdline", "environ"]
            .iter()
            .any(|file| names(&entry.path().join(file)));
        if is_process && named && !gone() {
            found.push(pid);
        }
    }
    found
}

/// Waits until no process names `path` any more.
pub(crate) fn wait_until_gone(path: &Path) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let left = processes_naming(path);
        if left.is_empty() {
            return;
        }
        assert!(Instant::now() < deadline, "processes are left: {left:?}");
        thread::sleep(Duration::from_millis(10));
    }
}
