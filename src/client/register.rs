//! The cluster's own guard register, from the side of those who ask it, and what is reported to it.
//!
//! For a resource with no store of its own. Where there is one, keep the mark there: an `admit` at the
//! cluster and a write elsewhere are two steps, and a newer holder can come and go between them.

use super::Client;
use super::error::Error;
use super::method::{Admit, AdmitOnce, HighWater, Method, Report};
use super::words::{Unreadable, required};
use crate::fence::{EqualTokens, Foreign, Guard, Mark, Verdict};
use crate::resource::{IssuerName, ResourceName};
use crate::sequencer::Sequencer;
use crate::token::TokenValue;
use crate::wire::v1::{self, admit_response, report_response};

/// What the register said to a token.
#[must_use = "a write must not go on unless the register admitted it"]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdmitOutcome {
    /// Go on. The mark is at the token, and no lower one passes any more.
    Admitted,
    /// A newer holder has been here; or, where each token passes once, this one has. No retry helps.
    Stale {
        /// What was presented.
        presented: TokenValue,
        /// The lowest that would have passed, as far as the answering node knew.
        required: TokenValue,
    },
    /// Another issuer's token, which was not compared.
    Foreign {
        /// Whose tokens this cluster compares.
        expected: IssuerName,
    },
    /// Above everything that the cluster has issued. Nothing was changed.
    Ahead(Ahead),
}

/// What the issuer said to a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReportOutcome {
    /// The token was issued, or all later ones are known to be greater.
    Fine {
        /// The last token issued, as far as the answering node knew; `None` before the first.
        last_token: Option<TokenValue>,
    },
    /// It was never issued. The cluster has logged it as an error.
    Ahead(Ahead),
    /// Another issuer's token, of which this one knows nothing.
    Foreign {
        /// Who issues here.
        expected: IssuerName,
    },
}

/// A token above everything that its issuer has issued: the sign of a restore gone wrong, or of a token
/// that somebody made up.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("token {presented} was never issued ({}): {advice}", last(.last_token))]
pub struct Ahead {
    /// What was presented.
    pub presented: TokenValue,
    /// The last token that was issued; `None` before the first.
    pub last_token: Option<TokenValue>,
    /// What it means and what to do, in the cluster's words.
    pub advice: String,
}

fn last(token: &Option<TokenValue>) -> String {
    match token {
        Some(token) => format!("the last one was {token}"),
        None => "there is none yet".to_owned(),
    }
}

impl Client {
    /// Presents a token to the cluster's own guard register, which admits it and raises the mark of its
    /// resource, or says why not.
    ///
    /// # Errors
    ///
    /// The caller must not write then: an unknown mark is no permission. With
    /// [`EqualTokens::MayWriteAgain`] it is safe to repeat, and is repeated here while time lasts. With
    /// [`EqualTokens::Once`] a lost answer is [`UnknownOutcome`](super::ErrorKind::UnknownOutcome): the token may have been used
    /// up by this very call, and asking again then says [`Stale`](AdmitOutcome::Stale).
    pub async fn admit(
        &self,
        sequencer: &Sequencer,
        equal: EqualTokens,
    ) -> Result<AdmitOutcome, Error> {
        match equal {
            EqualTokens::MayWriteAgain => self.present::<Admit>(sequencer, false).await,
            EqualTokens::Once => self.present::<AdmitOnce>(sequencer, true).await,
        }
    }

    async fn present<M>(&self, sequencer: &Sequencer, once: bool) -> Result<AdmitOutcome, Error>
    where
        M: Method<Request = v1::AdmitRequest, Response = v1::AdmitResponse>,
    {
        let mut trial = self.shared.trial::<M>();
        let request = |_| v1::AdmitRequest {
            issuer: sequencer.issuer.to_string(),
            resource: sequencer.resource.to_string(),
            token: sequencer.token.get(),
            once,
        };
        let answer = self.shared.call::<M>(&mut trial, request).await?;
        admitted(answer.response.outcome).map_err(|unreadable| self.bad_answer(&trial, unreadable))
    }

    /// The mark of a resource in the register, for monitoring. Linearizable; but decide nothing by it, it
    /// can rise before you act.
    ///
    /// # Errors
    ///
    /// A failure never had an effect.
    pub async fn high_water(&self, resource: &ResourceName) -> Result<Option<Mark>, Error> {
        let mut trial = self.shared.trial::<HighWater>();
        let request = |_| v1::HighWaterRequest {
            resource: resource.to_string(),
        };
        let answer = self.shared.call::<HighWater>(&mut trial, request).await?;
        mark(answer.response).map_err(|unreadable| self.bad_answer(&trial, unreadable))
    }

