//! `fencepost hold` on a terminal: who may read from it, and whom Ctrl-C and Ctrl-Z reach.
//!
//! The terminal is made by `script` of util-linux, which every Linux has.

use crate::fake::{Act, Fake};
use crate::running::Running;
use std::process::Command;

/// Runs a line of shell on a terminal of its own, where somebody types.
fn on_a_terminal(line: &str) -> Running {
    let mut command = Command::new("script");
    command
        .args([
            "--quiet",
            "--flush",
            "--return",
            "--command",
            line,
            "/dev/null",
        ])
        .env("SHELL", "/bin/sh")
        .env("TERM", "dumb");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("FENCEPOST_") {
            command.env_remove(name);
        }
    }
    Running::start_typed(&mut command)
}

/// The words that begin `fencepost hold jobs ... --`.
fn hold(node: &Fake) -> String {
    let program = env!("CARGO_BIN_EXE_fencepost");
    format!("{program} hold jobs --endpoints {} --", node.address)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_may_read_from_it_and_whoever_comes_after_may_again() {
    let node = Fake::start(|_, _| Act::Answer).await;
    let command = r#"sh -c 'read a; echo "the command got $a"'"#;
    let line = format!(
        r#"{} {command}; read b; echo "the script got $b""#,
        hold(&node)
    );
    let mut terminal = on_a_terminal(&line);
    terminal.type_in("one\n");
    terminal.wait_for("the command got one");
    terminal.type_in("two\n");
    terminal.wait_for("the script got two");
    assert!(terminal.end().success(), "{}", terminal.printed());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_interrupt_reaches_the_command_alone() {
    let node = Fake::start(|_, _| Act::Answer).await;
    let command =
        r#"sh -c 'trap "echo interrupted; exit 4" INT; echo up; while :; do sleep 0.01; done'"#;
    let line = format!(r#"{} {command}; echo "its code is $?""#, hold(&node));
    let mut terminal = on_a_terminal(&line);
    terminal.wait_for("up");
    terminal.type_in("\u{3}");
    terminal.wait_for("interrupted");
    terminal.wait_for("its code is 4");
    assert!(terminal.end().success(), "{}", terminal.printed());
    assert_eq!(node.count("release"), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_command_gives_the_shell_back_and_goes_on_in_front() {
    let node = Fake::start(|_, _| Act::Answer).await;
    let mut terminal = on_a_terminal("bash --norc --noprofile -i");
    // Said so that the shell's echo of the line is not what is waited for.
    let command = r#"sh -c 'printf "the command is %s\n" up; read a; echo "the command got $a"'"#;
    terminal.type_in(&format!("{} {command}\n", hold(&node)));
    terminal.wait_for("the command is up");
    terminal.type_in("\u{1a}");
    terminal.wait_for("stopped, and not renewing");
    terminal.type_in("echo the shell is $((1 + 1))\n");
    terminal.wait_for("the shell is 2");
    terminal.type_in("fg\n");
    terminal.type_in("one\n");
    terminal.wait_for("the command got one");
    terminal.type_in("exit 7\n");
    assert_eq!(terminal.end().code(), Some(7), "{}", terminal.printed());
}
