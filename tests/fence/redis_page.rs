//! `docs/fencing-redis.md` is right: its script is the guard's, and what it shows to type does what it says.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use crate::redis_servers::Server;

const PROJECT: &str = env!("CARGO_MANIFEST_DIR");
const SCRATCH: &str = env!("CARGO_TARGET_TMPDIR");

fn page() -> String {
    fs::read_to_string(Path::new(PROJECT).join("docs/fencing-redis.md")).unwrap()
}

/// The blocks of the page that are marked with this language.
fn blocks(page: &str, language: &str) -> Vec<String> {
    let fence = format!("```{language}\n");
    let after = page.split(&fence).skip(1);
    after
        .map(|rest| rest.split("```").next().unwrap().to_owned())
        .collect()
}

fn script() -> String {
    let [script] = blocks(&page(), "lua").try_into().unwrap();
    script
}

#[test]
fn the_pages_script_is_the_guards() {
    let path = Path::new(PROJECT).join("src/fence/redis/fenced.lua");
    assert_eq!(script(), fs::read_to_string(path).unwrap());
}

/// `$ command` and the lines that it answers.
fn commands(block: &str) -> Vec<(Vec<&str>, Vec<&str>)> {
    let mut commands: Vec<(Vec<&str>, Vec<&str>)> = Vec::new();
    for line in block.lines() {
        match line.strip_prefix("$ ") {
            Some(command) => commands.push((command.split(' ').collect(), Vec::new())),
            None => commands.last_mut().unwrap().1.push(line),
        }
    }
    commands
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn the_pages_commands_answer_what_it_says() {
    let Some(server) = Server::start(&["--port", "0"]) else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("fenced.lua"), script()).unwrap();
    let [block] = blocks(&page(), "console").try_into().unwrap();
    let commands = commands(&block);
    assert!(commands.len() >= 5);
    for (words, expected) in commands {
        assert_eq!(words[0], "redis-cli");
        let output = Command::new("redis-cli")
            .arg("-s")
            .arg(server.socket())
            .args(&words[1..])
            .current_dir(directory.path())
            .output()
            .unwrap();
        let said = said(&output);
        let said: Vec<_> = said.lines().filter(|line| !line.is_empty()).collect();
        assert_eq!(said, expected, "{words:?}");
    }
}

#[test]
fn the_pages_python_writes_and_is_refused_exactly() {
    let Some(server) = Server::start(&["--port", "0"]) else {
        return;
    };
    let Some(python) = virtual_environment() else {
        return;
    };
    let directory = tempfile::tempdir().unwrap();
    let (lua, program) = (
        directory.path().join("fenced.lua"),
        directory.path().join("page.py"),
    );
    fs::write(&lua, script()).unwrap();
    let [snippet] = blocks(&page(), "python").try_into().unwrap();
    let call = "import sys\nmain(sys.argv[1], sys.argv[2])\n";
    fs::write(&program, format!("{snippet}\n\n{call}")).unwrap();
    let output = Command::new(python)
        .arg(&program)
        .arg(format!("unix://{}", server.socket().display()))
        .arg(&lua)
        .output()
        .unwrap();
    assert_eq!(
        said(&output),
        "token 9007199254740992 is stale: at least 9007199254740993 is required\nbegun\n"
    );
}

/// The Python of a virtual environment with redis-py in it, made once for each version of the
/// requirements. `None` where this machine cannot make one, which CI does not accept.
fn virtual_environment() -> Option<PathBuf> {
    let requirements = Path::new(PROJECT).join("tests/fence/redis-py.txt");
    let wanted = fs::read(&requirements).unwrap();
    let place = Path::new(SCRATCH).join("redis-python");
    let (python, complete) = (place.join("bin/python"), place.join("complete"));
    if fs::read(&complete).is_ok_and(|made_for| made_for == wanted) {
        return Some(python);
    }
    let mut make = Command::new("python3");
    make.args(["-m", "venv", "--clear"]).arg(&place);
    let mut fill = Command::new(&python);
    fill.args(["-m", "pip", "install", "--quiet", "-r"])
        .arg(&requirements);
    for mut step in [make, fill] {
        let made = step.output().is_ok_and(|output| output.status.success());
        if !made {
            println!("skipped: no Python environment with redis-py: {step:?} failed");
            assert!(
                std::env::var_os("CI").is_none(),
                "CI must have python3 with venv and pip"
            );
            return None;
        }
    }
    fs::write(complete, wanted).unwrap();
    Some(python)
}
