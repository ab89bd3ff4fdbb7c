//! The idempotency key: what a call is known by at a service that can compare no tokens.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use crate::sequencer::Sequencer;

use super::operation::Operation;

/// What most services take: Stripe, for one, takes keys of up to 255 characters.
const BYTES_DEFAULT: usize = 255;

/// The longest key that is recorded, in bytes, whatever a service takes.
pub const KEY_BYTES_MAX: usize = 1_024;

/// What a shortened key begins with. No readable one has an equals sign in it.
const SHORTENED: &str = "blake3=";

/// A key that a service does a call under at most once: `resource:token`, or
/// `resource:token:operation`.
///
/// The names are percent-encoded but for letters and digits of ASCII and `- . _ ~` (and `/` in a
/// resource), so that a key consists of visible ASCII, holds no colon but those between its parts, and
/// two different calls never have one key, whatever the names. A key that would be longer than the
/// service takes is `blake3=` and the 64 hexadecimal digits of the BLAKE3 hash of the readable one. It
/// is as good for the service, and tells people less.
///
/// The issuer is no part of it. Two issuers must not share an account at the service: their tokens
/// may coincide, and so would their keys.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey(Arc<str>);

/// The form in which a service wants its keys. Keep to one for as long as calls made in another may be
/// open; those keep the keys that they were recorded with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyForm(Form);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    UpTo { bytes_max: usize },
    Uuid,
}

/// The service's limit is too low for any text key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "keys of at most {bytes_max} bytes are too short for a hash, which takes {}: use `KeyForm::uuid`, which takes 36",
    KeyForm::BYTES_MIN
)]
pub struct KeyTooShort {
    /// The limit that was given.
    pub bytes_max: usize,
}

impl KeyForm {
    /// The lowest limit for [`KeyForm::up_to`]: a shortened key has this many bytes.
    pub const BYTES_MIN: usize = SHORTENED.len() + 64;

    /// Readable keys, shortened where they would have more than `bytes_max` bytes, or more than
    /// [`KEY_BYTES_MAX`].
    ///
    /// # Errors
    ///
    /// [`KeyTooShort`] below [`KeyForm::BYTES_MIN`].
    pub const fn up_to(bytes_max: usize) -> Result<Self, KeyTooShort> {
        if bytes_max < Self::BYTES_MIN {
            return Err(KeyTooShort { bytes_max });
        }
        Ok(Self(Form::UpTo { bytes_max }))
    }

    /// UUIDs (RFC 9562, version 8) made of 122 bits of the hash, for services that take nothing else,
    /// or no more than 36 bytes.
    #[must_use]
    pub const fn uuid() -> Self {
        Self(Form::Uuid)
    }
}

impl Default for KeyForm {
    /// Readable keys of at most 255 bytes.
    fn default() -> Self {
        let bytes_max = BYTES_DEFAULT;
        Self(Form::UpTo { bytes_max })
    }
}

impl IdempotencyKey {
    /// The key of a call: the same for the same grant and operation, and for no other.
    #[must_use]
    pub fn new(sequencer: &Sequencer, operation: &Operation, form: KeyForm) -> Self {
        let (resource, token) = (sequencer.resource.line_encoded(), sequencer.token);
        let readable = match operation {
            Operation::Only => format!("{resource}:{token}"),
            Operation::Named(name) => format!("{resource}:{token}:{}", name.encoded()),
        };
        let hash = || blake3::hash(readable.as_bytes());
        Self(match form.0 {
            Form::UpTo { bytes_max } if readable.len() <= bytes_max.min(KEY_BYTES_MAX) => {
                readable.into()
            }
            Form::UpTo { .. } => format!("{SHORTENED}{}", hash().to_hex()).into(),
            Form::Uuid => uuid(hash().as_bytes()).into(),
        })
    }

    /// A key that was read from a record.
    pub(super) fn stored(text: &str) -> Self {
        Self(text.into())
    }

    /// The key as it is sent: visible ASCII.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Why a text is no idempotency key of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("key is not one of 1 to {KEY_BYTES_MAX} bytes of visible ASCII")]
pub struct KeyError;

impl FromStr for IdempotencyKey {
    type Err = KeyError;

