//! The sample configurations in `deploy/` name every setting, and show the true defaults.

use std::collections::BTreeMap;

use crate::rust::{self, Token};
use crate::tree::{Tree, wants_none, wants_one};

const CODE: &str = "src/server/config/settings.rs";
const SAMPLES: [&str; 2] = ["deploy/three-nodes.toml", "deploy/five-nodes.toml"];

/// Every setting's key and default, from the table in the code: `value("name", "PLACEHOLDER", Some("default"), ...)`,
/// or a literal with a field `name: "..."` and, two fields on, `default: ...`.
fn in_code(tree: &Tree) -> BTreeMap<String, Option<String>> {
    let tokens: Vec<Token> = rust::tokens(tree.text(CODE))
        .into_iter()
        .map(|placed| placed.token)
        .collect();
    let mut settings = BTreeMap::new();
    for (at, window) in tokens.windows(3).enumerate() {
        let call = window[0].is("value") && window[1] == Token::Mark('(');
        let field = window[0].is("name") && window[1] == Token::Mark(':');
        let Token::Text(name) = &window[2] else {
            continue;
        };
        if call || field {
            settings.insert(name.replace('-', "_"), default_after(&tokens[at..]));
        }
    }
    settings
}

/// The text in the first `Some("...")`, unless a `None` comes first.
fn default_after(tokens: &[Token]) -> Option<String> {
    let at = tokens
        .iter()
        .position(|token| token.is("Some") || token.is("None"))?;
    match tokens.get(at..at + 3)? {
        [some, _, Token::Text(text)] if some.is("Some") => Some(text.clone()),
        _ => None,
    }
}

/// Every key of a sample, and the value of those that are commented out (`# key = value`).
fn in_sample(text: &str) -> BTreeMap<String, Option<String>> {
    let is_key =
        |key: &str| !key.is_empty() && key.chars().all(|c| c.is_ascii_lowercase() || c == '_');
    let mut keys = BTreeMap::new();
    for line in text.lines() {
        let (line, shown) = line
            .strip_prefix("# ")
            .map_or((line, false), |rest| (rest, true));
        if let Some(table) = line
            .strip_prefix('[')
            .and_then(|rest| rest.strip_suffix(']'))
        {
            keys.insert(table.to_owned(), None);
        } else if let Some((key, value)) = line.split_once('=')
            && is_key(key.trim_end())
        {
            let value = value.trim().trim_matches('"').to_owned();
            keys.insert(key.trim_end().to_owned(), shown.then_some(value));
        }
    }
    keys
}

fn complaints(tree: &Tree) -> Vec<String> {
    let settings = in_code(tree);
    let mut complaints = Vec::new();
    for path in SAMPLES {
        let sample = in_sample(tree.text(path));
        for (key, default) in &settings {
            match sample.get(key) {
                None => complaints.push(format!("{path}: `{key}` is not explained")),
                Some(Some(shown)) if *shown != default.clone().unwrap_or_default() => {
                    complaints.push(format!(
                        "{path}: the default of `{key}` is {default:?}, not `{shown}`"
                    ));
                }
                Some(_) => {}
            }
        }
        for key in sample.keys().filter(|key| !settings.contains_key(*key)) {
            complaints.push(format!("{path}: there is no setting `{key}`"));
        }
    }
    complaints
}

#[test]
fn samples_name_every_setting_with_its_default() {
    let tree = Tree::real();
    assert!(in_code(&tree).len() >= 10, "no settings found in {CODE}");
    wants_none(&complaints(&tree));
}

#[test]
fn a_sample_that_lags_behind_is_noticed() {
    let code = "value(\"node-id\", \"ID\", None, X), value(\"cache\", \"SIZE\", Some(\"1MiB\"), X), \
        Setting { name: \"join\", placeholder: \"\", default: Some(\"false\") }";
    let good = "node_id = 1\n# cache = \"1MiB\"\n# A sentence = no key.\n# join = false\n";
    let complain = |sample: &str| {
        let other = (SAMPLES[1], good);
        complaints(&Tree::of(&[(CODE, code), (SAMPLES[0], sample), other]))
    };
    wants_none(&complain(good));
    wants_one(
        &complain(&good.replace("# join = false\n", "")),
        &["`join` is not explained"],
    );
    wants_one(
        &complain(&good.replace("1MiB", "2MiB")),
        &["`cache`", "2MiB"],
    );
    wants_one(
        &complain(&format!("{good}more = 1\n")),
        &["no setting `more`"],
    );
}
