//! Acquire: one proposal, whatever comes of it.

use std::time::Instant;

use crate::{
    grant::{AskedAt, Ttl},
    issuer::{self, AcquireOutcome, Command, HeldBy, LogId, Outcome},
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
        failure::{Effect, Failure, Reason},
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
        if outcome == AcquireOutcome::TooOld {
            return Err(api.too_old(asked.asked_at, committed.at).into());
        }
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

fn forgotten() -> Failure {
    Failure::new(
        Reason::TooOld,
        "this request id may have been forgotten, so its outcome is unknown: ask again under a new \
         one, which supersedes the old grant if there is one",
    )
}

impl Api {
    fn acquired(&self, outcome: AcquireOutcome, stamped_at_ms: u64) -> Result<Wire, Failure> {
        Ok(match outcome {
            AcquireOutcome::Granted {
                token,
                lease,
                replayed,
                after_wait,
            } => Wire::Granted(v1::Granted {
                after_wait,
                ..self.granted(token, lease, replayed, stamped_at_ms)
            }),
            AcquireOutcome::Held {
                by,
                queue,
                replayed,
            } => {
                self.counted.held.inc();
                Wire::Held(v1::Held {
                    queue,
                    ..self.held(by, replayed)
                })
            }
            AcquireOutcome::Left { how } => Wire::Left(v1::Left {
                how: v1::LeftHow::from(how).into(),
            }),
            AcquireOutcome::Queued { .. } => {
                return Err(Failure::new(
                    Reason::UnknownOutcome,
                    "the request waits for the resource, and this node does not wait with it",
                ));
            }
            AcquireOutcome::Ended { token, how } => {
                self.counted.ended.inc();
                Wire::Ended(v1::Ended {
                    token: Some(token.into()),
                    how: v1::EndedHow::from(how).into(),
                })
            }
            AcquireOutcome::TooOld => return Err(forgotten()),
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
            AcquireOutcome::TooManyGrantsOfHolder { limit, .. } => {
                return Err(Failure::new(
                    Reason::Limit,
                    format!(
                        "the holder has {limit} grants and places in queues, as many as one holder \
                         may have"
                    ),
                ));
            }
            AcquireOutcome::TooManyWaiters {
                limit, of_resource, ..
            } => {
                let whose = if of_resource {
                    "the resource"
                } else {
                    "the cluster"
                };
                return Err(Failure::new(
                    Reason::Limit,
                    format!("{whose} has {limit} waiters, as many as it may have"),
                ));
            }
        })
    }

    /// Nothing was stored, for one of three reasons. Only the first is about being late; an `asked_at`
    /// that no answer of this cluster gave is the caller's mistake, and a new id does not mend it.
    fn too_old(&self, asked_at: Option<AskedAt>, at: LogId) -> Failure {
        let Some(asked_at) = asked_at else {
            return forgotten();
        };
        let ours = self
            .raft
            .state()
            .read(|replica| replica.machine().cluster());
        if ours.is_some_and(|ours| ours != asked_at.cluster) {
            return Failure::new(
                Reason::TooOld,
                "asked_at names another cluster, so the outcome of this request id is unknown: ask \
                 again under a new one, with asked_at from an answer of this cluster",
            );
        }
        if asked_at.applied < at.index {
            return forgotten();
        }
        let mut failure = Failure::invalid(
            "asked_at.applied_index",
            format!(
                "is {}, and this cluster has applied {} only: take it from one of its answers",
                asked_at.applied, at.index
            ),
        );
        failure.effect = Effect::Unknown;
        failure
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
