//! Revoke and RaiseFloor: what an operator may do to grants and tokens.

use std::time::Instant;

use crate::{
    issuer::{self, Command, Outcome, RaiseFloorOutcome, RevokeOutcome},
    limits::FLOOR_MAX,
    server::{
        api::{
            Api,
            asked::{self, RevokeAsked},
            calls::Kind,
            issuer::ended,
            method::{Halt, Method},
            propose::mismatched,
        },
        clock,
        raft::Role,
    },
    wire::{
        failure::{Failure, Reason},
        v1::{self, ResponseHeader, revoke_response::Outcome as Revoked},
    },
};

/// `Cluster.Revoke`.
#[derive(Debug)]
pub(in crate::server::api) struct Revoke;

impl Method for Revoke {
    const PATH: &'static str = "/fencepost.v1.Cluster/Revoke";
    const NAME: &'static str = "Revoke";
    const KIND: Kind = Kind::Keeps;
    type Request = v1::RevokeRequest;
    type Response = v1::RevokeResponse;
    type Asked = RevokeAsked;

    fn read(request: &Self::Request) -> Result<RevokeAsked, Failure> {
        asked::revoke(request)
    }

    async fn lead(
        api: &Api,
        asked: &RevokeAsked,
        deadline: Instant,
    ) -> Result<Self::Response, Halt> {
        let command = Command::Revoke(issuer::Revoke {
            resource: asked.resource.clone(),
            token: asked.token,
            reason: asked.reason.clone(),
            stamped_at_ms: clock::wall_ms(),
        });
        let committed = api.proposals.propose(&command, deadline).await?;
        let Outcome::Revoke(outcome) = committed.outcome else {
            return Err(mismatched(&committed.outcome));
        };
        let outcome = match outcome {
            RevokeOutcome::Revoked => Revoked::Revoked(v1::Revoked {}),
            RevokeOutcome::Ended { how } => Revoked::Ended(ended(asked.token, how)),
            RevokeOutcome::Unknown => Revoked::Unknown(v1::Unknown {}),
            RevokeOutcome::OtherResource => {
                let message = format!(
                    "token {} is that of a grant of another resource: nothing was revoked",
                    asked.token
                );
                return Err(Failure::new(Reason::Refused, message).into());
            }
        };
        Ok(v1::RevokeResponse {
            header: Some(api.header(committed.at.index)),
            outcome: Some(outcome),
        })
    }

    fn header(response: &mut Self::Response) -> &mut Option<ResponseHeader> {
        &mut response.header
    }
}

/// `Cluster.RaiseFloor`.
#[derive(Debug)]
pub(in crate::server::api) struct RaiseFloor;

impl Method for RaiseFloor {
    const PATH: &'static str = "/fencepost.v1.Cluster/RaiseFloor";
    const NAME: &'static str = "RaiseFloor";
    const KIND: Kind = Kind::Keeps;
    type Request = v1::RaiseFloorRequest;
    type Response = v1::RaiseFloorResponse;
    type Asked = u64;

    fn read(request: &Self::Request) -> Result<u64, Failure> {
        Ok(request.above)
    }

    async fn lead(api: &Api, above: &u64, deadline: Instant) -> Result<Self::Response, Halt> {
        let stamped_at_us = clock::wall_us();
        let limit = stamped_at_us.min(FLOOR_MAX);
        // The machine judges the same; what it would refuse need not fill the log.
        let leads = api.raft.leadership().borrow().role == Role::Leader;
        if leads && *above > limit {
            return Err(beyond_clock(limit).into());
        }
        let command = Command::RaiseFloor(issuer::RaiseFloor {
            above: *above,
            stamped_at_us,
        });
        let committed = api.proposals.propose(&command, deadline).await?;
        match committed.outcome {
            Outcome::RaiseFloor(RaiseFloorOutcome::Raised { floor }) => {
                Ok(v1::RaiseFloorResponse {
                    header: Some(api.header(committed.at.index)),
                    floor,
                })
            }
            Outcome::RaiseFloor(RaiseFloorOutcome::BeyondClock { limit }) => {
                Err(beyond_clock(limit).into())
            }
            other => Err(mismatched(&other)),
        }
    }

    fn header(response: &mut Self::Response) -> &mut Option<ResponseHeader> {
        &mut response.header
    }
}

fn beyond_clock(limit: u64) -> Failure {
    let limit = format!("at most {limit}, the leader's clock in microseconds");
    Failure::invalid("above", limit)
}
