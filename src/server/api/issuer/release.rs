//! Release: never more than the one grant that the caller names.

use std::time::Instant;

use super::{claims::Standing, ended};
use crate::{
    grant::EndedHow,
    issuer::{self, Command, Outcome, ReleaseOutcome},
    server::{
        api::{
            Api,
            asked::{self, Claim},
            calls::Kind,
            method::{Halt, Method},
            propose::mismatched,
        },
        clock,
    },
    wire::{
        failure::Failure,
        v1::{self, ResponseHeader, release_response::Outcome as Wire},
    },
};

/// `Issuer.Release`.
#[derive(Debug)]
pub(in crate::server::api) struct Release;

impl Method for Release {
    const PATH: &'static str = "/fencepost.v1.Issuer/Release";
    const NAME: &'static str = "Release";
    const KIND: Kind = Kind::Keeps;
    type Request = v1::ReleaseRequest;
    type Response = v1::ReleaseResponse;
    type Asked = Claim;

    fn read(request: &Self::Request) -> Result<Claim, Failure> {
        asked::release(request)
    }

    async fn lead(api: &Api, claim: &Claim, deadline: Instant) -> Result<Self::Response, Halt> {
        let (outcome, header) = match api.judge(&[claim], deadline).await?.first() {
            Some(Standing::Live) => {
                let (outcome, applied) = api.release(claim, deadline).await?;
                (outcome, api.header(applied))
            }
            other => (ended_before(other), api.header_of_now()),
        };
        let counted = &api.counted.releases;
        let outcome = match outcome {
            ReleaseOutcome::Released => {
                counted.done.inc();
                Wire::Released(v1::Released {})
            }
            ReleaseOutcome::Ended { how } => {
                counted.ended.inc();
                Wire::Ended(ended(claim.token, how))
            }
            ReleaseOutcome::Unknown => {
                counted.unknown.inc();
                Wire::Unknown(v1::Unknown {})
            }
        };
        Ok(v1::ReleaseResponse {
            header: Some(header),
            outcome: Some(outcome),
        })
    }

    fn header(response: &mut Self::Response) -> &mut Option<ResponseHeader> {
        &mut response.header
    }
}

/// What the state says about a grant that does not live.
fn ended_before(standing: Option<&Standing>) -> ReleaseOutcome {
    match standing {
        Some(Standing::Ended(EndedHow::Released)) => ReleaseOutcome::Released,
        Some(Standing::Ended(how)) => ReleaseOutcome::Ended { how: *how },
        _ => ReleaseOutcome::Unknown,
    }
}

impl Api {
    /// The outcome, and where it stands in the log.
    async fn release(
        &self,
        claim: &Claim,
        deadline: Instant,
    ) -> Result<(ReleaseOutcome, u64), Halt> {
        let command = Command::Release(issuer::Release {
            token: claim.token,
            stamped_at_ms: clock::wall_ms(),
        });
        let committed = self.proposals.propose(&command, deadline).await?;
        match committed.outcome {
            Outcome::Release(outcome) => Ok((outcome, committed.at.index)),
            other => Err(mismatched(&other)),
        }
    }
}
