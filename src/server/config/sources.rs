//! Where the value of a setting comes from: flags, then the environment, then the file, then the default.

use std::{collections::BTreeMap, fmt, path::Path};

use super::{
    ConfigError,
    settings::{Kind, SETTINGS, Setting},
};

/// Who gave a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The command line.
    Flag(String),
    /// An environment variable.
    Environment(String),
    /// A key of the TOML file.
    File(String),
    /// Nobody: it is the built-in one.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Flag(name) => write!(f, "flag --{name}"),
            Source::Environment(name) => write!(f, "environment {name}"),
            Source::File(place) => write!(f, "file {place}"),
            Source::Default => f.write_str("default"),
        }
    }
}

/// A value as it was written, and by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Given {
    /// The text; a switch is `true` or `false`.
    pub text: String,
    /// Where it came from.
    pub source: Source,
}

/// What the three places say, before anything is judged.
#[derive(Debug, Default)]
pub struct Sources {
    /// Values of flags, by setting name. A switch that stands there is `true`.
    pub flags: BTreeMap<String, String>,
    /// `FENCEPOST_*` variables, by their full name.
    pub environment: BTreeMap<String, String>,
    /// The file's path and text.
    pub file: Option<(String, String)>,
}

impl Sources {
    /// Flags alone, for a node that is set up by code.
    pub fn from_flags<N: Into<String>, V: Into<String>>(
        flags: impl IntoIterator<Item = (N, V)>,
    ) -> Self {
        let flags = flags
            .into_iter()
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        Sources {
            flags,
            ..Sources::default()
        }
    }

    /// Keeps the variables that are fencepost's.
    pub fn with_environment(mut self, all: impl IntoIterator<Item = (String, String)>) -> Self {
        self.environment = all
            .into_iter()
            .filter(|(name, _)| name.starts_with("FENCEPOST_"))
            .collect();
        self
    }

    /// Reads the TOML file.
    ///
    /// # Errors
    ///
    /// When it cannot be read.
    pub fn with_file(mut self, path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            ConfigError::general(format!(
                "the configuration file {} cannot be read: {error}",
                path.display()
            ))
        })?;
        self.file = Some((path.display().to_string(), text));
        Ok(self)
    }

    /// The value in force for each setting. Everything that is wrong is added to `errors`.
    pub(super) fn resolve(&self, errors: &mut Vec<ConfigError>) -> BTreeMap<&'static str, Given> {
        let mut in_file = self.file_values(errors);
        let mut resolved = BTreeMap::new();
        for setting in SETTINGS {
            let from_file = in_file.remove(setting.name);
            if let Some(given) = self.one(setting, from_file) {
                resolved.insert(setting.name, given);
            }
        }
        resolved
    }

    fn one(&self, setting: &Setting, from_file: Option<Given>) -> Option<Given> {
        if let Some(text) = self.flags.get(setting.name) {
            return Some(Given {
                text: text.clone(),
                source: Source::Flag(setting.name.to_owned()),
            });
        }
        // An empty variable is one that a shell script or a unit file left blank: not set.
        let env = setting.env();
        if let Some(text) = self.environment.get(&env).filter(|text| !text.is_empty()) {
            return Some(Given {
                text: text.clone(),
                source: Source::Environment(env),
            });
        }
        from_file.or_else(|| {
            setting.default.map(|text| Given {
                text: text.to_owned(),
                source: Source::Default,
            })
        })
    }

    fn file_values(&self, errors: &mut Vec<ConfigError>) -> BTreeMap<&'static str, Given> {
        let mut values = BTreeMap::new();
        let Some((path, text)) = &self.file else {
            return values;
        };
        let table: toml::Table = match toml::from_str(text) {
            Ok(table) => table,
            Err(error) => {
                errors.push(ConfigError::general(format!(
                    "the configuration file {path} is not valid TOML: {}",
                    error.to_string().trim_end()
                )));
                return values;
            }
        };
        for (key, value) in &table {
            let Some(setting) = SETTINGS.iter().find(|setting| setting.key() == *key) else {
                errors.push(unknown_key(path, key));
                continue;
            };
            match text_of(setting, value) {
                Ok(text) => {
                    let source = Source::File(format!("{path}, key {key}"));
                    values.insert(setting.name, Given { text, source });
                }
                Err(wanted) => errors.push(ConfigError::general(format!(
                    "{path}: `{key}` must be {wanted}, not {}",
                    value.type_str()
                ))),
            }
        }
        values
    }
}

/// A TOML value as the flag would have it.
fn text_of(setting: &Setting, value: &toml::Value) -> Result<String, &'static str> {
    use toml::Value;
    match (setting.kind, value) {
        (Kind::Switch, Value::Boolean(on)) => Ok(on.to_string()),
        (Kind::Switch, _) => Err("true or false"),
        (_, Value::String(text)) => Ok(text.clone()),
        (Kind::Value, Value::Integer(number)) => Ok(number.to_string()),
        (Kind::Value, _) => Err("a string or a whole number"),
        (Kind::Peers, Value::Table(peers)) => peers
            .iter()
            .map(|(id, address)| address.as_str().map(|address| format!("{id}={address}")))
            .collect::<Option<Vec<_>>>()
            .map(|peers| peers.join(","))
            .ok_or("a table of strings: 1 = \"host:port\""),
        (Kind::Peers, _) => Err("a table, or a string such as \"1=host:port,2=host:port\""),
    }
}

fn unknown_key(path: &str, key: &str) -> ConfigError {
    let mut message = format!("{path}: there is no setting `{key}`");
    if let Some(near) = nearest(key, SETTINGS.iter().map(Setting::key)) {
        message.push_str(&format!("; did you mean `{near}`?"));
    }
    ConfigError::general(message)
}

/// The candidate that differs in few enough letters to be a slip.
fn nearest(word: &str, candidates: impl Iterator<Item = String>) -> Option<String> {
    const ALIKE: f64 = 0.7;
    candidates
        .map(|candidate| {
            (
                strsim::normalized_damerau_levenshtein(word, &candidate),
                candidate,
            )
        })
        .filter(|(likeness, _)| *likeness >= ALIKE)
        .max_by(|(a, _), (b, _)| a.total_cmp(b))
        .map(|(_, candidate)| candidate)
}
