//! `docs/fencing-redis.md` is right: its script is the guard's, and what it shows to type does what it says.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use fencepost::fence::{
    fenced::{Applied, FencedResource},
    redis::RedisStore,
};

use crate::{
    environment,
    redis_servers::Server,
    scene::{issuer, resource, rules, sequencer_for, token},
};

const PROJECT: &str = env!("CARGO_MANIFEST_DIR");

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

#[tokio::test]
async fn the_pages_commands_answer_what_it_says() {
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
    // They are the keys of the guard, too, for the resource that the page names.
    let store = RedisStore::open(server.connect().await, "shop:").await;
    let read = store.unwrap().read(&resource("orders/42")).await.unwrap();
    let (value, mark) = read.unwrap();
    assert_eq!(value.as_deref(), Some(&b"begun"[..]));
    assert_eq!((mark.issuer, mark.token), (issuer("prod"), token(131)));
}

/// Tokens are digits to the script, and still none is above the highest that anybody can issue.
#[tokio::test]
async fn the_script_takes_no_token_above_the_highest() {
    let Some(server) = Server::start(&["--port", "0"]) else {
        return;
    };
    let mut redis = server.connect().await;
    let script = redis::Script::new(&script());
    let mut admit = async |digits: &str| -> redis::RedisResult<Vec<String>> {
        let mut call = script.key("{a}:fencing");
        call.key("a").arg("bank").arg(digits).arg("again");
        call.invoke_async(&mut redis).await
    };
    for digits in [
        "9223372036854775808",
        "9999999999999999999",
        "10000000000000000000",
        "99999999999999999999999",
        "0",
        "07",
        "-7",
        "7.0",
        "7e3",
        " 7",
        "7\n",
        "",
    ] {
        let refused = admit(digits).await.unwrap_err();
        assert_eq!(refused.code(), Some("FENCEARGS"), "{digits:?}: {refused}");
    }
    // None of them has left a mark, and all of the rightful ones are taken.
    for digits in ["1", "9223372036854775806", "9223372036854775807"] {
        assert_eq!(admit(digits).await.unwrap(), ["admitted"], "{digits}");
    }
}

/// Runs the page's Python with this call behind it, on the connection `client`.
fn python(server: &Server, call: &str, arguments: &[&str]) -> Option<Output> {
    let requirements = Path::new(PROJECT).join("tests/fence/redis-py.txt");
    let python = environment::python("redis-python", &requirements)?;
    let directory = tempfile::tempdir().unwrap();
    let (lua, program) = (
        directory.path().join("fenced.lua"),
        directory.path().join("page.py"),
    );
    fs::write(&lua, script()).unwrap();
    let [snippet] = blocks(&page(), "python").try_into().unwrap();
    fs::write(&program, format!("{snippet}\n\nimport sys\n\n{call}")).unwrap();
    let mut command = Command::new(python);
    command
        .arg(&program)
        .arg(format!("unix://{}", server.socket().display()))
        .arg(&lua)
        .args(arguments);
    Some(command.output().unwrap())
}

#[test]
fn the_pages_python_writes_and_is_refused_exactly() {
    // Whatever kind of text the client answers.
    for settings in ["", "?decode_responses=True"] {
        let Some(server) = Server::start(&["--port", "0"]) else {
            return;
        };
        let call = format!("main(sys.argv[1] + '{settings}', sys.argv[2])\n");
        let Some(output) = python(&server, &call, &[]) else {
            return;
        };
        assert_eq!(
            said(&output),
            "token 9007199254740992 is stale: at least 9007199254740993 is required\nbegun\n"
        );
    }
}

/// Writes to each resource under one token, and prints the kind of refusal or nothing.
const WRITE: &str = r#"
client = redis.Redis.from_url(sys.argv[1])
with open(sys.argv[2]) as script:
    fenced = client.register_script(script.read())
for resource in sys.argv[5:]:
    try:
        fenced_set(fenced, "shop:", resource, "python", sys.argv[3], int(sys.argv[4]))
        print("admitted")
    except (Stale, PermissionError) as refused:
        print(type(refused).__name__)
"#;

#[tokio::test]
async fn the_pages_python_and_rust_fence_each_other() {
    const NAMES: [&str; 5] = [
        "orders/42",
        "a-b.c_d~e",
        "!\"#$%&'()*+,:;<=>?@[\\]^`{|}",
        "n\u{e4}chtlich, 100 %",
        "\u{1f980}",
    ];
    let Some(server) = Server::start(&["--port", "0"]) else {
        return;
    };
    let write = |by: &str, token: &str| {
        let arguments = [&[by, token], &NAMES[..]].concat();
        python(&server, WRITE, &arguments).map(|output| said(&output))
    };
    let all = |word: &str| format!("{word}\n").repeat(NAMES.len());
    let Some(first) = write("bank", "5") else {
        return;
    };
    assert_eq!(first, all("admitted"));

    let store = RedisStore::open(server.connect().await, "shop:").await;
    let fenced = FencedResource::new(store.unwrap(), rules());
    for name in NAMES {
        let (resource, by) = (resource(name), |token| sequencer_for("bank", name, token));
        let late = fenced.apply(&resource, b"rust", &by(4)).await.unwrap();
        let (presented, required) = (token(4), token(5));
        let stale = Applied::Stale {
            presented,
            required,
        };
        assert_eq!(late, stale, "{name}");
        let (value, _) = fenced.store().read(&resource).await.unwrap().unwrap();
        assert_eq!(value.as_deref(), Some(&b"python"[..]), "{name}");
        let newer = fenced.apply(&resource, b"rust", &by(6)).await.unwrap();
        assert_eq!(newer, Applied::Accepted, "{name}");
    }
    assert_eq!(write("bank", "5").unwrap(), all("Stale"));
    assert_eq!(write("other", "7").unwrap(), all("PermissionError"));
    assert_eq!(write("bank", "6").unwrap(), all("admitted"));
}

/// What the page tells to put into a manifest is what this crate is built with.
#[test]
fn the_page_names_the_version_of_the_crate_redis() {
    let manifest = fs::read_to_string(Path::new(PROJECT).join("Cargo.toml")).unwrap();
    let version = manifest.split("\nredis = { version = \"").nth(1).unwrap();
    let version = version.split('"').next().unwrap();
    let said = format!("the crate `redis`, version {version}.");
    assert!(page().contains(&said), "{said}");
}
