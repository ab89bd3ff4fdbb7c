//! Names: of resources, of holders, of issuers, and the reason that an operator gives.
//!
//! A name is text of bounded length without control characters and without a blank at either end,
//! and otherwise exact: no folding of case, no Unicode normalisation, so NFC and NFD spellings of one
//! word are two names. Where only ASCII may travel (HTTP headers, gRPC metadata) a name is
//! percent-encoded.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use percent_encoding::{
    AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::limits::{
    HOLDER_CHARS_MAX, ISSUER_NAME_CHARS_MAX, REASON_CHARS_MAX, RESOURCE_NAME_CHARS_MAX,
};

/// What stays as it is in percent-encoded form: the unreserved characters of RFC 3986, section 2.3.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// What is encoded where a header must carry a name: all but visible ASCII, the escape itself, and
/// what separates or quotes in header lists (RFC 9110, section 5.6).
const IN_HEADERS: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'%')
    .add(b',')
    .add(b';')
    .add(b'"')
    .add(b'\\');

/// What is encoded in a sequencer's line: as in [`ENCODED`], save for the slash, which is in most
/// names and separates nothing there.
const IN_LINES: &AsciiSet = &ENCODED.remove(b'/');

/// Why a text is not a name. Each variant names the field; none repeats the text, which may be huge.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// There is no text.
    #[error("{field} is empty: it needs 1 to {limit} characters")]
    Empty {
        /// The field that was given.
        field: &'static str,
        /// The most characters (Unicode scalar values) it may have.
        limit: usize,
    },
    /// The text has too many Unicode scalar values.
    #[error("{field} is too long: it may have at most {limit} characters (Unicode scalar values)")]
    TooLong {
        /// The field that was given.
        field: &'static str,
        /// The most characters (Unicode scalar values) it may have.
        limit: usize,
    },
    /// The text has a control character, a line break or a tab included.
    #[error(
        "{field} has the control character U+{code:04X} at character {position}: control characters are not allowed"
    )]
    Control {
        /// The field that was given.
        field: &'static str,
        /// The control character's code point.
        code: u32,
        /// Which character it is, counted from 1.
        position: usize,
    },
    /// The text begins or ends with a blank.
    #[error("{field} begins or ends with a blank: remove it, or quote the name differently")]
    Blank {
        /// The field that was given.
        field: &'static str,
    },
    /// The text is not valid percent-encoded UTF-8: a `%` without two hexadecimal digits, or bytes
    /// that are no UTF-8.
    #[error("{field} is not percent-encoded UTF-8")]
    Encoding {
        /// The field that was given.
        field: &'static str,
    },
}

/// Checks a text against the rules that all names share.
fn check(field: &'static str, text: &str, limit: usize) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty { field, limit });
    }
    // Stops after the limit, so that a megabyte of text costs no more than a long name.
    if text.chars().nth(limit).is_some() {
        return Err(NameError::TooLong { field, limit });
    }
    if let Some((at, control)) = text.chars().enumerate().find(|(_, c)| c.is_control()) {
        return Err(NameError::Control {
            field,
            code: u32::from(control),
            position: at + 1,
        });
    }
    if text.starts_with(char::is_whitespace) || text.ends_with(char::is_whitespace) {
        return Err(NameError::Blank { field });
    }
    Ok(())
}

/// Whether every `%` has its two hexadecimal digits. Decoders pass others through, and then two
/// spellings would mean what only one was written for.
fn is_well_escaped(text: &str) -> bool {
    text.split('%').skip(1).all(|escape| {
        let digits = escape.as_bytes();
        digits.len() >= 2 && digits[..2].iter().all(u8::is_ascii_hexdigit)
    })
}

