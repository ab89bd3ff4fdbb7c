//! One server process that cannot outlive us.
//!
//! A destructor does not run when a test process is killed, or aborts, or calls `exit` with the server
//! in a static. So a small shell stands between: it starts the server, then reads from a pipe whose
//! other end only we have. When we are gone, for whatever reason, the kernel closes that end; the
//! shell reads the end of the file, kills the server and removes the directory. It has a process
//! group of its own, so that a Ctrl-C at the terminal reaches us alone and it can still clean up.

use std::{
    ffi::OsStr,
    fs,
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// How long a server may take to answer: it is slow only where the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// `$1` is the directory, `$2` the signal that ends the server at once, the rest is the server.
const KEEPER: &str = r#"
directory=$1 signal=$2; shift 2
trap '' INT TERM HUP
"$@" >"$directory/log" 2>&1 </dev/null &
server=$!
cat >/dev/null
kill -"$signal" "$server"
wait "$server"
rm -rf "$directory"
"#;

/// A directory for a server, readable by the account that the server runs under.
#[derive(Debug)]
pub(super) struct Place {
    directory: tempfile::TempDir,
    /// The account, where we are root and the server must not be.
    account: Option<String>,
}

impl Place {
    /// Makes `/tmp/fencepost-NAME-XXXX` with an empty `data` in it, owned by `account` if we are root.
    pub(super) fn new(name: &str, account: &str) -> Self {
        let directory = tempfile::Builder::new()
            .prefix(&format!("fencepost-{name}-"))
            .tempdir()
            .expect("a temporary directory can be made");
        let path = directory.path();
        let data = path.join("data");
        fs::create_dir(&data).expect("a directory can be made in it");
        let root = fs::metadata(path).expect("it is there").uid() == 0;
        if root {
            let (user, group) = ids(account);
            for path in [path, &data] {
                chown(path, Some(user), Some(group)).expect("root may give a directory away");
            }
        }
        let private = fs::Permissions::from_mode(0o700);
        fs::set_permissions(&data, private).expect("our own directory's mode can be set");
        Self {
            directory,
            account: root.then(|| account.to_owned()),
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// `program`, to be run under the server's account.
    pub(super) fn words(&self, program: &Path) -> Vec<String> {
        let program = program.display().to_string();
        match &self.account {
            None => vec![program],
            Some(account) => [
                "setpriv",
                &format!("--reuid={account}"),
                &format!("--regid={account}"),
                "--init-groups",
                &program,
            ]
            .map(str::to_owned)
            .to_vec(),
        }
    }

    /// Runs a program that prepares the place, to its end.
    pub(super) fn prepare(&self, words: &[String]) {
        let done = Command::new(&words[0])
            .args(&words[1..])
            .current_dir(self.path())
            .stdin(Stdio::null())
            .output()
            .unwrap_or_else(|error| panic!("{words:?}: {error}"));
        assert!(
            done.status.success(),
            "{words:?}: {}{}",
            String::from_utf8_lossy(&done.stdout),
            String::from_utf8_lossy(&done.stderr)
        );
    }

    /// Starts the server, and waits until `ready` says so.
    pub(super) fn serve(
        self,
        words: &[String],
        signal: &str,
        ready: impl Fn(&Path) -> bool,
    ) -> Private {
        // From here on the directory is the keeper's to remove.
        let directory = self.directory.keep();
        let keeper = Command::new("sh")
            .args(["-c", KEEPER, "fencepost-keeper"])
            .arg(&directory)
            .arg(signal)
            .args(words)
            .current_dir(&directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("sh is there");
        let server = Private { directory, keeper };
        let begun = Instant::now();
        while !ready(&server.directory) {
            if begun.elapsed() > PATIENCE {
                let log = fs::read_to_string(server.directory.join("log")).unwrap_or_default();
                panic!("{words:?} did not become ready:\n{log}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        server
    }
}

/// A running server. Dropping it stops the server and waits until its directory is gone.
#[derive(Debug)]
pub(crate) struct Private {
    directory: PathBuf,
    keeper: Child,
}

impl Private {
    /// Where the server lives: its `data`, its `log` and its socket.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// The numbers of an account's user and group.
fn ids(account: &str) -> (u32, u32) {
    let id = |which: &str| {
        let said = Command::new("id").args([which, account]).output();
        let said = said.expect("id is there").stdout;
        let said = String::from_utf8_lossy(&said);
        said.trim().parse().unwrap_or_else(|_| {
            panic!("there is no account {account}, which the server wants when we are root")
        })
    };
    (id("-u"), id("-g"))
}

/// A program's arguments after the words that run it under its account.
pub(super) fn with<A: AsRef<OsStr>>(mut words: Vec<String>, arguments: &[A]) -> Vec<String> {
    let shown = |argument: &A| argument.as_ref().to_string_lossy().into_owned();
    words.extend(arguments.iter().map(shown));
    words
}
