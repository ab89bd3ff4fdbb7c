//! Acquire: one proposal, whatever comes of it, and for those who have to wait the rest through the log.
//!
//! The leader answers a request that waits without an outcome, be it to itself or to the node that passed
//! it on. The node that its caller reached began to listen before it asked, and answers when its own log
//! says how the wait ended: see [`waits`](crate::server::waits).

use std::time::{Duration, Instant};

use super::outcome::too_old;
use crate::{
    issuer::{self, AcquireOutcome, Command, Outcome, Replica, Standing},
    limits::WAIT_MS_MAX,
    server::{
        api::{
            Api,
            asked::{self, AcquireAsked},
            method::{Halt, Method},
            propose::{mismatched, stopping},
        },
        clock,
        waits::{NotTaken, Turn, Waiting},
    },
    wire::{
        failure::{Failure, Reason},
        v1::{self, ResponseHeader, acquire_response::Outcome as Wire},
    },
};

/// How long it may take until a call that waits is in line.
const JOIN_MAX: Duration = Duration::from_secs(10);

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

    fn wait(request: &Self::Request) -> Duration {
        // A longer one is refused in a moment.
        Duration::from_millis(request.wait_ms.min(WAIT_MS_MAX))
    }

    fn read(request: &Self::Request) -> Result<AcquireAsked, Failure> {
        asked::acquire(request)
    }

    fn attend(api: &Api, asked: &AcquireAsked) -> Result<Option<Waiting>, Failure> {
        if asked.wait_ms == 0 {
            return Ok(None);
        }
        let waiting = (api.waits.calls()).wait(asked.request, asked.attempt, clock::now());
        waiting.map(Some).map_err(|why| match why {
            NotTaken::Stopping => stopping(),
            NotTaken::TooMany { .. } => Failure::new(Reason::Limit, why.to_string()),
        })
    }

    async fn lead(
        api: &Api,
        asked: &AcquireAsked,
        deadline: Instant,
    ) -> Result<Self::Response, Halt> {
        api.check_space_for(asked)?;
        let stamped_at_ms = clock::wall_ms();
        let command = Command::Acquire(issuer::Acquire {
            resource: asked.resource.clone(),
            holder: asked.holder.clone(),
            ttl: asked.ttl,
            request: asked.request,
            attempt: asked.attempt,
            asked_at: asked.asked_at,
            wait_ms: asked.wait_ms,
            stamped_at_ms,
        });
        // A wait may last for hours; what makes it begin may not.
        let soon = match asked.wait_ms {
            0 => deadline,
            _ => deadline.min(clock::now() + JOIN_MAX),
        };
        let committed = api.proposals.propose(&command, soon).await;
        let committed = committed.map_err(|halt| still_open(halt, deadline))?;
        let Outcome::Acquire(outcome) = committed.outcome else {
            return Err(mismatched(&committed.outcome));
        };
        let outcome = match outcome {
            AcquireOutcome::Queued { .. } => None,
            AcquireOutcome::TooOld => {
                return Err(too_old(api, asked.asked_at, committed.at).into());
            }
            other => Some(api.acquired(other, stamped_at_ms)?),
        };
        Ok(v1::AcquireResponse {
            header: Some(api.header(committed.at.index)),
            outcome,
        })
    }

    async fn finish(
        api: &Api,
        response: Self::Response,
        waiting: Option<Waiting>,
        deadline: Instant,
    ) -> Result<Self::Response, Failure> {
        if response.outcome.is_some() {
            return Ok(response);
        }
        let Some(mut waiting) = waiting else {
            let message = "the leader lets the request wait, which it did not ask for";
            return Err(Failure::new(Reason::UnknownOutcome, message));
        };
        match tokio::time::timeout_at(deadline.into(), waiting.turn()).await {
            Ok(turn) => api.turned(turn),
            Err(_) => Err(Failure::deadline(
                "the call's own time ran out while it waited in line: unless the same request id comes \
                 back within 2 s, with a higher attempt, its place is given up",
            )),
        }
    }

    fn header(response: &mut Self::Response) -> &mut Option<ResponseHeader> {
        &mut response.header
    }
}

/// The time for a proposal ran out, and perhaps not the caller's own.
fn still_open(halt: Halt, deadline: Instant) -> Halt {
    match halt {
        Halt::Failed(failure) => Halt::Failed(Failure {
            deadline: failure.deadline && clock::now() >= deadline,
            ..failure
        }),
        Halt::NotLeader(hint) => Halt::NotLeader(hint),
    }
}

impl Api {
    /// Whoever waits or was granted already comes back to what he has: that is nothing new.
    fn check_space_for(&self, asked: &AcquireAsked) -> Result<(), Failure> {
        self.check_space().or_else(|full| {
            let standing = |replica: &Replica| replica.machine().standing(&asked.request);
            match self.raft.state().read(standing) {
                None | Some(Standing::Unknown) => Err(full),
                Some(_) => Ok(()),
            }
        })
    }

    /// The answer to a call whose wait is over.
    fn turned(&self, turn: Turn) -> Result<v1::AcquireResponse, Failure> {
        let (at, outcome) = match turn {
            Turn::Granted {
                at,
                token,
                lease,
                after_wait,
            } => (
                at,
                Wire::Granted(v1::Granted {
                    token: Some(token.into()),
                    lease_ms: lease.as_ms(),
                    after_wait,
                    replayed: false,
                    granted_at_unix_ms: self.granted_at_ms(token),
                }),
            ),
            Turn::Ended { at, token, how } => (
                at,
                Wire::Ended(v1::Ended {
                    token: Some(token.into()),
                    how: v1::EndedHow::from(how).into(),
                }),
            ),
            Turn::Left { at, how } => (
                at,
                Wire::Left(v1::Left {
                    how: v1::LeftHow::from(how).into(),
                }),
            ),
            Turn::Unattended => {
                return Err(self.come_back(
                    "this node has lost touch with the leader while the call waited in line",
                ));
            }
            Turn::Stopping => {
                return Err(self.come_back("this node is stopping while the call waits in line"));
            }
        };
        Ok(v1::AcquireResponse {
            header: Some(self.header(at.index)),
            outcome: Some(outcome),
        })
    }

    /// The place is still there for a while, and may be granted meanwhile.
    fn come_back(&self, what: &str) -> Failure {
        let leader = self.leadership.borrow().leader.clone();
        let address = leader.map(|leader| leader.client_address);
        Failure::new(
            Reason::UnknownOutcome,
            format!(
                "{what}: send the same request id again at once, with a higher attempt, to another node, \
                 and the place is kept; it may have been granted, or may still be"
            ),
        )
        .leader(address.filter(|address| !address.is_empty()))
    }
}
