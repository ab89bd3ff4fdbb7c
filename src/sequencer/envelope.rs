//! The sequencer around a message: a JSON envelope, for job queues and event streams.
//!
//! ```json
//! {"resourceId": "accounts/1",
//!  "fencing": {"token": 65537, "issuer": "prod", "scope": "resource:accounts/1",
//!              "issuedAt": "2026-01-31T12:00:00.000Z"}}
//! ```
//!
//! A message takes it in by `#[serde(flatten)]`, beside fields of its own. The token is a number up
//! to 2^53 and a string above, and is read as either (see [`TokenValue`](crate::token::TokenValue)).
//! `issuer` and `issuedAt` may be missing; `scope` may not, because it is what keeps a token that was
//! copied into another message from being compared there.

use std::fmt;
use std::time::SystemTime;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use crate::limits::{ISSUED_AT_CHARS_MAX, SCOPE_CHARS_MAX};
use crate::resource::{IssuerName, ResourceName};
use crate::token::TokenValue;

use super::{Presented, Sequencer};

/// What a message carries so that whoever works on it later can be fenced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Envelope {
    /// The resource that the message is about.
    #[serde(rename = "resourceId")]
    pub resource: ResourceName,
    /// The grant under which it was sent.
    pub fencing: Fencing,
}

/// The grant's part of an [`Envelope`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fencing {
    /// The number to compare.
    pub token: TokenValue,
    /// Who issued it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub issuer: Option<IssuerName>,
    /// What it may be compared within.
    pub scope: Scope,
    /// When it was issued, for people. Decides nothing.
    #[serde(rename = "issuedAt", default, skip_serializing_if = "Option::is_none")]
    pub issued_at: Option<IssuedAt>,
}

/// What a token may be compared within, besides its issuer: `resource:NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// One resource, the only scope that fencepost issues tokens for.
    Resource(ResourceName),
    /// Anything else, kept as it came. A guard refuses it as foreign.
    Other(String),
}

/// A moment as text, RFC 3339 where fencepost wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedAt(String);

/// The token's scope is not the resource that the message is about, so that the token says nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the token's scope is \"{presented}\", and the message is about \"{expected}\"")]
pub struct OtherScope {
    /// The scope in the envelope.
    pub presented: Scope,
    /// The resource in the envelope.
    pub expected: ResourceName,
}

/// The text is no envelope. The message names the field or the place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a fencing envelope: {0}")]
pub struct EnvelopeError(String);

impl Envelope {
    /// The envelope of a grant. `issued_at` is for people.
    #[must_use]
    pub fn new(sequencer: &Sequencer, issued_at: Option<SystemTime>) -> Self {
        Self {
            resource: sequencer.resource.clone(),
            fencing: Fencing {
                token: sequencer.token,
                issuer: Some(sequencer.issuer.clone()),
                scope: Scope::Resource(sequencer.resource.clone()),
                issued_at: issued_at.map(IssuedAt::from),
            },
        }
    }

    /// What the envelope presents to a guard.
    ///
    /// # Errors
    ///
    /// [`OtherScope`] for a token of another resource, or of another kind of scope: foreign, never
    /// compared.
    pub fn presented(&self) -> Result<Presented, OtherScope> {
        let token_is_for = match &self.fencing.scope {
            Scope::Resource(resource) if *resource == self.resource => resource,
            other => {
                return Err(OtherScope {
                    presented: other.clone(),
                    expected: self.resource.clone(),
                });
            }
        };
        Ok(Presented {
            issuer: self.fencing.issuer.clone(),
            resource: token_is_for.clone(),
            token: self.fencing.token,
        })
    }

    /// Writes the envelope alone.
    #[must_use]
    pub fn to_json(&self) -> String {
        // Maps with text keys, texts and a number: there is nothing that JSON could not hold.
        serde_json::to_string(self).expect("an envelope has only texts and a number")
    }

    /// Reads an envelope; other fields beside it are passed over.
    ///
    /// # Errors
    ///
    /// [`EnvelopeError`] for anything else, and for a token that is not an integer, negative, zero,
    /// or beyond 2^63 - 1.
    pub fn from_json(text: &str) -> Result<Self, EnvelopeError> {
        serde_json::from_str(text).map_err(|error| EnvelopeError(error.to_string()))
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resource(resource) => write!(f, "resource:{resource}"),
            Self::Other(other) => f.write_str(other),
        }
    }
}

impl Serialize for Scope {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Scope {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = bounded(deserializer, "scope", SCOPE_CHARS_MAX)?;
        match text.strip_prefix("resource:").map(ResourceName::new) {
            Some(Ok(resource)) => Ok(Self::Resource(resource)),
            Some(Err(error)) => Err(D::Error::custom(format_args!("scope: {error}"))),
            None => Ok(Self::Other(text)),
        }
    }
}

impl IssuedAt {
    /// The text, as it came.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<SystemTime> for IssuedAt {
    fn from(moment: SystemTime) -> Self {
        Self(humantime::format_rfc3339_millis(moment).to_string())
    }
}

impl Serialize for IssuedAt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for IssuedAt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        bounded(deserializer, "issuedAt", ISSUED_AT_CHARS_MAX).map(Self)
    }
}

