//! Rust source as tokens, so that checks see code and neither comments nor the insides of strings.
//!
//! Not a parser: it knows words, strings, `::` and single marks, which is all that the checks ask for.

/// What the checks tell apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Token {
    /// An identifier, a keyword or a number.
    Word(String),
    /// What stands between the quotes of a string literal, escapes left as they are.
    Text(String),
    /// `::`
    Sep,
    /// Any other character.
    Mark(char),
}

impl Token {
    /// The word, if it is one.
    pub(crate) fn word(&self) -> Option<&str> {
        match self {
            Self::Word(word) => Some(word),
            _ => None,
        }
    }

    /// Whether it is this very word.
    pub(crate) fn is(&self, word: &str) -> bool {
        self.word() == Some(word)
    }
}

/// A token and the line it stands on, counted from 1.
#[derive(Debug, Clone)]
pub(crate) struct Placed {
    pub(crate) token: Token,
    pub(crate) line: usize,
}

/// The tokens of `source`, in order.
pub(crate) fn tokens(source: &str) -> Vec<Placed> {
    let mut lexer = Lexer {
        chars: source.chars().collect(),
        at: 0,
        line: 1,
        out: Vec::new(),
    };
    while lexer.at < lexer.chars.len() {
        lexer.step();
    }
    lexer.out
}

/// The tokens outside inline `#[cfg(test)] mod ... { ... }`: tests may look further than what they test.
pub(crate) fn without_tests(tokens: &[Placed]) -> Vec<Placed> {
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match test_module(&tokens[at..]) {
            Some(length) => at += length,
            None => {
                kept.push(tokens[at].clone());
                at += 1;
            }
        }
    }
    kept
}

/// How many tokens an inline test module has that begins here.
fn test_module(tokens: &[Placed]) -> Option<usize> {
    let head = tokens.get(..10)?.iter().map(|placed| match &placed.token {
        Token::Word(word) => word.clone(),
        Token::Mark(mark) => mark.to_string(),
        _ => String::new(),
    });
    let head: Vec<String> = head.collect();
    if head[..8] != ["#", "[", "cfg", "(", "test", ")", "]", "mod"] || head[9] != "{" {
        return None;
    }
    let mut depth = 0;
    let closes = |placed: &Placed| {
        depth += i32::from(placed.token == Token::Mark('{'));
        depth -= i32::from(placed.token == Token::Mark('}'));
        depth == 0
    };
    Some(tokens[9..].iter().position(closes)? + 10)
}

struct Lexer {
    chars: Vec<char>,
    at: usize,
    line: usize,
    out: Vec<Placed>,
}

impl Lexer {
    fn peek(&self, ahead: usize) -> char {
        self.chars.get(self.at + ahead).copied().unwrap_or('\0')
    }

    fn bump(&mut self) -> char {
        let c = self.peek(0);
        self.at += 1;
        self.line += usize::from(c == '\n');
        c
    }

    fn push(&mut self, token: Token, line: usize) {
        self.out.push(Placed { token, line });
    }

    fn step(&mut self) {
        let line = self.line;
        match (self.peek(0), self.peek(1)) {
            ('/', '/') => while self.at < self.chars.len() && self.bump() != '\n' {},
            ('/', '*') => self.block_comment(),
            ('"', _) => self.string(0, true),
            ('\'', _) => self.quote(),
            (':', ':') => {
                self.at += 2;
                self.push(Token::Sep, line);
            }
            (c, _) if c.is_alphanumeric() || c == '_' => self.word_or_prefixed_string(),
            (c, _) => {
                self.bump();
                if !c.is_whitespace() {
                    self.push(Token::Mark(c), line);
                }
            }
        }
    }

    fn block_comment(&mut self) {
        let mut depth = 0;
        while self.at < self.chars.len() {
            match (self.peek(0), self.peek(1)) {
                ('/', '*') => depth += 1,
                ('*', '/') => depth -= 1,
                _ => {
                    self.bump();
                    continue;
                }
            }
            self.at += 2;
            if depth == 0 {
                return;
            }
        }
    }

    /// At the opening quote of a string that closes with a quote and `hashes` hashes.
    fn string(&mut self, hashes: usize, escapes: bool) {
        let line = self.line;
        self.bump();
        let mut text = String::new();
        while self.at < self.chars.len() {
            let c = self.bump();
            if c == '"' && (0..hashes).all(|ahead| self.peek(ahead) == '#') {
                self.at += hashes;
                break;
            }
            text.push(c);
            if c == '\\' && escapes {
                text.push(self.bump());
            }
        }
        self.push(Token::Text(text), line);
    }

    /// A character literal, which says nothing, or the start of a lifetime, whose name says nothing either.
    fn quote(&mut self) {
        self.bump();
        if self.peek(0) == '\\' {
            self.at += 2;
            while self.at < self.chars.len() && self.bump() != '\'' {}
        } else if self.peek(1) == '\'' {
            self.bump();
            self.bump();
        } else {
            while self.peek(0).is_alphanumeric() || self.peek(0) == '_' {
                self.bump();
            }
        }
    }

    fn word_or_prefixed_string(&mut self) {
        let line = self.line;
        let mut word = String::new();
        while self.peek(0).is_alphanumeric() || self.peek(0) == '_' {
            word.push(self.bump());
        }
        let raw = matches!(word.as_str(), "r" | "br" | "cr");
        let hashes = (0..).take_while(|&ahead| self.peek(ahead) == '#').count();
        match (self.peek(hashes), word.as_str()) {
            ('"', _) if raw => {
                self.at += hashes;
                self.string(hashes, false);
            }
            ('"', "b" | "c") if hashes == 0 => self.string(0, true),
            ('\'', "b") if hashes == 0 => self.quote(),
            _ if raw && hashes == 1 => {
                self.bump(); // `r#type` is the word `type`: the next step reads it
            }
            _ => self.push(Token::Word(word), line),
        }
    }
}

#[test]
fn comments_and_strings_are_no_words() {
    let source =
        "a // b\n/* c /* d */ e */ \"f\\\"g\" r#\"h\"i\"# 'j' '\\n' b'k' &'l m::n b\"o\" r#type x";
    let seen: Vec<_> = tokens(source)
        .iter()
        .filter_map(|t| t.token.word().map(str::to_owned))
        .collect();
    assert_eq!(seen, ["a", "m", "n", "type", "x"]);
    let texts: Vec<_> = tokens(source)
        .into_iter()
        .filter(|t| matches!(t.token, Token::Text(_)))
        .collect();
    assert_eq!(texts.len(), 3);
    assert_eq!(texts[0].line, 2);
    assert_eq!(texts[1].token, Token::Text("h\"i".to_owned()));
}

#[test]
fn test_modules_are_left_out() {
    let source = "a; #[cfg(test)] mod tests { fn f() { b } } c; #[cfg(test)] mod d;";
    let kept = without_tests(&tokens(source));
    let words: Vec<_> = kept
        .iter()
        .filter_map(|placed| placed.token.word())
        .collect();
    assert_eq!(words, ["a", "c", "cfg", "test", "mod", "d"]);
}
