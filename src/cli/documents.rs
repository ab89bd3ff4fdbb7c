//! Every command that the documents show is one that the command line understands.

use std::{fs, path::Path};

/// Pages that show commands, from the root of the package, beside all of `docs/`.
const PAGES: [&str; 3] = ["README.md", "CONTRIBUTING.md", "deploy/README.md"];

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

/// A shell variable that our documents use, and a value that a shell could put in its place. One that is not
/// here stays as it is written, which no number and no duration is.
const VARIABLES: [(&str, &str); 1] = [("$TOKEN", "65547")];
/// Where a command ends for a shell.
const OPERATORS: [&str; 7] = ["|", "||", "&", "&&", ";", ">", ">>"];

/// The arguments as a shell splits them: quotes and comments count, and what follows the command does not.
fn arguments(command: &str) -> Option<Vec<String>> {
    let words = shlex::split(command)?.into_iter();
    let own = words.take_while(|word| !OPERATORS.contains(&word.as_str()));
    let valued = own.map(|word| {
        VARIABLES
            .iter()
            .fold(word, |word, (name, value)| word.replace(name, value))
    });
    Some(valued.collect())
}

/// The pages by their paths.
fn pages() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths: Vec<_> = PAGES.iter().map(|path| root.join(path)).collect();
    let docs = fs::read_dir(root.join("docs")).expect("the documents are there");
    let docs = docs.map(|entry| entry.expect("a directory can be read").path());
    paths.extend(docs.filter(|path| path.extension().is_some_and(|end| end == "md")));
    let read = |path: std::path::PathBuf| {
        let text = fs::read_to_string(&path);
        let shown = path.display().to_string();
        let text = text.unwrap_or_else(|error| panic!("{shown}: {error}"));
        (shown, text)
    };
    paths.into_iter().map(read).collect()
}

/// What is wrong with a command; `fencepost cluster add-node` without its arguments is a way to name
/// it, and a name must exist too.
fn complaint(command: &str) -> Option<String> {
    use clap::error::ErrorKind;
    let Some(arguments) = arguments(command) else {
        return Some(format!("fencepost {command}: a quote is not closed"));
    };
    let words = [vec!["fencepost".to_owned()], arguments].concat();
    let error = super::command().try_get_matches_from(&words).err()?;
    let named_only = [
        ErrorKind::MissingRequiredArgument,
        ErrorKind::DisplayHelp,
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand,
    ];
    let is_fine = named_only.contains(&error.kind()) || has_placeholder(&error);
    (!is_fine).then(|| format!("fencepost {command}: {error}"))
}

/// Whether what is wrong is a value in capitals, which stands for one: `fencepost guard probe URL`.
fn has_placeholder(error: &clap::Error) -> bool {
    use clap::error::{ContextKind, ContextValue};
    let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) else {
        return false;
    };
    value.chars().all(|letter| letter.is_ascii_uppercase())
}

#[test]
fn documents_show_commands_that_exist() {
    let mut seen = 0;
    let mut complaints = Vec::new();
    for (path, page) in pages() {
        for command in commands(&page) {
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

#[test]
fn arguments_are_split_as_a_shell_does() {
    for (command, expected) in [
        (
            "hold r -- sh -c 'a \"b\" # c' # d",
            &["hold", "r", "--", "sh", "-c", "a \"b\" # c"][..],
        ),
        (
            "release \"a b\" \"$TOKEN\" && next",
            &["release", "a b", "65547"],
        ),
        (
            "list --prefix a\\ b | head -1",
            &["list", "--prefix", "a b"],
        ),
        ("serve --listen x &", &["serve", "--listen", "x"]),
    ] {
        assert_eq!(arguments(command).unwrap(), expected, "{command}");
    }
    for slip in ["release \"a", "release a $TOKN"] {
        assert!(complaint(slip).is_some(), "{slip}");
    }
}
