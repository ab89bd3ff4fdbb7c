//! A sequencer as it arrived, before anybody decided what a missing issuer means.

use crate::resource::{IssuerName, ResourceName};
use crate::token::TokenValue;

use super::Sequencer;

/// What a caller presented: well formed, but perhaps without an issuer.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Presented {
    /// Who issued the token, if the caller said so.
    pub issuer: Option<IssuerName>,
    /// What the token is for.
    pub resource: ResourceName,
    /// The number to compare.
    pub token: TokenValue,
}

/// What a guard makes of a caller that does not name the issuer of its token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissingIssuer {
    /// Refuse it. The right choice wherever a second issuer could ever appear: a staging cluster,
    /// a replaced one, a test.
    #[default]
    Refuse,
    /// Take the token for one of the expected issuer: for callers that send token and resource
    /// only, and where nothing else can issue tokens for these resources.
    Accept,
}

/// The caller did not name the issuer of its token, and the guard insists on it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "issuer is missing: this resource is fenced by \"{expected}\", and a token says nothing without its issuer"
)]
pub struct NoIssuer {
    /// Whose tokens are compared.
    pub expected: IssuerName,
}

impl Presented {
    /// The sequencer, with a missing issuer treated as the guard was told to. An issuer that was
    /// named is kept as it is, also a wrong one: that is for the guard to refuse, as foreign.
    ///
    /// # Errors
    ///
    /// [`NoIssuer`] if none was named and `missing` is [`MissingIssuer::Refuse`].
    pub fn by(self, expected: &IssuerName, missing: MissingIssuer) -> Result<Sequencer, NoIssuer> {
        let issuer = match (self.issuer, missing) {
            (Some(issuer), _) => issuer,
            (None, MissingIssuer::Accept) => expected.clone(),
            (None, MissingIssuer::Refuse) => {
                return Err(NoIssuer {
                    expected: expected.clone(),
                });
            }
        };
        Ok(Sequencer {
            issuer,
            resource: self.resource,
            token: self.token,
        })
    }
}

impl From<Sequencer> for Presented {
    fn from(sequencer: Sequencer) -> Self {
        Self {
            issuer: Some(sequencer.issuer),
            resource: sequencer.resource,
            token: sequencer.token,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn presented(issuer: Option<&str>) -> Presented {
        Presented {
            issuer: issuer.map(|name| name.parse().unwrap()),
            resource: "account/1".parse().unwrap(),
            token: TokenValue::new(7).unwrap(),
        }
    }

    #[test]
    fn a_missing_issuer_is_refused_unless_it_was_agreed_on() {
        let bank = "bank".parse().unwrap();
        let refused = presented(None).by(&bank, MissingIssuer::default());
        assert!(
            refused
                .unwrap_err()
                .to_string()
                .starts_with("issuer is missing")
        );
        let taken = presented(None).by(&bank, MissingIssuer::Accept).unwrap();
        assert_eq!(taken.issuer, bank);
    }

    #[test]
    fn a_wrong_issuer_is_kept_for_the_guard_to_refuse() {
        for missing in [MissingIssuer::Refuse, MissingIssuer::Accept] {
            let taken = presented(Some("other")).by(&"bank".parse().unwrap(), missing);
            assert_eq!(taken.unwrap().issuer.as_str(), "other");
        }
    }
}
