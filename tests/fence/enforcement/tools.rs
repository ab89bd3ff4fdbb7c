//! The printed script, applied by each database's own command line tool.

use std::{
    io::Write as _,
    process::{Command, Stdio},
};

use fencepost::fence::enforcement::{Deletes, Dialect, Enforcement, Script};

use super::{ACCOUNTS, ALL, Place, on_each_database};

/// A name with all that the tools themselves read: quotes, semicolons, comments, variables, delimiters.
const NAME: &str = "a;b // -- c '\"` :d $x$ DELIMITER";

fn tool(place: &Place) -> Option<Command> {
    let url = &place.url;
    let mut command = match place.dialect {
        Dialect::Postgres => {
            let mut psql = Command::new("psql");
            let options: sqlx::postgres::PgConnectOptions = url.parse().unwrap();
            psql.args(["-X", "-v", "ON_ERROR_STOP=1", "-f", "-"]);
            let host = options
                .get_socket()
                .map_or(options.get_host().into(), |socket| {
                    socket.display().to_string()
                });
            psql.args(["-h", &host, "-p", &options.get_port().to_string()]);
            psql.args([
                "-U",
                options.get_username(),
                "-d",
                options.get_database().unwrap(),
            ]);
            psql
        }
        Dialect::MariaDb | Dialect::MySql => {
            let url: sqlx::mysql::MySqlConnectOptions = url.parse().unwrap();
            let socket = url.get_socket().unwrap();
            let mut client = Command::new("mariadb");
            client
                .arg("--no-defaults")
                .arg(format!("--socket={}", socket.display()));
            client
                .arg(format!("--user={}", url.get_username()))
                .arg(url.get_database().unwrap());
            client
        }
        Dialect::Sqlite => {
            let mut sqlite3 = Command::new("sqlite3");
            sqlite3.arg(url.trim_start_matches("sqlite://"));
            sqlite3
        }
    };
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Some(command)
}

/// Feeds the script to the tool, with no more options than its head says; `None`, said aloud, where it is
/// not installed. A tool that has something to say about a script that it applies makes people wonder.
fn fed(place: &Place, script: &Script) -> Option<Result<(), String>> {
    let mut command = tool(place)?;
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            assert!(std::env::var_os("CI").is_none(), "{error}");
            println!("skipped: {error}");
            return None;
        }
    };
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(script.to_string().as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    Some(if output.status.success() {
        assert_eq!(stderr, "", "{script}");
        Ok(())
    } else {
        Err(stderr)
    })
}

on_each_database! {
    async fn the_printed_script_is_one_that_the_databases_tool_applies(dialect) {
        let Some(place) = Place::fresh(dialect, "tool").await else { return };
        let mut session = place.session().await;
        let quote = if dialect == Dialect::MariaDb { '`' } else { '"' };
        let table = format!("{quote}{}{quote}", NAME.replace(quote, &quote.to_string().repeat(2)));
        session.all(&[&ACCOUNTS[0].replace("accounts", &table), &format!("INSERT INTO {table} VALUES (1, 10, 7)")]).await;
        for deletes in [Deletes::Refuse, Deletes::KeepMark] {
            let name = format!("\"{}\"", NAME.replace('"', "\"\""));
            let plan = Enforcement::of_table(dialect, &name).unwrap().deletes(deletes);
            let Some(applied) = fed(&place, &plan.apply().unwrap()) else { return };
            applied.unwrap();
            session.refused(&format!("UPDATE {table} SET balance = 0, fencing_token = 6")).await;
            fed(&place, &plan.undo().unwrap()).unwrap().unwrap();
            session.all(&[&format!("UPDATE {table} SET balance = 0, fencing_token = 7")]).await;
        }
    }

    async fn the_tool_stops_at_a_table_that_does_not_fit(dialect) {
        let Some(place) = Place::fresh(dialect, "stops").await else { return };
        let mut session = place.session().await;
        session.all(&ACCOUNTS).await;
        let plan = Enforcement::of_table(dialect, "accounts").unwrap().key(&["id", "nothing"]).unwrap();
        let Some(applied) = fed(&place, &plan.apply().unwrap()) else { return };
        let error = applied.unwrap_err();
        assert!(!error.contains("pg_attribute"), "{error}");
        session.all(&["UPDATE accounts SET balance = 1, fencing_token = 1"]).await;
        assert_eq!(session.rows(ALL).await[0], "1,1,1");
    }

    async fn the_tool_names_a_table_that_is_not_there_and_shows_no_inner_statement(dialect) {
        let Some(place) = Place::fresh(dialect, "absent").await else { return };
        let plan = Enforcement::of_table(dialect, "acounts").unwrap();
        let Some(applied) = fed(&place, &plan.apply().unwrap()) else { return };
        let error = applied.unwrap_err();
        assert!(error.contains("acounts"), "{error}");
        for inner in ["pg_attribute", "attrelid", "regclass", "information_schema"] {
            assert!(!error.contains(inner), "{error}");
        }
    }
}
