//! Withdraw: a place in a queue ends, and never a grant.

use std::time::Instant;

use super::outcome::forgotten;
use crate::{
    grant::LeftHow,
    issuer::{self, Command, Leaving, Outcome, WithdrawOutcome},
    server::{
        api::{
            Api,
            asked::{self, WithdrawAsked},
            calls::Kind,
            method::{Halt, Method},
            propose::mismatched,
        },
        clock,
    },
    wire::{
        failure::Failure,
        v1::{self, ResponseHeader, withdraw_response::Outcome as Wire},
    },
};

/// `Issuer.Withdraw`.
#[derive(Debug)]
pub(in crate::server::api) struct Withdraw;

impl Method for Withdraw {
    const PATH: &'static str = "/fencepost.v1.Issuer/Withdraw";
    const NAME: &'static str = "Withdraw";
    const KIND: Kind = Kind::Keeps;
    type Request = v1::WithdrawRequest;
    type Response = v1::WithdrawResponse;
    type Asked = WithdrawAsked;

    fn read(request: &Self::Request) -> Result<WithdrawAsked, Failure> {
        asked::withdraw(request)
    }

    async fn lead(
        api: &Api,
        asked: &WithdrawAsked,
        deadline: Instant,
    ) -> Result<Self::Response, Halt> {
        let command = Command::Withdraw(issuer::Withdraw {
            places: vec![Leaving {
                request: asked.request,
                attempt: asked.attempt,
            }],
            how: LeftHow::Withdrawn,
            stamped_at_ms: clock::wall_ms(),
        });
        let committed = api.proposals.propose(&command, deadline).await?;
        let outcome = match &committed.outcome {
            Outcome::Withdraw(each) => each.first().copied(),
            _ => None,
        };
        let outcome = outcome.ok_or_else(|| mismatched(&committed.outcome))?;
        let left = |how: LeftHow| {
            Wire::Left(v1::Left {
                how: v1::LeftHow::from(how).into(),
            })
        };
        let outcome = match outcome {
            WithdrawOutcome::Left { how } => left(how),
            WithdrawOutcome::Marked => left(LeftHow::Withdrawn),
            WithdrawOutcome::Granted { token } => Wire::Granted(api.granted_before(token)),
            WithdrawOutcome::Ended { token, how } => Wire::Ended(v1::Ended {
                token: Some(token.into()),
                how: v1::EndedHow::from(how).into(),
            }),
            WithdrawOutcome::Refused => Wire::Refused(v1::Refused {}),
            WithdrawOutcome::Stale => Wire::Stale(v1::Stale {}),
            WithdrawOutcome::Unknown => return Err(forgotten().into()),
        };
        Ok(v1::WithdrawResponse {
            header: Some(api.header(committed.at.index)),
            outcome: Some(outcome),
        })
    }

    fn header(response: &mut Self::Response) -> &mut Option<ResponseHeader> {
        &mut response.header
    }
}
