//! `fencepost guard admit`, `high-water` and `report`, against a cluster of real processes.

use crate::cluster::Cluster;
use crate::{Run, binary, fencepost, finish};
use std::process::Stdio;
use tokio::io::AsyncWriteExt;

struct Operator {
    cluster: Cluster,
}

impl Operator {
    async fn start() -> Self {
        let cluster = Cluster::start().await;
        Self { cluster }
    }

    async fn run(&self, args: &[&str]) -> Run {
        fencepost(&[args, &["--endpoints", &self.cluster.endpoints()]].concat()).await
    }

    async fn json(&self, args: &[&str], code: i32) -> serde_json::Value {
        let run = self.run(&[args, &["--output", "json"]].concat()).await;
        assert_eq!(run.code, Some(code), "{args:?}: {}", run.stderr);
        assert!(run.stderr.is_empty(), "{args:?}: {}", run.stderr);
        run.json()
    }

    /// The token of a new grant of `door`.
    async fn token(&self) -> String {
        let run = self
            .run(&["acquire", "door", "--holder", "me", "--quiet"])
            .await;
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        run.stdout.trim().to_owned()
    }

    /// Runs `guard report --from -` with these lines on standard input.
    async fn reported(&self, lines: &str, more: &[&str]) -> Run {
        let mut command = binary();
        command
            .args(["guard", "report", "--from", "-", "--endpoints"])
            .arg(self.cluster.endpoints())
            .args(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(lines.as_bytes()).await.unwrap();
        drop(stdin);
        let output = child.wait_with_output().await.unwrap();
        Run {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

#[tokio::test]
async fn a_token_is_admitted_until_a_newer_one_was() {
    let operator = Operator::start().await;
    let none = operator.run(&["guard", "high-water", "door"]).await;
    assert_eq!(none.stdout, "No token was admitted for door yet.\n");
    let (older, newer) = (operator.token().await, operator.token().await);
    for _ in 0..2 {
        let run = operator.run(&["guard", "admit", "door", &older]).await;
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
        assert!(
            run.stdout
                .starts_with(&format!("Admitted token {older} for door"))
        );
    }
    let said = operator.json(&["guard", "admit", "door", &newer], 0).await;
    assert_eq!(
        (&said["outcome"], &said["presented"]),
        (&"admitted".into(), &newer.as_str().into())
    );
    let stale = operator.run(&["guard", "admit", "door", &older]).await;
    assert_eq!((stale.code, stale.stdout.as_str()), (Some(3), ""));
    let sentence = format!("token {older} is stale for door: {newer} is required");
    assert!(stale.stderr.contains(&sentence), "{}", stale.stderr);
    let said = operator.json(&["guard", "admit", "door", &older], 3).await;
    assert_eq!(
        (&said["outcome"], &said["required"]),
        (&"stale".into(), &newer.as_str().into())
    );
    let mark = operator.json(&["guard", "high-water", "door"], 0).await;
    assert_eq!(
        (&mark["mark"], &mark["issuer"]),
        (&newer.as_str().into(), &"fencepost".into())
    );
}

#[tokio::test]
async fn once_means_once_and_a_foreign_token_is_not_compared() {
    let operator = Operator::start().await;
    let token = operator.token().await;
    let first = operator
        .run(&["guard", "admit", "nightly", &token, "--once"])
        .await;
    assert_eq!(first.code, Some(0), "{}", first.stderr);
    let second = operator
        .run(&["guard", "admit", "nightly", &token, "--once"])
        .await;
    assert_eq!(second.code, Some(3));
    assert!(
        second.stderr.contains("It has passed already"),
        "{}",
        second.stderr
    );
    let foreign = ["guard", "admit", "nightly", "1", "--issuer", "other"];
    let said = operator.json(&foreign, 3).await;
    assert_eq!(
        (&said["outcome"], &said["expected_issuer"]),
        (&"foreign".into(), &"fencepost".into())
    );
}

/// The words of the command between backticks that a text tells to run.
fn remedy(text: &str) -> Vec<String> {
    let command = text
        .split('`')
        .nth(1)
        .unwrap_or_else(|| panic!("no command: {text}"));
    let words = command.strip_prefix("fencepost ").unwrap();
    words.split_whitespace().map(str::to_owned).collect()
}

#[tokio::test]
async fn the_remedy_for_a_token_that_was_never_issued_works_when_it_is_followed() {
    let operator = Operator::start().await;
    let last = operator.token().await;
    let fine = operator.run(&["guard", "report", "door", &last]).await;
    assert_eq!((fine.code, fine.stderr.as_str()), (Some(0), ""));
    // A guard out there has seen what this issuer, restored from an old backup, knows nothing of.
    let lost = (last.parse::<u64>().unwrap() + 1_000_000).to_string();
    let ahead = operator.run(&["guard", "report", "door", &lost]).await;
    assert_eq!((ahead.code, ahead.stdout.as_str()), (Some(3), ""));
    assert!(
        ahead.stderr.contains("was never issued by fencepost"),
        "{}",
        ahead.stderr
    );
    assert!(ahead.stderr.contains("mistyped"), "{}", ahead.stderr);
    let remedy = remedy(&ahead.stderr);
    assert_eq!(remedy, ["raise-floor", "--above", &lost]);
    let words: Vec<_> = remedy.iter().map(String::as_str).collect();
    let raised = operator.run(&words).await;
    assert_eq!(raised.code, Some(0), "{}", raised.stderr);
    let fine = operator.json(&["guard", "report", "door", &lost], 0).await;
    assert_eq!(fine["outcome"], "fine");
    let new = operator.token().await;
    assert!(new.parse::<u64>().unwrap() > lost.parse::<u64>().unwrap());
    let admitted = operator.run(&["guard", "admit", "door", &new]).await;
    assert_eq!(admitted.code, Some(0), "{}", admitted.stderr);
    // What cannot have been issued by anybody has no such remedy.
    let made_up = i64::MAX.to_string();
    let ahead = operator
        .json(&["guard", "report", "door", &made_up], 3)
        .await;
    assert!(
        ahead["advice"].as_str().unwrap().contains("made up"),
        "{ahead}"
    );
}

#[tokio::test]
async fn the_marks_of_many_guards_are_reported_from_a_pipe_or_a_file() {
    let operator = Operator::start().await;
    let last: u64 = operator.token().await.parse().unwrap();
    let fine = format!("fencepost:a:{last}\n\nfencepost:b%3A1:1\n");
    let run = operator.reported(&fine, &[]).await;
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
    assert_eq!(
        run.stdout,
        "Fine: the issuer accounts for all of 2 tokens.\n"
    );

    let (high, higher) = (last + 70_000, last + 90_000);
    let lines = format!("{fine}fencepost:c:{high}\nother:d:5\nfencepost:e:{higher}\n");
    let run = operator.reported(&lines, &[]).await;
    assert_eq!(run.code, Some(3));
    let expected = format!(
        "never issued  fencepost:e:{higher}\nnever issued  fencepost:c:{high}\nforeign       other:d:5\n"
    );
    assert_eq!(run.stdout, expected);
    assert!(
        run.stderr
            .contains("of 5 tokens, 2 are fine, 2 were never issued, and 1 are of another issuer"),
        "{}",
        run.stderr
    );
    assert_eq!(
        remedy(&run.stderr),
        ["raise-floor", "--above", &higher.to_string()]
    );

    // A query that failed, or found no table, is no reason to be at ease.
    for nothing in ["", "\n\n"] {
        let run = operator.reported(nothing, &[]).await;
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""));
        let sentence = "there is no token in standard input: nothing was reported";
        assert!(run.stderr.contains(sentence), "{}", run.stderr);
    }

    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("marks.txt");
    std::fs::write(&file, &lines).unwrap();
    let file = file.to_str().unwrap();
    let run = operator
        .run(&["guard", "report", "--from", file, "--output", "json"])
        .await;
    assert_eq!((run.code, run.stderr.as_str()), (Some(3), ""));
    let said: Vec<serde_json::Value> = run
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let outcomes: Vec<_> = said
        .iter()
        .map(|one| one["outcome"].as_str().unwrap())
        .collect();
    assert_eq!(outcomes, ["ahead", "ahead", "fine", "fine", "foreign"]);
}

#[tokio::test]
async fn lines_that_are_no_tokens_are_named_before_anything_is_reported() {
    let mut command = binary();
    // Nobody listens there: it is not even asked.
    command.args([
        "guard",
        "report",
        "--from",
        "/dev/stdin",
        "--endpoints",
        "127.0.0.1:1",
    ]);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("marks.txt");
    std::fs::write(&file, "fencepost:a:7\nfencepost:a:-7\n\nfencepost:a:b:7\n").unwrap();
    command.stdin(std::fs::File::open(&file).unwrap());
    let run = finish(&mut command).await;
    assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""));
    for part in [
        "line 2 of /dev/stdin: ",
        "line 4 of /dev/stdin: ",
        "with a colon inside a name written as %3A",
        "Nothing was reported.",
    ] {
        assert!(run.stderr.contains(part), "{part}: {}", run.stderr);
    }
    let missing = fencepost(&["guard", "report", "--from", "/nowhere/marks"]).await;
    assert_eq!(missing.code, Some(2));
    for bad in [
        &["guard", "report"][..],
        &["guard", "report", "door"],
        &["guard", "report", "door", "0"],
        &["guard", "report", "door", "5", "--from", "x"],
        &["guard", "admit", "door"],
        &["guard", "admit", "door", "-1"],
        &["guard", "admit", "", "7"],
        &["guard", "high-water"],
        &["raise-floor"],
        &["raise-floor", "7", "--above", "8"],
    ] {
        assert_eq!(fencepost(bad).await.code, Some(2), "{bad:?}");
    }
}

#[tokio::test]
async fn nobody_to_ask_is_no_permission() {
    let run = fencepost(&[
        "guard",
        "admit",
        "door",
        "7",
        "--issuer",
        "fencepost",
        "--endpoints",
        "127.0.0.1:1",
        "--timeout",
        "300ms",
    ])
    .await;
    assert_eq!((run.code, run.stdout.as_str()), (Some(4), ""));
}
