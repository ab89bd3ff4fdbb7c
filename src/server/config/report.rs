//! What is in force, and who said so: the output of `serve --check`.

use super::{Config, settings::SETTINGS};

/// One line a setting, in the order of the help: name, value, source.
pub fn report(config: &Config) -> String {
    let rows: Vec<_> = SETTINGS
        .iter()
        .map(|setting| match config.given.get(setting.name) {
            Some(given) => (setting.key(), quoted(&given.text), given.source.to_string()),
            None => (
                format!("# {}", setting.key()),
                String::new(),
                "not set".to_owned(),
            ),
        })
        .collect();
    let key_width = rows.iter().map(|row| row.0.len()).max().unwrap_or(0);
    let value_width = rows
        .iter()
        .map(|row| row.1.chars().count())
        .max()
        .unwrap_or(0);
    rows.iter()
        .map(|(key, value, source)| {
            let equals = if value.is_empty() { ' ' } else { '=' };
            format!("{key:<key_width$} {equals} {value:<value_width$}  # {source}\n")
        })
        .collect()
}

/// As TOML would have it, so that a line of the report can be pasted into a file.
fn quoted(text: &str) -> String {
    if text == "true" || text == "false" || text.parse::<u64>().is_ok() {
        text.to_owned()
    } else {
        toml::Value::String(text.to_owned()).to_string()
    }
}
