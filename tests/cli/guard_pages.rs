//! What the pages of `fencepost guard` tell to type works as it is printed, on a cluster that is new.

use crate::cluster::Cluster;
use crate::{Run, databases, fencepost, finish};
use std::path::Path;
use tokio::process::Command;

/// A shell whose `fencepost` is ours and talks to this cluster; it stops at the first failure. The holder
/// is named, since unnamed each shell is another one.
fn shell(cluster: &Cluster, script: &str) -> Command {
    let ours = Path::new(env!("CARGO_BIN_EXE_fencepost")).parent().unwrap();
    let path = format!("{}:{}", ours.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new("bash");
    command
        .args(["-euo", "pipefail", "-c", script])
        .env("PATH", path)
        .env("FENCEPOST_ENDPOINTS", cluster.endpoints())
        .env("FENCEPOST_HOLDER", "operator")
        .kill_on_drop(true);
    command
}

async fn page(words: &[&str]) -> String {
    let run = fencepost(&[words, &["--help"]].concat()).await;
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    run.stdout
}

#[tokio::test]
async fn the_examples_present_tokens_that_were_granted() {
    let cluster = Cluster::start().await;
    for (words, examples) in [
        (&["guard"][..], 3),
        (&["guard", "admit"], 2),
        (&["guard", "report"], 2),
    ] {
        let page = page(words).await;
        let lines: Vec<_> = page.lines().filter(|l| l.contains("TOKEN=$(")).collect();
        assert_eq!(lines.len(), 1, "{page}");
        let from = page.lines().skip_while(|line| *line != lines[0]);
        let script: Vec<_> = from.take(examples).collect();
        assert!(script[1..].iter().all(|line| line.contains("$TOKEN")));
        let script = format!("open-door() {{ echo open; }}\n{}", script.join("\n"));
        let run = finish(&mut shell(&cluster, &script)).await;
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{script}");
        let opens = script.contains("&& open-door");
        assert_eq!(run.stdout.contains("\nopen\n"), opens, "{}", run.stdout);
    }
}

/// The query that `guard report --help` prints, with this database in place of the page's.
async fn piped(cluster: &Cluster, database: &str) -> Run {
    let page = page(&["guard", "report"]).await;
    let from = page.find("  psql ").expect("the page has a query");
    let end = "fencepost guard report --from -";
    let until = page.find(end).expect("the query is piped into the report") + end.len();
    let script = &page[from..until];
    assert!(script.contains("psql -XAt bank "), "{script}");
    let script = script.replace("-XAt bank ", &format!("-XAt '{database}' "));
    finish(&mut shell(cluster, &script)).await
}

#[tokio::test]
async fn the_printed_query_reports_marks_whatever_their_names_hold() {
    let Some(postgres) = databases::postgres() else {
        return;
    };
    let cluster = Cluster::start().await;
    let database = postgres.fresh("bank").await;
    let missing = piped(&cluster, &database).await;
    assert_ne!(
        missing.code,
        Some(0),
        "there is no table: {}",
        missing.stdout
    );
    assert!(
        missing
            .stderr
            .contains("there is no token in standard input")
    );

    let script = format!(
        "token=$(fencepost acquire a --quiet)
         psql -XAtq -v ON_ERROR_STOP=1 '{database}' -c \"
           CREATE TABLE fencing_marks (resource text, issuer text, token bigint);
           INSERT INTO fencing_marks VALUES ('a', 'fencepost', $token),
             ('door:7', 'fencepost', 1), ('100% sure', 'other:b', 2), ('%3A%', 'fencepost', $token + 50000)\"
         echo $token"
    );
    let run = finish(&mut shell(&cluster, &script)).await;
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let token: u64 = run.stdout.trim().parse().unwrap();
    let run = piped(&cluster, &database).await;
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    let expected = format!(
        "never issued  fencepost:%253A%25:{}\nforeign       other%3Ab:100%25%20sure:2\n",
        token + 50_000
    );
    assert_eq!(run.stdout, expected);
    let counts = "of 4 tokens, 2 are fine, 1 were never issued, and 1 are of another issuer";
    assert!(run.stderr.contains(counts), "{}", run.stderr);
}

#[tokio::test]
async fn the_two_ways_to_report_are_two_lines_of_usage() {
    let page = page(&["guard", "report"]).await;
    for line in [
        "Usage: fencepost guard report [OPTIONS] <RESOURCE> <TOKEN>",
        "       fencepost guard report [OPTIONS] --from <FILE>",
    ] {
        assert!(page.lines().any(|found| found == line), "{page}");
    }
}
