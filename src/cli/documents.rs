//! Every command that the documents show is one that the command line understands.

use std::{fs, path::Path};

/// Pages that show commands, from the root of the package.
const PAGES: [&str; 10] = [
    "README.md",
    "CONTRIBUTING.md",
    "deploy/README.md",
    "docs/benchmarks.md",
    "docs/command-line.md",
    "docs/failure-modes.md",
    "docs/fencing-database.md",
    "docs/fencing-guide.md",
    "docs/leader-election.md",
    "docs/operations.md",
];

/// Where the program's name ends and its arguments begin.
const STARTS: [&str; 4] = [
    "fencepost ",
    "./target/release/fencepost ",
    "cargo run -- ",
    "cargo run --release -- ",
];

/// The commands of a page: indented lines, with continuation lines joined, and `code`.
fn commands(page: &str) -> Vec<String> {
    let joined = page.replace("\\\n", " ");
    let indented = joined.lines().filter(|line| line.starts_with("    "));
    let quoted = page.split('`').skip(1).step_by(2);
    let start = |line: &str| {
        let line = line.trim();
        STARTS
            .iter()
            .find_map(|start| line.strip_prefix(start))
            .map(str::to_owned)
    };
    indented.chain(quoted).filter_map(start).collect()
}

/// The arguments as a shell would split them. Our documents need no quotes, save around the one variable
/// that they use.
fn arguments(command: &str) -> Vec<String> {
    let command = command.replace("\"$TOKEN\"", "65547");
    let command = command.split(" #").next().unwrap_or_default();
    let command = command.trim_end_matches([' ', '&', '.']);
    command.split_whitespace().map(str::to_owned).collect()
}

fn page(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// What is wrong with a command; `fencepost cluster add-node` without its arguments is a way to name
/// it, and a name must exist too.
fn complaint(command: &str) -> Option<String> {
    use clap::error::ErrorKind;
    let words = [vec!["fencepost".to_owned()], arguments(command)].concat();
    let error = super::command().try_get_matches_from(&words).err()?;
    let named_only = [
        ErrorKind::MissingRequiredArgument,
        ErrorKind::DisplayHelp,
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
    ];
    (!named_only.contains(&error.kind())).then(|| format!("fencepost {command}: {error}"))
}

#[test]
fn documents_show_commands_that_exist() {
    let mut seen = 0;
    let mut complaints = Vec::new();
    for path in PAGES {
        for command in commands(&page(path)) {
            seen += 1;
            complaints.extend(complaint(&command).map(|complaint| format!("{path}: {complaint}")));
        }
    }
    assert!(seen > 20, "only {seen} commands found");
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

#[test]
fn a_command_that_does_not_exist_is_noticed() {
    let page = "    fencepost aquire x   # a slip\ntext `fencepost list --prefix y` and `fencepost list y`";
    let complaints: Vec<_> = commands(page)
        .iter()
        .filter_map(|command| complaint(command))
        .collect();
    assert_eq!(complaints.len(), 2, "{complaints:?}");
    assert!(complaints[0].contains("aquire"));
    assert!(complaints[1].contains("--prefix"));
}
