//! Protobuf to words and back, for what both sides of the wire speak of.
//!
//! Words to protobuf always works. The other way is checked, because the bytes may come from anybody:
//! [`Malformed`] names the field. Requests are judged where they arrive, in `server::api`.

use crate::grant::{EndedHow, LeftHow};
use crate::token::{Token, TokenValue};

use super::v1;

/// An answer that breaks the contract: a field that must be there is absent, or is out of its range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the answer breaks the contract: {field} is missing or out of range")]
pub struct Malformed {
    /// Which field.
    pub field: &'static str,
}

impl From<Token> for v1::Token {
    fn from(token: Token) -> Self {
        Self {
            value: token.value().get(),
            term: token.term(),
            index: token.index(),
        }
    }
}

impl TryFrom<v1::Token> for Token {
    type Error = Malformed;

    fn try_from(token: v1::Token) -> Result<Self, Malformed> {
        let value = TokenValue::new(token.value).map_err(|_| Malformed {
            field: "token.value",
        })?;
        Ok(Self::new(value, token.term, token.index))
    }
}

/// Reads a token that must be there.
pub fn token(token: Option<v1::Token>) -> Result<Token, Malformed> {
    token.ok_or(Malformed { field: "token" })?.try_into()
}

impl From<EndedHow> for v1::EndedHow {
    fn from(how: EndedHow) -> Self {
        match how {
            EndedHow::Released => Self::Released,
            EndedHow::Expired => Self::Expired,
            EndedHow::Revoked => Self::Revoked,
            EndedHow::Superseded => Self::Superseded,
        }
    }
}

/// Reads how a grant ended; a number that this version does not know is refused, not guessed.
pub fn ended_how(how: i32) -> Result<EndedHow, Malformed> {
    match v1::EndedHow::try_from(how) {
        Ok(v1::EndedHow::Released) => Ok(EndedHow::Released),
        Ok(v1::EndedHow::Expired) => Ok(EndedHow::Expired),
        Ok(v1::EndedHow::Revoked) => Ok(EndedHow::Revoked),
        Ok(v1::EndedHow::Superseded) => Ok(EndedHow::Superseded),
        Ok(v1::EndedHow::Unspecified) | Err(_) => Err(Malformed { field: "ended.how" }),
    }
}

impl From<LeftHow> for v1::LeftHow {
    fn from(how: LeftHow) -> Self {
        match how {
            LeftHow::Withdrawn => Self::Withdrawn,
            LeftHow::WaitedOut => Self::WaitedOut,
            LeftHow::Superseded => Self::Superseded,
            LeftHow::Detached => Self::Detached,
        }
    }
}

/// Reads how a place in a queue ended; a number that this version does not know is refused.
pub fn left_how(how: i32) -> Result<LeftHow, Malformed> {
    match v1::LeftHow::try_from(how) {
        Ok(v1::LeftHow::Withdrawn) => Ok(LeftHow::Withdrawn),
        Ok(v1::LeftHow::WaitedOut) => Ok(LeftHow::WaitedOut),
        Ok(v1::LeftHow::Superseded) => Ok(LeftHow::Superseded),
        Ok(v1::LeftHow::Detached) => Ok(LeftHow::Detached),
        Ok(v1::LeftHow::Unspecified) | Err(_) => Err(Malformed { field: "left.how" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_comes_back_whole() {
        let sent = Token::new(TokenValue::new(65_543).unwrap(), 1, 7);
        let back = token(Some(sent.into())).unwrap();
        assert_eq!(
            (back.value(), back.term(), back.index()),
            (sent.value(), 1, 7)
        );
    }

    #[test]
    fn a_token_out_of_range_is_malformed() {
        assert!(token(None).is_err());
        for value in [0, 1 << 63, u64::MAX] {
            assert!(
                token(Some(v1::Token {
                    value,
                    term: 1,
                    index: 1
                }))
                .is_err(),
                "{value}"
            );
        }
    }

    #[test]
    fn every_end_comes_back_and_unknown_ones_do_not() {
        for how in [
            EndedHow::Released,
            EndedHow::Expired,
            EndedHow::Revoked,
            EndedHow::Superseded,
        ] {
            assert_eq!(ended_how(v1::EndedHow::from(how).into()), Ok(how));
        }
        assert!(ended_how(0).is_err());
        assert!(ended_how(99).is_err());
    }
}
