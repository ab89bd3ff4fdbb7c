//! The fencing token: the number that a guard compares.
//!
//! `value = floor + term * 2^16 + index`, where term and index are those of the committed log entry
//! that made the grant. Along a Raft log the index strictly rises and the term never falls, so the
//! value strictly rises. It is a sum and not packed bit fields: nothing runs out of a field, and it
//! stays below 2^53 for a hundred billion elections, so that a JavaScript `Number` holds it exactly.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::limits::{TOKEN_JSON_NUMBER_MAX, TOKEN_VALUE_MAX};

/// The value of a fencing token, 1 to `i64::MAX`: all that a guard looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TokenValue(u64);

impl TokenValue {
    /// The lowest token, 1.
    pub const MIN: Self = Self(1);

    /// Takes a number for a token value; it must lie between 1 and `i64::MAX`.
    pub const fn new(value: u64) -> Result<Self, TokenError> {
        if value == 0 || value > TOKEN_VALUE_MAX {
            return Err(TokenError::OutOfRange { value });
        }
        Ok(Self(value))
    }

    /// The number itself.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The number as a SQL `BIGINT` holds it; never negative.
    #[must_use]
    pub const fn as_i64(self) -> i64 {
        self.0.cast_signed()
    }
}

impl fmt::Display for TokenValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for TokenValue {
    type Err = TokenError;

    /// Reads plain decimal digits: no sign, no blanks, no separators.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(TokenError::NotANumber);
        }
        let value = text.parse().map_err(|_| TokenError::TooLarge)?;
        Self::new(value)
    }
}

impl Serialize for TokenValue {
    /// A number up to [`TOKEN_JSON_NUMBER_MAX`], a string of digits above: readers whose numbers are
    /// all floats (JavaScript, many JSON tools) would take two tokens beyond it for one.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.0 <= TOKEN_JSON_NUMBER_MAX {
            serializer.serialize_u64(self.0)
        } else {
            serializer.collect_str(&self.0)
        }
    }
}

impl<'de> Deserialize<'de> for TokenValue {
    /// Takes an integer, or a string of digits, of any size that a token may have. A number with a
    /// fraction or an exponent is refused even where it is whole: whoever wrote it counts in floats.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NumberOrDigits)
    }
}

struct NumberOrDigits;

impl de::Visitor<'_> for NumberOrDigits {
    type Value = TokenValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "a token: an integer from 1 to {TOKEN_VALUE_MAX}, or its digits as a string"
        )
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<TokenValue, E> {
        TokenValue::new(value).map_err(E::custom)
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<TokenValue, E> {
        match u64::try_from(value) {
            Ok(value) => self.visit_u64(value),
            Err(_) => Err(E::invalid_value(de::Unexpected::Signed(value), &self)),
        }
    }

    fn visit_str<E: de::Error>(self, digits: &str) -> Result<TokenValue, E> {
        digits.parse().map_err(E::custom)
    }
}

impl TryFrom<u64> for TokenValue {
    type Error = TokenError;

    fn try_from(value: u64) -> Result<Self, Self::Error> {
        Self::new(value)
    }
}

/// A fencing token as a grant carries it: its value, and the log entry that minted it as evidence.
///
/// Equality, order and hash look at the value alone, because that is what a guard does; term and
/// index are for people who compare a grant with the log.
#[derive(Debug, Clone, Copy)]
pub struct Token {
    value: TokenValue,
    term: u64,
    index: u64,
}

impl Token {
    /// Puts a value and its evidence together. Only the issuer mints tokens; everyone else uses this
    /// to carry one that was received.
    #[must_use]
    pub const fn new(value: TokenValue, term: u64, index: u64) -> Self {
        Self { value, term, index }
    }

    /// The number that guards compare.
    #[must_use]
    pub const fn value(&self) -> TokenValue {
        self.value
    }

    /// The Raft term of the entry that made the grant.
    #[must_use]
    pub const fn term(&self) -> u64 {
        self.term
    }

    /// The log index of the entry that made the grant.
    #[must_use]
    pub const fn index(&self) -> u64 {
        self.index
    }
}

impl PartialEq for Token {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl Eq for Token {}

impl PartialOrd for Token {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Token {
    fn cmp(&self, other: &Self) -> Ordering {
        self.value.cmp(&other.value)
    }
}

impl Hash for Token {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.value.hash(state);
    }
}

impl fmt::Display for Token {
    /// The value alone: what a person copies into a command.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.value, f)
    }
}

/// Why something is not a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// The number is zero or greater than `i64::MAX`.
    #[error("token {value} is out of range: it must lie between 1 and {TOKEN_VALUE_MAX}")]
    OutOfRange {
        /// The number as given.
        value: u64,
    },
    /// The digits name a number beyond 64 bits.
    #[error("token is out of range: it must lie between 1 and {TOKEN_VALUE_MAX}")]
    TooLarge,
    /// The text is not a run of decimal digits.
    #[error("token is not a decimal number: give its digits alone, as fencepost printed them")]
    NotANumber,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_value_lies_between_one_and_the_greatest_bigint() {
        assert!(TokenValue::new(0).is_err());
        assert_eq!(TokenValue::new(1).unwrap().get(), 1);
        assert_eq!(TokenValue::new(i64::MAX as u64).unwrap().as_i64(), i64::MAX);
        assert!(TokenValue::new(i64::MAX as u64 + 1).is_err());
        assert!(TokenValue::new(u64::MAX).is_err());
    }

    #[test]
    fn text_is_read_as_digits_alone() {
        assert_eq!("65537".parse::<TokenValue>().unwrap().to_string(), "65537");
        for bad in ["", "+1", "-1", " 1", "1 ", "1_000", "0x10", "1.0", "٣"] {
            assert_eq!(
                bad.parse::<TokenValue>(),
                Err(TokenError::NotANumber),
                "{bad:?}"
            );
        }
        assert_eq!(
            "99999999999999999999".parse::<TokenValue>(),
            Err(TokenError::TooLarge)
        );
        assert_eq!(
            "0".parse::<TokenValue>(),
            Err(TokenError::OutOfRange { value: 0 })
        );
    }

    #[test]
    fn tokens_compare_by_value_alone() {
        let low = Token::new(TokenValue::new(7).unwrap(), 9, 9);
        let high = Token::new(TokenValue::new(8).unwrap(), 1, 1);
        assert!(low < high);
        assert_eq!(low, Token::new(low.value(), 0, 0));
        assert_eq!(low.to_string(), "7");
    }
}
