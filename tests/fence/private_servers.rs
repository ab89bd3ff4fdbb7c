//! The servers that tests start: they end with the process that started them, however it ends.

use std::{
    io::{BufRead as _, BufReader},
    path::PathBuf,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::databases;

/// Set in the process that is to be killed.
const ROLE: &str = "FENCEPOST_TEST_STARTS_SERVERS";
const NAME: &str = "private_servers::servers_end_with_the_process_that_started_them";
const PATIENCE: Duration = Duration::from_secs(60);

/// In the child: starts all servers, tells where they live, and waits for its death.
fn start_all_and_wait() {
    let servers = [
        databases::postgres().map(databases::Postgres::server),
        databases::mariadb().map(databases::Mariadb::server),
        databases::redis().map(databases::Redis::server),
    ];
    for server in servers.into_iter().flatten() {
        println!("\nlives in {}", server.directory().display());
    }
    println!("\nall started\nlives");
    loop {
        std::thread::park();
    }
}

/// Processes whose command line names the directory.
fn processes_in(directory: &str) -> usize {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines
        .filter(|line| String::from_utf8_lossy(line).contains(directory))
        .count()
}

#[test]
fn servers_end_with_the_process_that_started_them() {
    if std::env::var_os(ROLE).is_some() {
        return start_all_and_wait();
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", NAME, "--nocapture"])
        .env(ROLE, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let told = BufReader::new(child.stdout.take().unwrap()).lines();
    let told: Vec<String> = told
        .map(Result::unwrap)
        .inspect(|line| println!("{line}"))
        .take_while(|line| line != "lives")
        .collect();
    assert!(told.iter().any(|line| line == "all started"), "{told:?}");
    let directories: Vec<PathBuf> = told
        .iter()
        .filter_map(|line| Some(line.strip_prefix("lives in ")?.into()))
        .collect();
    for directory in &directories {
        assert!(
            directory.join("data").is_dir(),
            "{directory:?} is not there"
        );
        assert!(processes_in(directory.to_str().unwrap()) > 0, "no server");
    }

    child.kill().unwrap();
    child.wait().unwrap();
    let killed = Instant::now();
    for directory in &directories {
        while directory.exists() || processes_in(directory.to_str().unwrap()) > 0 {
            let waited = killed.elapsed();
            assert!(waited < PATIENCE, "something is left in {directory:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[tokio::test]
async fn a_fresh_database_is_empty_and_of_its_own() {
    use sqlx::Connection as _;
    if let Some(server) = databases::postgres() {
        let (one, other) = (server.fresh("same").await, server.fresh("same").await);
        assert_ne!(one, other);
        let mut connection = sqlx::PgConnection::connect(&one).await.unwrap();
        let create = sqlx::query("CREATE TABLE t (n INT)");
        create.execute(&mut connection).await.unwrap();
        let mut connection = sqlx::PgConnection::connect(&other).await.unwrap();
        let count = sqlx::query("SELECT * FROM t")
            .execute(&mut connection)
            .await;
        assert!(count.is_err());
    }
    if let Some(server) = databases::mariadb() {
        let (one, other) = (server.fresh("same").await, server.fresh("same").await);
        assert_ne!(one, other);
        let mut connection = sqlx::MySqlConnection::connect(&one).await.unwrap();
        let create = sqlx::query("CREATE TABLE t (n INT)");
        create.execute(&mut connection).await.unwrap();
        let mut connection = sqlx::MySqlConnection::connect(&other).await.unwrap();
        let count = sqlx::query("SELECT * FROM t")
            .execute(&mut connection)
            .await;
        assert!(count.is_err());
    }
    if let Some(server) = databases::redis() {
        let (one, other) = (server.fresh("same").await, server.fresh("same").await);
        assert_ne!(one, other);
        let client = redis::Client::open(one).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let set = redis::cmd("SET").arg("k").arg(1).to_owned();
        set.query_async::<()>(&mut connection).await.unwrap();
        let client = redis::Client::open(other).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let get = redis::cmd("GET").arg("k").to_owned();
        let found: Option<i64> = get.query_async(&mut connection).await.unwrap();
        assert_eq!(found, None);
    }
}
