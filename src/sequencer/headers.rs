//! The sequencer in HTTP headers, and in gRPC metadata, which is the same thing.
//!
//! ```text
//! X-Fencing-Token: 65537
//! X-Resource-Id: accounts/1
//! X-Fencing-Issuer: prod
//! ```
//!
//! The token is plain decimal digits. A name is sent as it is where it consists of visible ASCII;
//! anything else in it (blanks, letters beyond ASCII) and the characters `% , ; " \` are
//! percent-encoded, since a header carries visible ASCII safely and nothing else, and intermediaries
//! may split at commas. A header that comes twice is refused: two tokens are no token.

use crate::resource::{IssuerName, NameError, ResourceName};
use crate::token::{TokenError, TokenValue};

use super::{Presented, Sequencer};

/// The token. Header names compare without regard to case; gRPC wants them in lower case.
pub const FENCING_TOKEN: &str = "x-fencing-token";
/// The resource that the token is for.
pub const RESOURCE_ID: &str = "x-resource-id";
/// Who issued the token.
pub const FENCING_ISSUER: &str = "x-fencing-issuer";
/// In an answer to a stale token: the lowest token that would have been admitted.
pub const REQUIRED_TOKEN: &str = "x-required-token";

/// Why headers hold no sequencer. The message names the header, and is fit for the caller's eyes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The header is not there.
    #[error("{header} is missing")]
    Missing {
        /// Which header.
        header: &'static str,
    },
    /// The header is there more than once.
    #[error("{header} is there more than once")]
    Repeated {
        /// Which header.
        header: &'static str,
    },
    /// The value has bytes that are not visible ASCII.
    #[error("{header} has bytes that are not visible ASCII: percent-encode the name")]
    NotAscii {
        /// Which header.
        header: &'static str,
    },
    /// The token is none.
    #[error("{FENCING_TOKEN}: {0}")]
    Token(TokenError),
    /// A name is none.
    #[error("{header}: {error}")]
    Name {
        /// Which header.
        header: &'static str,
        /// What is wrong with it.
        error: NameError,
    },
}

impl HeaderError {
    /// True where the caller sent no token at all, which a service that is being rolled out may want
    /// to treat apart from a wrong one.
    #[must_use]
    pub fn is_unfenced(&self) -> bool {
        matches!(self, Self::Missing { header } if *header == FENCING_TOKEN)
    }
}

impl Sequencer {
    /// The three headers, ready to be sent.
    #[must_use]
    pub fn to_headers(&self) -> [(&'static str, String); 3] {
        [
            (FENCING_TOKEN, self.token.to_string()),
            (RESOURCE_ID, self.resource.header_encoded()),
            (FENCING_ISSUER, self.issuer.header_encoded()),
        ]
    }
}

impl Presented {
    /// Reads the sequencer from all headers of a request, given as names and raw values. Headers of
    /// other names are passed over.
    ///
    /// # Errors
    ///
    /// [`HeaderError`] for a token or resource that is missing, and for anything there that is
    /// repeated or malformed. A missing issuer is none: see [`Presented::by`].
    pub fn from_headers<'h>(
        headers: impl IntoIterator<Item = (&'h str, &'h [u8])>,
    ) -> Result<Self, HeaderError> {
        let (mut token, mut resource, mut issuer) = (None, None, None);
        for (name, value) in headers {
            let (header, seen) = if name.eq_ignore_ascii_case(FENCING_TOKEN) {
                (FENCING_TOKEN, &mut token)
            } else if name.eq_ignore_ascii_case(RESOURCE_ID) {
                (RESOURCE_ID, &mut resource)
            } else if name.eq_ignore_ascii_case(FENCING_ISSUER) {
                (FENCING_ISSUER, &mut issuer)
            } else {
                continue;
            };
            if seen.replace(visible(header, value)?).is_some() {
                return Err(HeaderError::Repeated { header });
            }
        }
        let missing = |header| HeaderError::Missing { header };
        let token = token.ok_or(missing(FENCING_TOKEN))?;
        let resource = resource.ok_or(missing(RESOURCE_ID))?;
        let named = |header| move |error| HeaderError::Name { header, error };
        Ok(Self {
            token: token.parse::<TokenValue>().map_err(HeaderError::Token)?,
            resource: ResourceName::from_percent_encoded(resource).map_err(named(RESOURCE_ID))?,
            issuer: issuer
                .map(IssuerName::from_percent_encoded)
                .transpose()
                .map_err(named(FENCING_ISSUER))?,
        })
    }
}

