//! What a trigger says when it refuses, and how a program reads it.
//!
//! The texts and codes are stable: programs in other languages match on them, too.

/// The beginning of every refusal's text.
const PREFIX: &str = "fencepost: ";

/// The longest text: MySQL and MariaDB take no more for a condition's message.
#[cfg(test)]
const TEXT_CHARS_MAX: usize = 128;

/// A statement that a trigger refused. Nothing of it was done.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// A row's mark, or the mark kept of a row that was deleted, is higher than the token.
    #[error("fencepost: stale fencing token: presented {presented}, required {required}")]
    Stale {
        /// The token that the statement carried; 0 is what a row has that nobody has fenced.
        presented: u64,
        /// The lowest token with which the row can be written.
        required: u64,
    },
    /// The statement carried no token: it did not name the column, or set it to NULL, to a negative
    /// number or to something that is no integer.
    #[error("fencepost: no fencing token: a write must set the token column to its token")]
    NoToken,
    /// A DELETE, a TRUNCATE, or a REPLACE that would have removed another row.
    #[error("fencepost: delete refused: with the row, the mark would be forgotten")]
    Delete,
    /// The row would have had another key.
    #[error("fencepost: key change refused: a row stays where its mark is")]
    KeyChange,
    /// A mark would have become another issuer's: their tokens do not compare.
    #[error("fencepost: issuer change refused: tokens of two issuers do not compare")]
    IssuerChange,
}

impl Refused {
    /// The SQLSTATE in PostgreSQL, MySQL and MariaDB: of a class that no standard and none of them
    /// uses. SQLite has no room for a code; the text tells there.
    #[must_use]
    pub const fn sqlstate(&self) -> &'static str {
        match self {
            Self::Stale { .. } => "ZF001",
            Self::NoToken => "ZF002",
            Self::Delete => "ZF003",
            Self::KeyChange => "ZF004",
            Self::IssuerChange => "ZF005",
        }
    }

    /// Reads the message of a database's error. Drivers put words before and after it, so the text
    /// may stand anywhere in it. `None` for any other error.
    #[must_use]
    pub fn from_message(message: &str) -> Option<Self> {
        let text = &message[message.find(PREFIX)?..];
        let fixed = [
            Self::NoToken,
            Self::Delete,
            Self::KeyChange,
            Self::IssuerChange,
        ];
        if let Some(refused) = fixed
            .into_iter()
            .find(|refused| text.starts_with(&refused.to_string()))
        {
            return Some(refused);
        }
        let numbers = text.strip_prefix(STALE)?;
        let (presented, rest) = number(numbers)?;
        let (required, _) = number(rest.strip_prefix(REQUIRED)?)?;
        Some(Self::Stale {
            presented,
            required,
        })
    }
}

/// How the text of [`Refused::Stale`] begins, before the presented token.
pub(super) const STALE: &str = "fencepost: stale fencing token: presented ";
/// What stands before the required token.
pub(super) const REQUIRED: &str = ", required ";

fn number(text: &str) -> Option<(u64, &str)> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (digits, rest) = text.split_at(end);
    Some((digits.parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_is_read_back_from_among_a_drivers_words() {
        let stale = Refused::Stale {
            presented: 5,
            required: 9_223_372_036_854_775_807,
        };
        for refused in [
            stale,
            Refused::NoToken,
            Refused::Delete,
            Refused::KeyChange,
            Refused::IssuerChange,
        ] {
            let message = format!("error returned: '{refused}' (SQLSTATE ZF00x)");
            assert_eq!(Refused::from_message(&message), Some(refused.clone()));
            assert!(refused.to_string().chars().count() <= TEXT_CHARS_MAX);
            // They stand between single quotes in the triggers.
            assert!(!refused.to_string().contains(['\'', '\\']));
        }
    }

    #[test]
    fn other_errors_are_not_taken_for_refusals() {
        for message in [
            "",
            "duplicate key",
            "fencepost: ",
            "fencepost: stale fencing token: presented x, required 7",
            "fencepost: stale fencing token: presented 5",
            "fencepost: stale fencing token: presented 99999999999999999999, required 7",
        ] {
            assert_eq!(Refused::from_message(message), None, "{message}");
        }
    }
}
