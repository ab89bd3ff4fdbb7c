//! What an Acquire came to, on the wire.

use crate::{
    grant::{AskedAt, Ttl},
    issuer::{AcquireOutcome, HeldBy, LogId, Replica},
    server::{api::Api, clock},
    token::Token,
    wire::{
        failure::{Effect, Failure, Reason},
        v1::{self, acquire_response::Outcome as Wire},
    },
};

/// It cannot be told any more how a request id came out.
pub(super) fn forgotten() -> Failure {
    Failure::new(
        Reason::TooOld,
        "this request id may have been forgotten, so its outcome is unknown: ask again under a new \
         one, which supersedes the old grant if there is one",
    )
}

/// Nothing was stored, for one of three reasons. Only the first is about being late; an `asked_at`
/// that no answer of this cluster gave is the caller's mistake, and a new id does not mend it.
pub(super) fn too_old(api: &Api, asked_at: Option<AskedAt>, at: LogId) -> Failure {
    let Some(asked_at) = asked_at else {
        return forgotten();
    };
    let ours = api.raft.state().read(|replica| replica.machine().cluster());
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

/// The outcomes that are no answer.
fn not_carried_out(outcome: &AcquireOutcome) -> Failure {
    let full = |what: String| Failure::new(Reason::Limit, what);
    match outcome {
        AcquireOutcome::TooOld => forgotten(),
        AcquireOutcome::ParametersDiffer => Failure::new(
            Reason::RequestIdReused,
            "this request id was used before with another ttl_ms or wait_ms: send a retry unchanged, and \
             use a new id for a new request",
        ),
        AcquireOutcome::TooManyGrants { limit, .. } => full(format!(
            "the cluster has {limit} live grants, as many as it may have"
        )),
        AcquireOutcome::TooManyGrantsOfHolder { limit, .. } => full(format!(
            "the holder has {limit} grants and places in queues, as many as one holder may have"
        )),
        AcquireOutcome::TooManyWaiters {
            limit, of_resource, ..
        } => {
            let whose = if *of_resource {
                "the resource"
            } else {
                "the cluster"
            };
            full(format!(
                "{whose} has {limit} waiters, as many as it may have"
            ))
        }
        AcquireOutcome::Queued { .. } => Failure::new(
            Reason::UnknownOutcome,
            "the request waits for the resource, and has no answer yet",
        ),
        AcquireOutcome::Granted { .. }
        | AcquireOutcome::Held { .. }
        | AcquireOutcome::Left { .. }
        | AcquireOutcome::Ended { .. } => Failure::new(
            Reason::UnknownOutcome,
            format!("the outcome `{}` does not belong here", outcome.name()),
        ),
    }
}

impl Api {
    /// The answer that an outcome gives; a request that waits has none yet.
    pub(super) fn acquired(
        &self,
        outcome: AcquireOutcome,
        stamped_at_ms: u64,
    ) -> Result<Wire, Failure> {
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
            AcquireOutcome::Ended { token, how } => {
                self.counted.ended.inc();
                Wire::Ended(v1::Ended {
                    token: Some(token.into()),
                    how: v1::EndedHow::from(how).into(),
                })
            }
            other => return Err(not_carried_out(&other)),
        })
    }

    fn granted(&self, token: Token, lease: Ttl, replayed: bool, stamped_at_ms: u64) -> v1::Granted {
        let granted_at = if replayed {
            self.granted_at_ms(token)
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

    /// A grant that the caller may know of already.
    pub(super) fn granted_before(&self, token: Token) -> v1::Granted {
        let known = |replica: &Replica| {
            let grant = replica.machine().grant(token.value())?;
            Some(v1::Granted {
                lease_ms: grant.lease().as_ms(),
                after_wait: grant.after_wait,
                granted_at_unix_ms: grant.granted_at_ms,
                ..v1::Granted::default()
            })
        };
        v1::Granted {
            token: Some(token.into()),
            replayed: true,
            ..self.raft.state().read(known).flatten().unwrap_or_default()
        }
    }

    /// When a grant was made, for people; 0 if it has ended.
    pub(super) fn granted_at_ms(&self, token: Token) -> u64 {
        let known = |replica: &Replica| {
            let grant = replica.machine().grant(token.value());
            grant.map_or(0, |grant| grant.granted_at_ms)
        };
        self.raft.state().read(known).unwrap_or(0)
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
        let remaining = |replica: &Replica| {
            let holding = replica.holding_of(token.value(), now);
            holding.map(|holding| holding.remaining)
        };
        let remaining = self.raft.state().read(remaining).flatten();
        clock::whole_ms(remaining.unwrap_or_default())
    }
}