/// The value as text, without the blanks around it, which HTTP does not count (RFC 9110, 5.5).
fn visible<'h>(header: &'static str, value: &'h [u8]) -> Result<&'h str, HeaderError> {
    let value = value.trim_ascii();
    let text = std::str::from_utf8(value).ok();
    text.filter(|text| text.bytes().all(|byte| (b' '..=b'~').contains(&byte)))
        .ok_or(HeaderError::NotAscii { header })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(headers: &[(&str, &str)]) -> Result<Presented, HeaderError> {
        Presented::from_headers(
            headers
                .iter()
                .map(|(name, value)| (*name, value.as_bytes())),
        )
    }

    #[test]
    fn what_is_written_is_read() {
        for name in ["accounts/1", "nächtlich, 100 %", "a:b;c=\"d\"", "🦀"] {
            let sent = Sequencer {
                issuer: "prod".parse().unwrap(),
                resource: name.parse().unwrap(),
                token: TokenValue::new(7).unwrap(),
            };
            let headers = sent.to_headers();
            for (_, value) in &headers {
                assert!(value.bytes().all(|byte| byte.is_ascii_graphic()), "{value}");
            }
            let pairs = headers
                .iter()
                .map(|(name, value)| (*name, value.as_bytes()));
            assert_eq!(Presented::from_headers(pairs).unwrap(), sent.into());
        }
    }

    #[test]
    fn usual_names_travel_as_they_are() {
        let sent = "prod:accounts/1:7".parse::<Sequencer>().unwrap();
        let [token, resource, issuer] = sent.to_headers().map(|(_, value)| value);
        assert_eq!([token, resource, issuer], ["7", "accounts/1", "prod"]);
    }

    #[test]
    fn the_issuer_may_be_missing_and_names_compare_without_case() {
        let read = read(&[
            ("X-Fencing-Token", " 7 "),
            ("X-Resource-Id", "a"),
            ("Host", "h"),
        ]);
        assert_eq!(read.unwrap().issuer, None);
    }

    #[test]
    fn each_mistake_names_its_header() {
        let good = [(FENCING_TOKEN, "7"), (RESOURCE_ID, "a")];
        for (headers, complaint) in [
            (vec![], "x-fencing-token is missing"),
            (vec![good[0]], "x-resource-id is missing"),
            (vec![good[1]], "x-fencing-token is missing"),
            (
                vec![good[0], good[0], good[1]],
                "x-fencing-token is there more than once",
            ),
            (
                vec![(FENCING_TOKEN, "7.0"), good[1]],
                "x-fencing-token: token is not a decimal",
            ),
            (
                vec![(FENCING_TOKEN, ""), good[1]],
                "x-fencing-token: token is not a decimal",
            ),
            (
                vec![(FENCING_TOKEN, "9223372036854775808"), good[1]],
                "out of range",
            ),
            (vec![good[0], (RESOURCE_ID, "ä")], "x-resource-id has bytes"),
            (
                vec![good[0], (RESOURCE_ID, "%0")],
                "x-resource-id: resource is not percent",
            ),
            (
                vec![good[0], (RESOURCE_ID, "a%00")],
                "x-resource-id: resource has the control",
            ),
            (
                vec![good[0], good[1], (FENCING_ISSUER, "")],
                "x-fencing-issuer: issuer is empty",
            ),
        ] {
            let said = read(&headers).unwrap_err().to_string();
            assert!(said.contains(complaint), "{headers:?}: {said}");
        }
        assert!(read(&[good[1]]).unwrap_err().is_unfenced());
        assert!(!read(&[good[0]]).unwrap_err().is_unfenced());
    }
}
