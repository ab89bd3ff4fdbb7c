//! Every path in a file of Rust that names another part or a foreign crate, made absolute.

use crate::rust::{Placed, Token};

/// A path that code mentions, from `crate` down or from a foreign crate's name down.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Mention {
    /// `["crate", "server", "store"]` or `["sled", "Db"]`.
    pub(crate) path: Vec<String>,
    pub(crate) line: usize,
}

/// All mentions in `tokens`, a file that is the module `module` (`["server", "store"]`). `crates` are the names that
/// count as foreign; the library's own name counts as `crate`.
pub(crate) fn mentions(tokens: &[Placed], module: &[&str], crates: &[String]) -> Vec<Mention> {
    let declared = declared_modules(tokens);
    let crates: Vec<String> = crates
        .iter()
        .filter(|name| !declared.contains(&name.as_str()))
        .cloned()
        .collect();
    let mut reader = Reader {
        tokens,
        crates: &crates,
        at: 0,
        open: Vec::new(),
        out: Vec::new(),
    };
    let mut here: Vec<String> = module.iter().map(|&part| part.to_owned()).collect();
    while reader.at < tokens.len() {
        reader.step(&mut here);
    }
    reader.out
}

/// A file's own module hides the crate of that name.
fn declared_modules(tokens: &[Placed]) -> Vec<&str> {
    tokens
        .windows(2)
        .filter(|pair| pair[0].token.is("mod"))
        .filter_map(|pair| pair[1].token.word())
        .collect()
}

struct Reader<'a> {
    tokens: &'a [Placed],
    crates: &'a [String],
    at: usize,
    /// One a brace that is open: whether it opened an inline module.
    open: Vec<bool>,
    out: Vec<Mention>,
}

impl Reader<'_> {
    fn token(&self, at: usize) -> Option<&Token> {
        self.tokens.get(at).map(|placed| &placed.token)
    }

    fn step(&mut self, here: &mut Vec<String>) {
        let opens_module = self.at >= 2
            && self.token(self.at - 2).is_some_and(|token| token.is("mod"))
            && self
                .token(self.at - 1)
                .is_some_and(|token| token.word().is_some());
        match self.token(self.at) {
            Some(Token::Mark('{')) => {
                self.open.push(opens_module);
                if opens_module {
                    let name = self
                        .token(self.at - 1)
                        .and_then(Token::word)
                        .unwrap_or_default();
                    here.push(name.to_owned());
                }
            }
            Some(Token::Mark('}')) => {
                let closes_module = self.open.pop() == Some(true);
                if closes_module {
                    here.pop();
                }
            }
            Some(Token::Word(word)) if self.starts_a_path(word) => {
                let mut prefix = Vec::new();
                self.path(&mut prefix, here);
                return;
            }
            _ => {}
        }
        self.at += 1;
    }

    /// A word that begins an absolute or upward path: not after `::`, and before `::` (or all of a `use`).
    fn starts_a_path(&self, word: &str) -> bool {
        let known = matches!(word, "crate" | "super" | "self" | "fencepost")
            || self.crates.iter().any(|name| name == word);
        let before = self.at.checked_sub(1).and_then(|at| self.token(at));
        let leads = self.token(self.at + 1) == Some(&Token::Sep)
            || before.is_some_and(|token| token.is("use"));
        known && leads && before != Some(&Token::Sep)
    }

    /// Reads a path with its groups, and notes every leaf of it.
    fn path(&mut self, prefix: &mut Vec<String>, here: &[String]) {
        let line = self.tokens[self.at].line;
        let depth = prefix.len();
        loop {
            match self.token(self.at) {
                Some(Token::Word(word)) => prefix.push(word.clone()),
                Some(Token::Mark('*')) => {}
                Some(Token::Mark('{')) if prefix.len() > depth || depth > 0 => {
                    self.group(prefix, here);
                    prefix.truncate(depth);
                    return;
                }
                _ => break,
            }
            self.at += 1;
            if self.token(self.at) != Some(&Token::Sep) {
                break;
            }
            self.at += 1;
        }
        self.note(prefix, here, line);
        prefix.truncate(depth);
    }

    /// At the `{` of `a::{b, c::d as e}`.
    fn group(&mut self, prefix: &mut Vec<String>, here: &[String]) {
        self.at += 1;
        while let Some(token) = self.token(self.at) {
            match token {
                Token::Mark('}') => {
                    self.at += 1;
                    return;
                }
                Token::Mark(',') => self.at += 1,
                Token::Word(word) if word == "as" => self.at += 2,
                Token::Word(_) | Token::Mark('*' | '{') => {
                    let before = self.at;
                    self.path(prefix, here);
                    self.at = self.at.max(before + 1);
                }
                _ => self.at += 1,
            }
        }
    }

    fn note(&mut self, path: &[String], here: &[String], line: usize) {
        let mut absolute = match path.first().map(String::as_str) {
            Some("crate" | "fencepost") => vec!["crate".to_owned()],
            Some("self" | "super") => [&["crate".to_owned()], here].concat(),
            _ => Vec::new(),
        };
        let local = !absolute.is_empty();
        for (position, part) in path.iter().enumerate() {
            match part.as_str() {
                "super" if local => {
                    absolute.pop();
                }
                "crate" | "fencepost" if position == 0 => {}
                "self" => {}
                _ => absolute.push(part.clone()),
            }
        }
        self.out.push(Mention {
            path: absolute,
            line,
        });
    }
}

fn seen(source: &str, module: &[&str]) -> Vec<String> {
    let crates = ["sled".to_owned(), "tokio".to_owned()];
    let tokens = crate::rust::tokens(source);
    mentions(&tokens, module, &crates)
        .iter()
        .map(|mention| mention.path.join("::"))
        .collect()
}

#[test]
fn groups_are_unfolded() {
    let source =
        "use crate::{token::Token, server::{self, store::*}}; use tokio::{self as t, sync};";
    let expected = [
        "crate::token::Token",
        "crate::server",
        "crate::server::store",
        "tokio",
        "tokio::sync",
    ];
    assert_eq!(seen(source, &[]), expected);
}

#[test]
fn upward_paths_are_resolved_also_from_inline_modules() {
    let source = "use super::store; mod tests { use super::*; use super::super::raft::Node; } fn f() { super::api::g() }";
    let expected = [
        "crate::server::store",
        "crate::server::node",
        "crate::server::raft::Node",
        "crate::server::api::g",
    ];
    assert_eq!(seen(source, &["server", "node"]), expected);
}

#[test]
fn paths_in_code_count_and_tails_of_paths_do_not() {
    let source =
        "fn f() -> sled::Db { let a = x::sled::y; #[tokio::main] fencepost::client::go(a.tokio) }";
    assert_eq!(
        seen(source, &[]),
        ["sled::Db", "tokio::main", "crate::client::go"]
    );
}

#[test]
fn a_module_of_its_own_hides_the_crate_of_that_name() {
    assert!(seen("mod sled;\nuse sled::Db;", &[]).is_empty());
}
