//! The files of the tree, read once, as text.

use std::fs;
use std::path::Path;

/// One file: its path from the root of the tree, with `/` between the parts, and what is in it.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    /// Whether people wrote it: generated code obeys its generator.
    pub(crate) fn handwritten(&self) -> bool {
        !self.path.contains("/generated/")
    }

    /// Its path below `src/`, without `.rs` and without a closing `/mod`; `None` outside `src/`.
    pub(crate) fn module(&self) -> Option<&str> {
        let inner = self.path.strip_prefix("src/")?.strip_suffix(".rs")?;
        Some(inner.strip_suffix("/mod").unwrap_or(inner))
    }
}

/// All files that a check may look at.
#[derive(Default)]
pub(crate) struct Tree {
    pub(crate) files: Vec<File>,
}

impl Tree {
    /// The real one.
    pub(crate) fn real() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut tree = Self::default();
        for name in [
            "src", "tests", "benches", "examples", "docs", "deploy", "proto", ".ci",
        ] {
            tree.read_directory(root, &root.join(name));
        }
        for entry in fs::read_dir(root).expect("the package directory can be listed") {
            let path = entry.expect("an entry of it can be read").path();
            if path.is_file() {
                tree.read_file(root, &path);
            }
        }
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        assert!(
            tree.files.len() > 20,
            "the tree under {} was not found",
            root.display()
        );
        tree
    }

    /// A made-up one, to show that a check fires.
    pub(crate) fn of(files: &[(&str, &str)]) -> Self {
        let file = |&(path, text): &(&str, &str)| File {
            path: path.to_owned(),
            text: text.to_owned(),
        };
        Self {
            files: files.iter().map(file).collect(),
        }
    }

    /// The text of one file, or nothing at all where there is no such file.
    pub(crate) fn text(&self, path: &str) -> &str {
        self.files
            .iter()
            .find(|file| file.path == path)
            .map_or("", |file| &file.text)
    }

    /// Whether there is a file or a directory of that path.
    pub(crate) fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        let below = format!("{path}/");
        self.files
            .iter()
            .any(|file| file.path == path || file.path.starts_with(&below))
    }

    /// The files that end in `ending` and lie below one of `places`.
    pub(crate) fn below<'a>(
        &'a self,
        places: &'a [&str],
        ending: &'a str,
    ) -> impl Iterator<Item = &'a File> {
        self.files.iter().filter(move |file| {
            file.path.ends_with(ending) && places.iter().any(|place| file.path.starts_with(place))
        })
    }

    fn read_directory(&mut self, root: &Path, directory: &Path) {
        let Ok(entries) = fs::read_dir(directory) else {
            return;
        };
        for entry in entries {
            let path = entry.expect("an entry of the tree can be read").path();
            if path.is_dir() {
                self.read_directory(root, &path);
            } else {
                self.read_file(root, &path);
            }
        }
    }

    /// Files that are no text (golden bytes, say) are known by name and read as empty.
    fn read_file(&mut self, root: &Path, path: &Path) {
        let text = fs::read_to_string(path).unwrap_or_default();
        let path = path
            .strip_prefix(root)
            .expect("it was found below the root");
        self.files.push(File {
            path: path.to_string_lossy().replace('\\', "/"),
            text,
        });
    }
}

/// Fails with every complaint on a line of its own.
pub(crate) fn wants_none(complaints: &[String]) {
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}

/// Fails unless exactly one complaint came, and it holds each of `parts`.
pub(crate) fn wants_one(complaints: &[String], parts: &[&str]) {
    assert_eq!(complaints.len(), 1, "{complaints:#?}");
    for part in parts {
        assert!(
            complaints[0].contains(part),
            "no '{part}' in: {}",
            complaints[0]
        );
    }
}
