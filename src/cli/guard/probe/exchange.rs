//! One question to the service and its answer, as the report shows them.

use serde::Serialize;

use fencepost::sequencer::headers;

/// How much of an answer's body is kept, in bytes: enough for any body of the contract.
pub(super) const BODY_BYTES_MAX: u64 = 64 * 1024;
/// How much of a body the report for people shows, in characters.
const SHOWN_CHARS_MAX: usize = 240;

/// A request, without the headers that the user added: those may be credentials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) method: &'static str,
    pub(super) url: String,
    /// The sequencer's headers only, in the order and the spelling in which they are sent.
    pub(super) headers: Vec<(&'static str, Vec<u8>)>,
    pub(super) body: Option<String>,
}

/// What the service said.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) headers: Vec<(String, Vec<u8>)>,
    pub(super) body: Vec<u8>,
}

/// A request with what came of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Exchange {
    pub(super) request: Request,
    /// An answer, or why there was none although the service was reached.
    pub(super) answer: Result<Answer, String>,
}

/// What an answer says about the token that it would have taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Required {
    /// The header is not there.
    Missing,
    /// The header is there more than once.
    Repeated,
    /// The header is there, and is no decimal number that a token may have.
    Malformed(String),
    /// The lowest token that would have been admitted.
    Token(u64),
}

impl Answer {
    /// The `X-Required-Token` of the answer.
    pub(super) fn required(&self) -> Required {
        let mut values = self
            .headers
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case(headers::REQUIRED_TOKEN));
        let Some((_, value)) = values.next() else {
            return Required::Missing;
        };
        if values.next().is_some() {
            return Required::Repeated;
        }
        let text = readable(value);
        match text.parse::<fencepost::token::TokenValue>() {
            Ok(token) => Required::Token(token.get()),
            Err(_) => Required::Malformed(text),
        }
    }

    /// Whether a text is in the body.
    pub(super) fn shows(&self, text: &str) -> bool {
        String::from_utf8_lossy(&self.body).contains(text)
    }

    fn admits(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl Exchange {
    /// The status, or `None` where there was no answer.
    pub(super) fn status(&self) -> Option<u16> {
        self.answer.as_ref().ok().map(|answer| answer.status)
    }

    /// Any 2xx.
    pub(super) fn is_admitted(&self) -> bool {
        self.answer.as_ref().is_ok_and(Answer::admits)
    }

    /// The `X-Required-Token` of the answer, where there is a good one.
    pub(super) fn required(&self) -> Option<u64> {
        match self.answer.as_ref().ok()?.required() {
            Required::Token(token) => Some(token),
            _ => None,
        }
    }

    /// The request in one line, for people.
    pub(super) fn sent(&self) -> String {
        let Request {
            method,
            url,
            headers,
            body,
        } = &self.request;
        let mut line = format!("{method} {url}");
        for (name, value) in headers {
            line.push_str(&format!("  {name}: {}", readable(value)));
        }
        if let Some(body) = body {
            line.push_str(&format!("  body: {}", shown(body)));
        }
        line
    }

    /// The answer in one line, for people.
    pub(super) fn came_back(&self) -> String {
        match &self.answer {
            Err(why) => format!("no answer: {why}"),
            Ok(answer) => {
                let mut line = answer.status.to_string();
                for (name, value) in &answer.headers {
                    if name.eq_ignore_ascii_case(headers::REQUIRED_TOKEN) {
                        line.push_str(&format!("  X-Required-Token: {}", readable(value)));
                    }
                }
                if !answer.body.is_empty() {
                    let body = String::from_utf8_lossy(&answer.body);
                    line.push_str(&format!("  body: {}", shown(&body)));
                }
                line
            }
        }
    }

    /// The exchange as the JSON report has it.
    pub(super) fn json(&self) -> ExchangeJson {
        let Request {
            method,
            url,
            headers,
            body,
        } = &self.request;
        ExchangeJson {
            method,
            url: url.clone(),
            headers: headers
                .iter()
                .map(|(name, value)| [(*name).to_owned(), readable(value)])
                .collect(),
            body: body.clone(),
            status: self.status(),
            answer_headers: self.answer.as_ref().map_or(Vec::new(), |answer| {
                let pair = |(name, value): &(String, Vec<u8>)| [name.clone(), readable(value)];
                answer.headers.iter().map(pair).collect()
            }),
            answer_body: self
                .answer
                .as_ref()
                .ok()
                .map(|answer| String::from_utf8_lossy(&answer.body).into_owned()),
            no_answer: self.answer.as_ref().err().cloned(),
        }
    }
}

/// An exchange in the JSON report. Its field names are stable.
#[derive(Debug, Serialize)]
pub(super) struct ExchangeJson {
    method: &'static str,
    url: String,
    headers: Vec<[String; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    answer_headers: Vec<[String; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer_body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    no_answer: Option<String>,
}

/// Bytes of a header as text that a terminal may get: what is no printable text is escaped.
fn readable(bytes: &[u8]) -> String {
    shown(&String::from_utf8_lossy(bytes))
}

/// A text of bounded length without control characters: the service may send anything.
fn shown(text: &str) -> String {
    let mut line = String::new();
    for (count, character) in text.trim().chars().enumerate() {
        if count == SHOWN_CHARS_MAX {
            line.push_str("...");
            break;
        }
        if character.is_control() {
            line.extend(character.escape_default());
        } else {
            line.push(character);
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(headers: &[(&str, &str)]) -> Answer {
        let headers = headers.iter();
        Answer {
            status: 409,
            headers: headers
                .map(|(name, value)| ((*name).to_owned(), value.as_bytes().to_vec()))
                .collect(),
            body: b"{}".to_vec(),
        }
    }

    #[test]
    fn a_required_token_is_one_decimal_number() {
        for (headers, required) in [
            (vec![], Required::Missing),
            (vec![("X-Required-Token", "7")], Required::Token(7)),
            (vec![("x-required-token", " 7 ")], Required::Token(7)),
            (
                vec![("x-required-token", "7.0")],
                Required::Malformed("7.0".to_owned()),
            ),
            (
                vec![("x-required-token", "7"), ("X-Required-Token", "7")],
                Required::Repeated,
            ),
        ] {
            assert_eq!(answer(&headers).required(), required, "{headers:?}");
        }
    }

    #[test]
    fn what_a_service_sends_cannot_drive_the_terminal() {
        let shown = shown("a\u{1b}[2Jb\n");
        assert_eq!(shown, "a\\u{1b}[2Jb");
        assert!(super::shown(&"x".repeat(10_000)).ends_with("..."));
    }
}
