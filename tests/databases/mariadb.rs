//! A private MariaDB, which stands for MySQL's dialect, too.

use std::{os::unix::net::UnixStream, path::PathBuf};

use sqlx::{AssertSqlSafe, Connection as _, Executor as _, MySqlConnection};

use super::{
    CONNECTIONS_MAX, Sync,
    private::{Place, Private, with},
    program, unique,
};

/// A running MariaDB, with `root` as its superuser and no password.
#[derive(Debug)]
pub(crate) struct Mariadb {
    server: Private,
    dump: Option<PathBuf>,
    client: Option<PathBuf>,
}

impl Mariadb {
    /// Starts a server of one's own; `None` where it is not installed. Where we are root it runs
    /// under the account `mysql`.
    pub(crate) fn start(sync: Sync) -> Option<Self> {
        Self::start_with(sync, &[])
    }

    /// Starts one that calls itself an old release, so that nobody relies on what came later.
    pub(crate) fn start_as_old(sync: Sync) -> Option<Self> {
        Self::start_with(sync, &["--version=10.6.12-MariaDB"])
    }

    fn start_with(sync: Sync, more: &[&str]) -> Option<Self> {
        let directories = ["/usr/sbin", "/usr/libexec", "/usr/local/sbin"];
        let mariadbd = program("mariadbd", &directories)?;
        let install = program("mariadb-install-db", &["/usr/bin", "/usr/local/bin"])?;
        let place = Place::new("mariadb", "mysql");
        let data = format!("--datadir={}", place.path().join("data").display());
        // A server that starts clears its tmpdir of what looks left over, so that none may be shared.
        let tmpdir = format!("--tmpdir={}", place.path().display());
        let install = with(
            place.words(&install),
            &[
                "--no-defaults",
                &data,
                &tmpdir,
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
            ],
        );
        place.prepare(&install);
        let path = |name: &str| place.path().join(name).display().to_string();
        let mut options = vec![
            "--no-defaults".to_owned(),
            data,
            format!("--socket={}", path("socket")),
            format!("--pid-file={}", path("pid")),
            tmpdir,
            format!("--max-connections={CONNECTIONS_MAX}"),
            "--skip-networking".to_owned(),
            "--skip-name-resolve".to_owned(),
            "--performance-schema=OFF".to_owned(),
            "--innodb-buffer-pool-size=64M".to_owned(),
        ];
        options.extend(more.iter().map(|&option| option.to_owned()));
        let flushed = match sync {
            Sync::Never => 0,
            Sync::Written => 2,
            Sync::EachCommit => 1,
        };
        options.push(format!("--innodb-flush-log-at-trx-commit={flushed}"));
        if sync != Sync::EachCommit {
            options.push("--innodb-flush-method=nosync".to_owned());
        }
        let words = with(place.words(&mariadbd), &options);
        let server = place.serve(&words, "KILL", |directory| {
            UnixStream::connect(directory.join("socket")).is_ok()
        });
        let client = |name| program(name, &["/usr/bin", "/usr/local/bin"]);
        Some(Self {
            server,
            dump: client("mariadb-dump"),
            client: client("mariadb"),
        })
    }

    /// Ends the server at once, with what was in its memory, and starts it again.
    pub(crate) fn crash(&self) {
        self.server.crash(|| ());
    }

    /// Writes the database of this URL down as statements, as it is at one moment, in place of any
    /// earlier copy.
    pub(crate) fn back_up(&self, url: &str) {
        let arguments = [
            "--no-defaults",
            &self.socket(),
            "--user=root",
            "--single-transaction",
            "--add-drop-database",
            "--result-file=backup.sql",
            "--databases",
            database(url),
        ];
        let dump = self.dump.as_ref().expect("mariadb-dump is installed");
        self.server.run(dump, &arguments);
    }

    /// Drops the database that was written down, and makes it again from that.
    pub(crate) fn restore(&self) {
        let source = ["--execute", "source backup.sql"];
        let arguments = ["--no-defaults", &self.socket(), "--user=root"];
        let client = self
            .client
            .as_ref()
            .expect("the client mariadb is installed");
        self.server.run(client, &[&arguments[..], &source].concat());
    }

    fn socket(&self) -> String {
        format!(
            "--socket={}",
            self.server.directory().join("socket").display()
        )
    }

    /// Makes an empty database and gives its URL.
    pub(crate) async fn fresh(&self, name: &str) -> String {
        let name = unique(name);
        let mut connection = MySqlConnection::connect(&self.url("mysql"))
            .await
            .expect("the private MariaDB takes connections");
        connection
            .execute(AssertSqlSafe(format!(
                "CREATE DATABASE `{name}` CHARACTER SET utf8mb4"
            )))
            .await
            .expect("a database can be made");
        self.url(&name)
    }

    pub(crate) fn server(&self) -> &Private {
        &self.server
    }

    fn url(&self, database: &str) -> String {
        let socket = self.server.directory().join("socket");
        format!(
            "mysql://root@localhost/{database}?socket={}",
            socket.display()
        )
    }
}

/// The name of the database in a URL of ours.
fn database(url: &str) -> &str {
    let path = url.split('?').next().unwrap_or(url);
    path.rsplit('/').next().unwrap_or(path)
}