macro_rules! name {
    ($(#[$doc:meta])* $name:ident, $field:literal, $limit:ident) => {
        $(#[$doc])*
        ///
        /// Cloning shares the text. Order is that of the UTF-8 bytes.
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// Checks a text and takes it for this kind of name. The error names the field and the limit.
            pub fn new(text: impl AsRef<str> + Into<Arc<str>>) -> Result<Self, NameError> {
                check($field, text.as_ref(), $limit)?;
                Ok(Self(text.into()))
            }

            /// The text, exactly as it was given.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }

            /// The percent-encoded form (RFC 3986, unreserved characters kept), which is safe in a
            /// URL's path or query.
            #[must_use]
            pub fn percent_encoded(&self) -> String {
                utf8_percent_encode(&self.0, ENCODED).to_string()
            }

            /// The form for HTTP headers and ASCII metadata: percent-encoded only where a header
            /// could not carry it.
            #[must_use]
            pub fn header_encoded(&self) -> String {
                utf8_percent_encode(&self.0, IN_HEADERS).to_string()
            }

            /// The form in a line of several parts with colons between them.
            #[must_use]
            pub fn line_encoded(&self) -> String {
                utf8_percent_encode(&self.0, IN_LINES).to_string()
            }

            /// Reads any of the percent-encoded forms back.
            pub fn from_percent_encoded(text: &str) -> Result<Self, NameError> {
                let wrong = NameError::Encoding { field: $field };
                if !is_well_escaped(text) {
                    return Err(wrong);
                }
                match percent_decode_str(text).decode_utf8() {
                    Ok(decoded) => Self::new(&*decoded),
                    Err(_) => Err(wrong),
                }
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(&self.0)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            /// Takes a text that is such a name; the error names the field and the limit.
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)
                    .and_then(|text| Self::new(text).map_err(de::Error::custom))
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl FromStr for $name {
            type Err = NameError;

            fn from_str(text: &str) -> Result<Self, Self::Err> {
                Self::new(text)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

name! {
    /// The name of a resource, the thing protected: 1 to 160 Unicode scalar values.
    ResourceName, "resource", RESOURCE_NAME_CHARS_MAX
}

name! {
    /// The name of a holder, who asks for a resource and has it: 1 to 80 Unicode scalar values.
    Holder, "holder", HOLDER_CHARS_MAX
}

name! {
    /// The configured, stable name of who issues: 1 to 80 Unicode scalar values. It survives a
    /// restore, unlike the cluster id, and with the resource it is what a token may be compared within.
    IssuerName, "issuer", ISSUER_NAME_CHARS_MAX
}

name! {
    /// Why an operator revoked a grant: 1 to 200 Unicode scalar values, for people.
    Reason, "reason", REASON_CHARS_MAX
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_at_the_limit_passes_and_one_more_does_not() {
        for unit in ["a", "é", "🦀"] {
            assert!(ResourceName::new(unit.repeat(160)).is_ok());
            let error = ResourceName::new(unit.repeat(161)).unwrap_err();
            assert_eq!(
                error,
                NameError::TooLong {
                    field: "resource",
                    limit: 160
                }
            );
            assert!(Holder::new(unit.repeat(80)).is_ok());
            assert_eq!(
                Holder::new(unit.repeat(81)),
                Err(NameError::TooLong {
                    field: "holder",
                    limit: 80
                })
            );
        }
        assert!(ResourceName::new("x".repeat(1 << 20)).is_err());
    }

    #[test]
    fn odd_texts_are_refused_by_name_of_field_and_limit() {
        assert_eq!(
            ResourceName::new("").unwrap_err().to_string(),
            "resource is empty: it needs 1 to 160 characters"
        );
        let control = Holder::new("a\0b").unwrap_err().to_string();
        assert_eq!(
            control,
            "holder has the control character U+0000 at character 2: control characters are not allowed"
        );
        for text in ["a\nb", "\ta", "a\u{7f}", "a\u{85}b"] {
            assert!(
                matches!(ResourceName::new(text), Err(NameError::Control { .. })),
                "{text:?}"
            );
        }
        for text in [" a", "a ", " ", "\u{a0}a", "a\u{2003}"] {
            assert_eq!(
                ResourceName::new(text),
                Err(NameError::Blank { field: "resource" }),
                "{text:?}"
            );
        }
    }

    #[test]
    fn names_are_otherwise_exact() {
        for text in ["a b", "/jobs/1", "日本語", "שלום", "🦀", "A", "100%"] {
            assert_eq!(ResourceName::new(text).unwrap().as_str(), text);
        }
        let (nfc, nfd) = ("caf\u{e9}", "cafe\u{301}");
        assert_ne!(
            ResourceName::new(nfc).unwrap(),
            ResourceName::new(nfd).unwrap()
        );
    }

    #[test]
    fn percent_encoding_goes_both_ways() {
        let name = ResourceName::new("jobs/nächtlich 100%").unwrap();
        assert_eq!(name.percent_encoded(), "jobs%2Fn%C3%A4chtlich%20100%25");
        assert_eq!(
            ResourceName::from_percent_encoded(&name.percent_encoded()).unwrap(),
            name
        );
        assert_eq!(
            ResourceName::from_percent_encoded("%ff"),
            Err(NameError::Encoding { field: "resource" })
        );
        for text in ["%", "100%", "%4", "%zz", "a%4ä"] {
            let read = ResourceName::from_percent_encoded(text);
            assert!(matches!(read, Err(NameError::Encoding { .. })), "{text}");
        }
        let odd = ResourceName::new("a,b;\"c\"\\ d%/e:f ü").unwrap();
        for encoded in [
            odd.header_encoded(),
            odd.line_encoded(),
            odd.percent_encoded(),
        ] {
            assert_eq!(ResourceName::from_percent_encoded(&encoded).unwrap(), odd);
        }
        assert!(matches!(
            ResourceName::from_percent_encoded("a%0Ab"),
            Err(NameError::Control { .. })
        ));
    }
}