    /// Takes a key that was kept somewhere else, to find its call again.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        let fits = (1..=KEY_BYTES_MAX).contains(&text.len());
        match fits && text.bytes().all(|byte| byte.is_ascii_graphic()) {
            true => Ok(Self::stored(text)),
            false => Err(KeyError),
        }
    }
}

/// Sixteen bytes of a hash as a UUID of version 8, the one for forms of one's own.
fn uuid(hash: &[u8; 32]) -> String {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    bytes[6] = (bytes[6] & 0x0f) | 0x80;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let mut text = String::with_capacity(36);
    for (n, byte) in bytes.iter().enumerate() {
        if matches!(n, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

impl fmt::Display for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(resource: &str, token: u64, operation: &Operation, form: KeyForm) -> String {
        let sequencer = Sequencer {
            issuer: "prod".parse().unwrap(),
            resource: resource.parse().unwrap(),
            token: token.try_into().unwrap(),
        };
        let key = IdempotencyKey::new(&sequencer, operation, form);
        assert!(key.as_str().bytes().all(|byte| byte.is_ascii_graphic()));
        key.to_string()
    }

    #[test]
    fn a_key_is_resource_token_operation() {
        let form = KeyForm::default();
        let capture = Operation::named("capture").unwrap();
        assert_eq!(key("accounts/1", 7, &Operation::Only, form), "accounts/1:7");
        assert_eq!(key("accounts/1", 7, &capture, form), "accounts/1:7:capture");
        let odd = Operation::named("a:b %").unwrap();
        assert_eq!(key("ä:1", 7, &odd, form), "%C3%A4%3A1:7:a%3Ab%20%25");
    }

    #[test]
    fn different_calls_never_share_a_key() {
        let named = |name| Operation::named(name).unwrap();
        let calls = [
            ("a", 7, Operation::Only),
            ("a:7", 7, Operation::Only),
            ("a%3A7", 7, Operation::Only),
            ("a", 77, Operation::Only),
            ("a", 7, named("7")),
            ("a", 7, named("7:7")),
            ("a:7", 7, named("7")),
            ("A", 7, Operation::Only),
            ("blake3=a", 7, Operation::Only),
        ];
        for form in [KeyForm::default(), KeyForm::uuid()] {
            let keys = calls
                .iter()
                .map(|(resource, token, operation)| key(resource, *token, operation, form));
            let keys: std::collections::BTreeSet<_> = keys.collect();
            assert_eq!(keys.len(), calls.len(), "{keys:?}");
        }
    }

    #[test]
    fn a_key_beyond_the_services_limit_is_a_hash() {
        let long = "日".repeat(160);
        let hashed = key(&long, 7, &Operation::Only, KeyForm::default());
        assert_eq!(hashed.len(), KeyForm::BYTES_MIN);
        assert!(hashed.starts_with("blake3="), "{hashed}");
        let other = key(&long, 8, &Operation::Only, KeyForm::default());
        assert_ne!(hashed, other);
        // At the limit it is still readable.
        let form = KeyForm::up_to(KeyForm::BYTES_MIN).unwrap();
        let name = "a".repeat(KeyForm::BYTES_MIN - 2);
        assert_eq!(key(&name, 7, &Operation::Only, form), format!("{name}:7"));
        assert!(key(&format!("{name}a"), 7, &Operation::Only, form).starts_with("blake3="));
        assert!(KeyForm::up_to(KeyForm::BYTES_MIN - 1).is_err());
    }

    /// What is written once is looked for again years later: these bytes are for ever.
    #[test]
    fn keys_are_for_ever() {
        let long = "日".repeat(160);
        let form = KeyForm::default();
        assert_eq!(
            key(&long, 7, &Operation::Only, form),
            "blake3=18db8534ff2242e6db9db6e5368425a4959bdf702f255062a9c635117920e410"
        );
        assert_eq!(
            key("accounts/1", 7, &Operation::Only, KeyForm::uuid()),
            "ff35270a-c85d-8b13-969a-dddcbbaeb5ec"
        );
    }
}