    /// Tells the issuer of a token that some guard has admitted. It changes nothing; one that was never
    /// issued raises an alarm at the cluster.
    ///
    /// # Errors
    ///
    /// A failure never had an effect.
    pub async fn report(&self, sequencer: &Sequencer) -> Result<ReportOutcome, Error> {
        let mut trial = self.shared.trial::<Report>();
        let request = |_| v1::ReportRequest {
            issuer: sequencer.issuer.to_string(),
            resource: sequencer.resource.to_string(),
            token: sequencer.token.get(),
        };
        let answer = self.shared.call::<Report>(&mut trial, request).await?;
        reported(answer.response.outcome).map_err(|unreadable| self.bad_answer(&trial, unreadable))
    }

    /// The register as a [`Guard`].
    #[must_use]
    pub fn register(&self, equal: EqualTokens) -> Register {
        Register {
            client: self.clone(),
            equal,
        }
    }
}

fn admitted(outcome: Option<admit_response::Outcome>) -> Result<AdmitOutcome, Unreadable> {
    use admit_response::Outcome;
    Ok(match required(outcome, "outcome")? {
        Outcome::Admitted(_) => AdmitOutcome::Admitted,
        Outcome::Stale(stale) => AdmitOutcome::Stale {
            presented: TokenValue::new(stale.presented)?,
            required: TokenValue::new(stale.required)?,
        },
        Outcome::Foreign(foreign) => AdmitOutcome::Foreign {
            expected: IssuerName::new(foreign.expected_issuer)?,
        },
        Outcome::Ahead(wire) => AdmitOutcome::Ahead(ahead(wire)?),
    })
}

fn reported(outcome: Option<report_response::Outcome>) -> Result<ReportOutcome, Unreadable> {
    use report_response::Outcome;
    Ok(match required(outcome, "outcome")? {
        Outcome::Fine(fine) => ReportOutcome::Fine {
            last_token: TokenValue::new(fine.last_token).ok(),
        },
        Outcome::Ahead(wire) => ReportOutcome::Ahead(ahead(wire)?),
        Outcome::Foreign(foreign) => ReportOutcome::Foreign {
            expected: IssuerName::new(foreign.expected_issuer)?,
        },
    })
}

fn ahead(wire: v1::AheadToken) -> Result<Ahead, Unreadable> {
    Ok(Ahead {
        presented: TokenValue::new(wire.presented)?,
        last_token: TokenValue::new(wire.last_token).ok(),
        advice: wire.advice,
    })
}

fn mark(response: v1::HighWaterResponse) -> Result<Option<Mark>, Unreadable> {
    let Some(token) = response.mark else {
        return Ok(None);
    };
    Ok(Some(Mark {
        issuer: IssuerName::new(required(response.header, "header")?.issuer)?,
        token: TokenValue::new(token)?,
    }))
}

/// The cluster's own register as a [`Guard`], with one policy for equal tokens.
#[derive(Clone)]
pub struct Register {
    client: Client,
    equal: EqualTokens,
}

/// Why the register gave no verdict.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// The call could not be carried out.
    #[error(transparent)]
    Call(#[from] Error),
    /// The token was never issued. It is no verdict about the holder: something is wrong with the issuer,
    /// or with whoever presents the token.
    #[error(transparent)]
    Ahead(#[from] Ahead),
}

impl Guard for Register {
    type Error = RegisterError;

    async fn admit(&self, sequencer: &Sequencer) -> Result<Verdict, RegisterError> {
        match self.client.admit(sequencer, self.equal).await? {
            AdmitOutcome::Admitted => Ok(Verdict::Admitted),
            AdmitOutcome::Stale {
                presented,
                required,
            } => Ok(Verdict::Stale {
                presented,
                required,
            }),
            AdmitOutcome::Foreign { expected } => Ok(Verdict::Foreign(Foreign::Issuer {
                presented: sequencer.issuer.clone(),
                expected,
            })),
            AdmitOutcome::Ahead(ahead) => Err(ahead.into()),
        }
    }

    async fn high_water(&self, resource: &ResourceName) -> Result<Option<Mark>, RegisterError> {
        Ok(self.client.high_water(resource).await?)
    }
}
