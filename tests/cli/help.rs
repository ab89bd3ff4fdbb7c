//! `--help` teaches.

use crate::fencepost;

/// Every command that talks to a cluster.
const CLUSTER_COMMANDS: [&str; 13] = [
    "acquire",
    "hold",
    "renew",
    "release",
    "revoke",
    "inspect",
    "list",
    "watch",
    "wait",
    "status",
    "raise-floor",
    "bench",
    "cluster",
];

#[tokio::test]
async fn the_root_page_lists_the_commands_and_the_exit_codes() {
    let run = fencepost(&["--help"]).await;
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    for command in CLUSTER_COMMANDS {
        assert!(
            run.stdout.contains(&format!("\n  {command} ")),
            "{command}: {}",
            run.stdout
        );
    }
    for part in [
        "Try it:",
        "fencepost dev",
        "Exit codes: 0 done",
        "5 unknown outcome",
    ] {
        assert!(run.stdout.contains(part), "{part}: {}", run.stdout);
    }
}

#[tokio::test]
async fn every_command_shows_an_example_and_the_connection() {
    for command in CLUSTER_COMMANDS {
        let run = fencepost(&[command, "--help"]).await;
        assert_eq!(run.code, Some(0), "{command}: {}", run.stderr);
        assert!(
            run.stdout.contains(&format!("  fencepost {command}")),
            "{command}: {}",
            run.stdout
        );
        assert!(
            run.stdout.contains("FENCEPOST_ENDPOINTS"),
            "{command}: {}",
            run.stdout
        );
    }
}

#[tokio::test]
async fn a_command_that_talks_to_no_cluster_hides_the_connection() {
    for command in ["completions", "man", "demo"] {
        let run = fencepost(&[command, "--help"]).await;
        assert_eq!(run.code, Some(0), "{command}: {}", run.stderr);
        assert!(
            !run.stdout.contains("--endpoints"),
            "{command}: {}",
            run.stdout
        );
    }
    let run = fencepost(&["completions", "bash", "--endpoints", "127.0.0.1:1"]).await;
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("talks to no cluster"), "{}", run.stderr);
}

#[tokio::test]
async fn no_line_of_help_is_wider_than_a_hundred_columns() {
    for command in CLUSTER_COMMANDS {
        let run = fencepost(&[command, "--help"]).await;
        let wide = run.stdout.lines().find(|line| line.chars().count() > 100);
        assert_eq!(wide, None, "{command}");
    }
}

#[tokio::test]
async fn the_version_is_the_packages() {
    let run = fencepost(&["--version"]).await;
    assert_eq!(
        run.stdout.trim(),
        concat!("fencepost ", env!("CARGO_PKG_VERSION"))
    );
}