/// A text that is kept as it came, but not at any length, nor with control characters in it.
fn bounded<'de, D: Deserializer<'de>>(
    deserializer: D,
    field: &str,
    chars_max: usize,
) -> Result<String, D::Error> {
    let text = String::deserialize(deserializer)?;
    if text.chars().nth(chars_max).is_some() {
        let complaint =
            format_args!("{field} is too long: it may have at most {chars_max} characters")
                .to_string();
        return Err(D::Error::custom(complaint));
    }
    if text.chars().any(char::is_control) {
        return Err(D::Error::custom(format_args!(
            "{field} has a control character"
        )));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    fn sequencer(token: u64) -> Sequencer {
        Sequencer {
            issuer: "prod".parse().unwrap(),
            resource: "accounts/1".parse().unwrap(),
            token: TokenValue::new(token).unwrap(),
        }
    }

    #[test]
    fn an_envelope_is_written_exactly_so() {
        let at = UNIX_EPOCH + Duration::from_millis(1_769_860_800_123);
        let written = Envelope::new(&sequencer(65_537), Some(at));
        assert_eq!(
            written.to_json(),
            r#"{"resourceId":"accounts/1","fencing":{"token":65537,"issuer":"prod","scope":"resource:accounts/1","issuedAt":"2026-01-31T12:00:00.123Z"}}"#
        );
        assert_eq!(Envelope::from_json(&written.to_json()), Ok(written.clone()));
        assert_eq!(written.presented().unwrap(), sequencer(65_537).into());
    }

    #[test]
    fn a_token_is_a_number_up_to_two_to_the_53_and_a_string_above() {
        for (token, form) in [
            (1 << 53, "9007199254740992"),
            ((1 << 53) + 1, "\"9007199254740993\""),
            (i64::MAX as u64, "\"9223372036854775807\""),
        ] {
            let json = Envelope::new(&sequencer(token), None).to_json();
            assert!(json.contains(&format!("\"token\":{form},")), "{json}");
            for form in [token.to_string(), format!("\"{token}\"")] {
                let json = with_token(&form);
                let read = Envelope::from_json(&json).unwrap();
                assert_eq!(read.fencing.token.get(), token);
            }
        }
    }

    fn with_token(token: &str) -> String {
        format!(
            r#"{{"job": [1], "resourceId": "a", "fencing": {{"token": {token}, "scope": "resource:a"}}}}"#
        )
    }

    #[test]
    fn what_is_no_token_is_refused() {
        for token in [
            "0",
            "-1",
            "1.0",
            "1.5",
            "1e3",
            "9223372036854775808",
            "99999999999999999999999",
            "\"\"",
            "\"-1\"",
            "\"1.0\"",
            "\" 1\"",
            "\"0x1\"",
            "null",
            "true",
            "[1]",
            "\"9223372036854775808\"",
        ] {
            let said = Envelope::from_json(&with_token(token))
                .unwrap_err()
                .to_string();
            assert!(said.contains("token"), "{token}: {said}");
        }
    }

    #[test]
    fn a_token_of_another_scope_is_foreign() {
        for scope in ["resource:b", "table:a", "a", ""] {
            let json =
                format!(r#"{{"resourceId": "a", "fencing": {{"token": 1, "scope": "{scope}"}}}}"#);
            let refused = Envelope::from_json(&json).unwrap().presented().unwrap_err();
            assert_eq!(refused.presented.to_string(), scope);
        }
    }

    #[test]
    fn a_message_takes_it_in_beside_fields_of_its_own() {
        #[derive(Serialize, Deserialize)]
        struct Job {
            #[serde(flatten)]
            envelope: Envelope,
            amount: u64,
        }
        let token = (1 << 53) + 1;
        let job = Job {
            envelope: Envelope::new(&sequencer(token), None),
            amount: 5,
        };
        let read: Job = serde_json::from_str(&serde_json::to_string(&job).unwrap()).unwrap();
        assert_eq!((read.envelope, read.amount), (job.envelope, 5));
    }

    #[test]
    fn a_bad_envelope_names_the_field() {
        for (json, complaint) in [
            ("", "EOF"),
            ("{}", "resourceId"),
            (r#"{"resourceId": "a"}"#, "fencing"),
            (r#"{"resourceId": "", "fencing": {}}"#, "resource is empty"),
            (r#"{"resourceId": "a", "fencing": {"token": 1}}"#, "scope"),
            (
                r#"{"resourceId": "a", "fencing": {"token": 1, "token": 2, "scope": "resource:a"}}"#,
                "duplicate",
            ),
            (
                r#"{"resourceId": "a", "fencing": {"token": 1, "scope": "resource:"}}"#,
                "scope: resource is empty",
            ),
            (
                r#"{"resourceId": "a", "fencing": {"token": 1, "issuer": " ", "scope": "resource:a"}}"#,
                "issuer begins",
            ),
        ] {
            let said = Envelope::from_json(json).unwrap_err().to_string();
            assert!(said.contains(complaint), "{json}: {said}");
        }
        let long = "x".repeat(1_000);
        let json =
            format!(r#"{{"resourceId": "a", "fencing": {{"token": 1, "scope": "{long}"}}}}"#);
        assert!(
            Envelope::from_json(&json)
                .unwrap_err()
                .to_string()
                .contains("at most")
        );
    }
}
