//! Acquire: one proposal, whatever comes of it.

use std::time::Instant;

use crate::{
    grant::Ttl,
    issuer::{self, AcquireOutcome, Command, HeldBy, Outcome},
    server::{
        api::{
            Api,
            asked::{self, AcquireAsked},
            method::{Halt, Method},
            propose::mismatched,
        },
        clock,
    },
    token::Token,
    wire::{
        failure::{Failure, Reason},
        v1::{self, ResponseHeader, acquire_response::Outcome as Wire},
    },
};

/// `Issuer.Acquire`.
#[derive(Debug)]
pub(in crate::server::api) struct Acquire;

impl Method for Acquire {
    const PATH: &'static str = "/fencepost.v1.Issuer/Acquire";
    const NAME: &'static str = "Acquire";
    type Request = v1::AcquireRequest;
    type Response = v1::AcquireResponse;
    type Asked = AcquireAsked;

    fn complete(api: &Api, request: &mut Self::Request) {
        if request.request_id.is_empty() {
            request.request_id = api.fresh.next();
        }
    }

    fn read(request: &Self::Request) -> Result<AcquireAsked, Failure> {
        asked::acquire(request)
    }

    async fn lead(
        api: &Api,
        asked: &AcquireAsked,
        deadline: Instant,
    ) -> Result<Self::Response, Halt> {
        api.check_space()?;
        let stamped_at_ms = clock::wall_ms();
        let command = Command::Acquire(issuer::Acquire {
            resource: asked.resource.clone(),
            holder: asked.holder.clone(),
            ttl: asked.ttl,
            request: asked.request,
            attempt: asked.attempt,
            asked_at: asked.asked_at,
            wait_ms: 0,
            stamped_at_ms,
        });
        let committed = api.proposals.propose(&command, deadline).await?;
        let Outcome::Acquire(outcome) = committed.outcome else {
            return Err(mismatched(&committed.outcome));
        };
        let outcome = api.acquired(outcome, stamped_at_ms)?;
        Ok(v1::AcquireResponse {
            header: Some(api.header(committed.at.index)),
            outcome: Some(outcome),
        })
    }

    fn header(response: &mut Self::Response) -> &mut Option<ResponseHeader> {
        &mut response.header
    }
}

impl Api {
    fn acquired(&self, outcome: AcquireOutcome, stamped_at_ms: u64) -> Result<Wire, Failure> {
        Ok(match outcome {
            AcquireOutcome::Granted {
                token,
                lease,
                replayed,
            } => Wire::Granted(self.granted(token, lease, replayed, stamped_at_ms)),
            AcquireOutcome::Held { by, replayed } => {
                self.counted.held.inc();
                Wire::Held(self.held(by, replayed))
            }
            AcquireOutcome::Ended { token, how } => {
                self.counted.ended.inc();
                Wire::Ended(v1::Ended {
                    token: Some(token.into()),
                    how: v1::EndedHow::from(how).into(),
                })
            }
            AcquireOutcome::TooOld => {
                return Err(Failure::new(
                    Reason::TooOld,
                    "this request id may have been forgotten, so its outcome is unknown: ask again \
                     under a new one, which supersedes the old grant if there is one",
                ));
            }
            AcquireOutcome::ParametersDiffer => {
                return Err(Failure::new(
                    Reason::RequestIdReused,
                    "this request id was used before with another ttl_ms or wait_ms: send a retry \
                     unchanged, and use a new id for a new request",
                ));
            }
            AcquireOutcome::TooManyGrants { limit, .. } => {
                return Err(Failure::new(
                    Reason::Limit,
                    format!("the cluster has {limit} live grants, as many as it may have"),
                ));
            }
        })
    }

    fn granted(&self, token: Token, lease: Ttl, replayed: bool, stamped_at_ms: u64) -> v1::Granted {
        let granted_at = if replayed {
            let known = |replica: &issuer::Replica| {
                let grant = replica.machine().grant(token.value());
                grant.map_or(0, |grant| grant.granted_at_ms)
            };
            self.raft.state().read(known).unwrap_or(0)
        } else {
            self.metrics.grants.inc();
            stamped_at_ms
        };
        v1::Granted {
            token: Some(token.into()),
            lease_ms: lease.as_ms(),
            after_wait: false,
            replayed,
            granted_at_unix_ms: granted_at,
        }
    }

    fn held(&self, by: Option<HeldBy>, replayed: bool) -> v1::Held {
        let Some(by) = by else {
            return v1::Held {
                replayed,
                ..v1::Held::default()
            };
        };
        v1::Held {
            holder: by.holder.to_string(),
            token: Some(by.token.into()),
            remaining_ms: self.remaining_ms(by.token),
            queue: 0,
            replayed,
        }
    }

    /// What this node's own lease clock says.
    fn remaining_ms(&self, token: Token) -> u64 {
        let now = clock::now();
        let remaining = |replica: &issuer::Replica| {
            let holding = replica.holding_of(token.value(), now);
            holding.map(|holding| holding.remaining)
        };
        let remaining = self.raft.state().read(remaining).flatten();
        u64::try_from(remaining.unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
    }
}
