//! Completions and manual pages; and readers that go away.

use crate::{binary, fencepost, finish};
use std::process::Stdio;

#[tokio::test]
async fn every_shell_gets_a_script_that_knows_the_commands() {
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let run = fencepost(&["completions", shell]).await;
        assert_eq!(run.code, Some(0), "{shell}: {}", run.stderr);
        for word in ["acquire", "raise-floor", "transfer-leader", "endpoints"] {
            assert!(run.stdout.contains(word), "{shell} lacks {word}");
        }
    }
}

#[tokio::test]
async fn bash_takes_its_script() {
    let script = fencepost(&["completions", "bash"]).await.stdout;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), script).unwrap();
    let run = finish(
        tokio::process::Command::new("bash")
            .arg("-n")
            .arg(file.path()),
    )
    .await;
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""));
}

#[tokio::test]
async fn each_command_has_a_manual_page() {
    let directory = tempfile::tempdir().unwrap();
    let pages = directory.path().join("man1");
    let run = fencepost(&["man", "--directory", pages.to_str().unwrap()]).await;
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    for name in [
        "fencepost",
        "fencepost-acquire",
        "fencepost-cluster-add-node",
        "fencepost-bench",
        "fencepost-guard-sql",
    ] {
        let page = std::fs::read_to_string(pages.join(format!("{name}.1"))).unwrap();
        assert!(page.contains(&format!(".TH {name}")), "{name}: {page}");
    }
    let root = fencepost(&["man"]).await;
    assert!(root.stdout.contains(".TH fencepost"), "{}", root.stdout);
}

#[tokio::test]
async fn a_directory_that_cannot_be_made_is_named() {
    let run = fencepost(&["man", "--directory", "/proc/nowhere"]).await;
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("/proc/nowhere"), "{}", run.stderr);
}

#[tokio::test]
async fn a_reader_that_goes_away_is_no_failure_worth_a_word() {
    // Gone before the command begins, so that its first write meets nobody.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = binary();
    command
        .args(["completions", "bash"])
        .stdout(Stdio::from(writer))
        .stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(
        output.status.code(),
        Some(141),
        "as a shell reports a reader that left"
    );
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}
