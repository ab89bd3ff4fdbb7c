//! One server process that cannot outlive us.
//!
//! A destructor does not run when a test process is killed, or aborts, or calls `exit` with the server
//! in a static. So a small shell stands between: it starts the server, then reads from a pipe whose
//! other end only we have. When we are gone, for whatever reason, the kernel closes that end; the
//! shell reads the end of the file, kills the server and removes the directory. It has a process
//! group of its own, so that a Ctrl-C at the terminal reaches us alone and it can still clean up.
//!
//! The same pipe carries orders, so that a test can have its server crash and come back: the keeper
//! says when the server is gone, and nothing of it is left that the next one could meet.

use std::{
    ffi::OsStr,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::{
        fs::{MetadataExt as _, PermissionsExt as _, chown},
        process::CommandExt as _,
    },
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
    sync::Mutex,
    time::{Duration, Instant},
};

/// How long a server may take to answer: it is slow only where the machine is.
const PATIENCE: Duration = Duration::from_secs(60);

/// `$1` is the directory, `$2` the signal that ends the server at once, the rest is the server. It
/// takes the orders `end` and `begin`, one a line, and says when each is carried out.
const KEEPER: &str = r#"
directory=$1 signal=$2; shift 2
trap '' INT TERM HUP PIPE
begin() { "$@" >>"$directory/log" 2>&1 </dev/null & server=$!; }
end() { [ -z "$server" ] || { kill -"$signal" "$server"; wait "$server"; server=; }; }
begin "$@"
while read -r order; do
    case $order in
    begin) begin "$@" ;;
    end) end ;;
    esac
    echo "$order"
done
end
rm -rf "$directory"
"#;

/// A directory for a server, readable by the account that the server runs under.
#[derive(Debug)]
pub(super) struct Place {
    directory: tempfile::TempDir,
    account: Account,
}

/// The account that a server runs under, where we are root and the server must not be.
#[derive(Debug, Clone)]
struct Account(Option<String>);

/// Says whether the server in this directory takes connections.
type Ready = fn(&Path) -> bool;

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
            account: Account(root.then(|| account.to_owned())),
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// `program`, to be run under the server's account.
    pub(super) fn words(&self, program: &Path) -> Vec<String> {
        self.account.words(program)
    }

    /// Runs a program that prepares the place, to its end.
    pub(super) fn prepare(&self, words: &[String]) {
        run(words, self.path());
    }

    /// Starts the server, and waits until `ready` says so.
    pub(super) fn serve(self, words: &[String], signal: &str, ready: Ready) -> Private {
        // From here on the directory is the keeper's to remove.
        let directory = self.directory.keep();
        let mut keeper = Command::new("sh")
            .args(["-c", KEEPER, "fencepost-keeper"])
            .arg(&directory)
            .arg(signal)
            .args(words)
            .current_dir(&directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("sh is there");
        let says = keeper.stdout.take().expect("it was piped");
        let server = Private {
            directory,
            account: self.account,
            keeper: Mutex::new(Keeper {
                process: keeper,
                says: BufReader::new(says),
            }),
            ready,
        };
        server.wait_until_ready();
        server
    }
}

impl Account {
    fn words(&self, program: &Path) -> Vec<String> {
        let program = program.display().to_string();
        match &self.0 {
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
}

/// Runs a program to its end, which must be a good one.
fn run(words: &[String], directory: &Path) {
    let done = Command::new(&words[0])
        .args(&words[1..])
        .current_dir(directory)
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

/// A running server. Dropping it stops the server and waits until its directory is gone.
#[derive(Debug)]
pub(crate) struct Private {
    directory: PathBuf,
    account: Account,
    keeper: Mutex<Keeper>,
    ready: Ready,
}

/// The shell between us and the server, and what it says.
#[derive(Debug)]
struct Keeper {
    process: Child,
    says: BufReader<ChildStdout>,
}

impl Keeper {
    /// Has an order carried out. An answer is not waited for in vain: a keeper that is gone has closed
    /// its end.
    fn order(&mut self, order: &str) {
        let orders = self.process.stdin.as_mut().expect("it was piped");
        writeln!(orders, "{order}").expect("the keeper is there");
        let mut said = String::new();
        let read = self.says.read_line(&mut said);
        read.expect("the keeper answers");
        assert_eq!(said.trim(), order, "the keeper did something else");
    }
}

impl Private {
    /// Where the server lives: its `data`, its `log` and its socket.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Runs a program of the server's under its account, in its directory, to its end.
    pub(super) fn run(&self, program: &Path, arguments: &[&str]) {
        run(
            &with(self.account.words(program), arguments),
            &self.directory,
        );
    }

    /// Ends the server as a crash does, with all that it had in memory only; has `meanwhile` done to
    /// its files; and starts it again.
    pub(super) fn crash(&self, meanwhile: impl FnOnce()) {
        let mut keeper = self.keeper.lock().expect("no order has failed");
        keeper.order("end");
        meanwhile();
        keeper.order("begin");
        drop(keeper);
        self.wait_until_ready();
    }

    fn wait_until_ready(&self) {
        let begun = Instant::now();
        while !(self.ready)(&self.directory) {
            if begun.elapsed() > PATIENCE {
                let log = fs::read_to_string(self.directory.join("log")).unwrap_or_default();
                panic!("the server did not become ready:\n{log}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        // Poisoned where an order failed; the directory goes all the same.
        let keeper = self.keeper.get_mut();
        let keeper = keeper.unwrap_or_else(std::sync::PoisonError::into_inner);
        drop(keeper.process.stdin.take());
        let _ = keeper.process.wait();
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
