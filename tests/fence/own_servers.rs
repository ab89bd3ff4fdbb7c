//! PostgreSQL and MariaDB on servers that one test has to itself, so that it may crash them and put
//! them back to a backup.
//!
//! Acknowledged commits must outlive the crash, so these servers write each commit before they
//! acknowledge it, as the servers for races do not.

use fencepost::fence::sql::Dialect;
use sqlx::{MySql, Postgres};

use crate::databases::{self, Mariadb, Sync};

/// A dialect with a server that a test can have to itself.
pub(crate) trait Own: Dialect {
    type Running: Send + std::marker::Sync + 'static;

    fn start() -> Option<Self::Running>;
    fn fresh_on(running: &Self::Running) -> impl Future<Output = String> + Send;
    fn crash(running: &Self::Running);
    fn back_up_on(running: &Self::Running, url: &str);
    fn restore_on(running: &Self::Running);
}

impl Own for Postgres {
    type Running = databases::Postgres;

    fn start() -> Option<Self::Running> {
        databases::or_skip("PostgreSQL", databases::Postgres::start(Sync::Written))
    }

    async fn fresh_on(running: &Self::Running) -> String {
        running.fresh("restarted").await
    }

    fn crash(running: &Self::Running) {
        running.crash();
    }

    fn back_up_on(running: &Self::Running, _: &str) {
        running.back_up();
    }

    fn restore_on(running: &Self::Running) {
        running.restore();
    }
}

impl Own for MySql {
    type Running = Mariadb;

    fn start() -> Option<Mariadb> {
        databases::or_skip("MariaDB", Mariadb::start(Sync::Written))
    }

    async fn fresh_on(running: &Mariadb) -> String {
        running.fresh("restarted").await
    }

    fn crash(running: &Mariadb) {
        running.crash();
    }

    fn back_up_on(running: &Mariadb, url: &str) {
        running.back_up(url);
    }

    fn restore_on(running: &Mariadb) {
        running.restore();
    }
}
