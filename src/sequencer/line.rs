//! The sequencer as one line of text, for files, logs, arguments and environment variables.
//!
//! `ISSUER:RESOURCE:TOKEN`, with both names percent-encoded where they hold anything else than
//! letters and digits of ASCII or one of `-._~/`. So the line has no blank and exactly two colons,
//! sorts and splits with any tool, and stays as typed for the names that people choose.

use std::fmt;
use std::str::FromStr;

use crate::resource::{IssuerName, NameError, ResourceName};
use crate::token::{TokenError, TokenValue};

use super::Sequencer;

/// Why a text is not a sequencer's line. None of them repeats the text, which may be huge.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// There are not exactly three parts.
    #[error("a sequencer is ISSUER:RESOURCE:TOKEN, with a colon inside a name written as %3A")]
    Parts,
    /// A name is none. The message names the part.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The number is no token.
    #[error(transparent)]
    Token(#[from] TokenError),
}

impl fmt::Display for Sequencer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (issuer, resource) = (self.issuer.line_encoded(), self.resource.line_encoded());
        write!(f, "{issuer}:{resource}:{}", self.token)
    }
}

impl FromStr for Sequencer {
    type Err = LineError;

    fn from_str(line: &str) -> Result<Self, LineError> {
        let mut parts = line.split(':');
        let (Some(issuer), Some(resource), Some(token), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(LineError::Parts);
        };
        Ok(Self {
            issuer: IssuerName::from_percent_encoded(issuer)?,
            resource: ResourceName::from_percent_encoded(resource)?,
            token: token.parse::<TokenValue>()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequencer(issuer: &str, resource: &str, token: u64) -> Sequencer {
        Sequencer {
            issuer: issuer.parse().unwrap(),
            resource: resource.parse().unwrap(),
            token: TokenValue::new(token).unwrap(),
        }
    }

    #[test]
    fn a_line_is_issuer_resource_token() {
        for (written, line) in [
            (
                sequencer("prod", "accounts/1", 65_537),
                "prod:accounts/1:65537",
            ),
            (sequencer("a:b", "100% sure", 1), "a%3Ab:100%25%20sure:1"),
            (
                sequencer("prod", "日", i64::MAX as u64),
                "prod:%E6%97%A5:9223372036854775807",
            ),
        ] {
            assert_eq!(written.to_string(), line);
            assert_eq!(line.parse::<Sequencer>().unwrap(), written);
        }
    }

    #[test]
    fn a_bad_line_says_what_is_wrong() {
        for (line, complaint) in [
            ("", "ISSUER:RESOURCE:TOKEN"),
            ("prod:accounts:1:2", "ISSUER:RESOURCE:TOKEN"),
            (":accounts:1", "issuer is empty"),
            ("prod::1", "resource is empty"),
            ("prod:%zz:1", "resource is not percent-encoded"),
            ("prod:accounts:-1", "not a decimal number"),
            ("prod:accounts:0", "out of range"),
            ("prod:accounts:9223372036854775808", "out of range"),
            ("prod:accounts:1 ", "not a decimal number"),
        ] {
            let said = line.parse::<Sequencer>().unwrap_err().to_string();
            assert!(said.contains(complaint), "{line:?}: {said}");
        }
    }
}
