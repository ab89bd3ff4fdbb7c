//! A private PostgreSQL.

use std::{
    fs,
    os::unix::net::UnixStream,
    path::{Path, PathBuf},
};

use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

use super::{
    CONNECTIONS_MAX, Sync,
    private::{Place, Private, with},
    program, unique,
};

/// A running PostgreSQL, with `postgres` as its superuser and no password.
#[derive(Debug)]
pub(crate) struct Postgres {
    server: Private,
    /// Beside the server's own program.
    basebackup: PathBuf,
}

impl Postgres {
    /// Starts a server of one's own; `None` where it is not installed. It refuses to run as root, so
    /// that it then runs under the account `postgres`.
    pub(crate) fn start(sync: Sync) -> Option<Self> {
        let directories = ["/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin"];
        let initdb = program("initdb", &directories)?;
        let postgres = program("postgres", &directories)?;
        let place = Place::new("postgres", "postgres");
        let data = place.path().join("data").display().to_string();
        let initdb = with(
            place.words(&initdb),
            &[
                "--no-sync",
                "--auth=trust",
                "--username=postgres",
                "--encoding=UTF8",
                "--locale=C",
                "-D",
                &data,
            ],
        );
        place.prepare(&initdb);
        let sockets = format!("unix_socket_directories={}", place.path().display());
        let connections = format!("max_connections={CONNECTIONS_MAX}");
        let mut settings = vec![
            sockets.as_str(),
            connections.as_str(),
            "listen_addresses=",
            // In the data directory, so that nothing is left in /dev/shm.
            "dynamic_shared_memory_type=mmap",
        ];
        if sync != Sync::EachCommit {
            settings.extend(["fsync=off", "full_page_writes=off"]);
        }
        if sync == Sync::Never {
            settings.push("synchronous_commit=off");
        }
        let mut words = with(place.words(&postgres), &["-D", &data]);
        for setting in settings {
            words = with(words, &["-c", setting]);
        }
        // SIGQUIT is PostgreSQL's immediate shutdown: the postmaster ends its children and goes. A
        // SIGKILL would leave them behind for a moment.
        let server = place.serve(&words, "QUIT", ready);
        let basebackup = postgres.with_file_name("pg_basebackup");
        Some(Self { server, basebackup })
    }

    /// Ends the server at once, with its children and what was in their memory, and starts it again.
    pub(crate) fn crash(&self) {
        self.server.crash(|| ());
    }

    /// Copies the server's files while it runs, in place of any earlier copy.
    pub(crate) fn back_up(&self) {
        let backup = self.server.directory().join("backup");
        // There is none the first time.
        let _ = fs::remove_dir_all(&backup);
        let directory = self.server.directory().display().to_string();
        let backup = backup.display().to_string();
        let arguments = ["-h", &directory, "-U", "postgres", "-D", &backup];
        let quick = ["--checkpoint=fast", "--no-sync", "--no-manifest"];
        self.server
            .run(&self.basebackup, &[&arguments[..], &quick].concat());
    }

    /// Puts the copied files in the place of the server's own: all databases go back.
    pub(crate) fn restore(&self) {
        let path = |name: &str| self.server.directory().join(name);
        self.server.crash(|| {
            fs::remove_dir_all(path("data")).expect("a server that ended lets its files go");
            fs::rename(path("backup"), path("data")).expect("a backup was taken");
        });
    }

    /// Makes an empty database and gives its URL, which libpq takes, too.
    pub(crate) async fn fresh(&self, name: &str) -> String {
        let name = unique(name);
        let mut connection = PgConnection::connect(&self.url("postgres"))
            .await
            .expect("the private PostgreSQL takes connections");
        connection
            .execute(AssertSqlSafe(format!("CREATE DATABASE \"{name}\"")))
            .await
            .expect("a database can be made");
        self.url(&name)
    }

    pub(crate) fn server(&self) -> &Private {
        &self.server
    }

    fn url(&self, database: &str) -> String {
        let directory = self.server.directory().display();
        format!("postgres://postgres@localhost/{database}?host={directory}")
    }
}

/// The last line of this file is what `pg_ctl` waits for, too. The file of a server that crashed may
/// still say so, but there nobody listens.
fn ready(directory: &Path) -> bool {
    let pid = fs::read_to_string(directory.join("data/postmaster.pid"));
    pid.is_ok_and(|pid| pid.lines().last().is_some_and(|l| l.trim() == "ready"))
        && UnixStream::connect(directory.join(".s.PGSQL.5432")).is_ok()
}
