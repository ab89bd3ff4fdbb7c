//! One path for every call: judged where it arrives, answered by the leader, passed on at most once.
//!
//! A call that reaches the leader is answered there. One that reaches another node is passed on with
//! its encoded request; if the receiver turns out not to lead, nothing has happened, and the first node
//! looks again, within the caller's deadline. Whatever may have taken effect ends the call at once with
//! an outcome that is unknown: only the caller can repeat it, under its own request id.

use std::{future::Future, time::Duration, time::Instant};

use bytes::Bytes;
use prost::Message;
use tonic::{Request, Response, Status};

use super::{Api, calls::Kind, deadline, serve::LONG_CALLS_MAX};
use crate::{
    server::{
        clock,
        port::{LongCall, LongCalls},
        raft::{ForwardError, ForwardStatus, Forwarded, LeaderHint, Touch},
        waits::Waiting,
    },
    wire::{
        failure::{Failure, Reason},
        v1::ResponseHeader,
    },
};

/// What stops a call on its way.
#[derive(Clone, Debug)]
pub(super) enum Halt {
    /// This node does not lead, and nothing was done.
    NotLeader(Option<LeaderHint>),
    /// The caller is told this.
    Failed(Failure),
}

impl From<Failure> for Halt {
    fn from(failure: Failure) -> Self {
        Halt::Failed(failure)
    }
}

/// One method of the API that the leader answers.
pub(super) trait Method: Send + Sync + 'static {
    /// As gRPC spells it: `/fencepost.v1.Issuer/Acquire`.
    const PATH: &'static str;
    /// Its last word, for metrics.
    const NAME: &'static str;
    /// How long its answer may take once it was passed on, before its outcome counts as unknown.
    const PASS_ON_MAX: Duration = Duration::from_secs(5);
    /// What becomes of it when there are too many calls.
    const KIND: Kind = Kind::Starts;
    /// The message that comes in.
    type Request: Message + Default + 'static;
    /// The message that goes out.
    type Response: Message + Default + 'static;
    /// The request in words.
    type Asked: Send + Sync;

    /// Fills in what the caller left to this node, so that every copy that is passed on is the same.
    fn complete(_api: &Api, _request: &mut Self::Request) {}

    /// How long the request may wait in line.
    fn wait(_request: &Self::Request) -> Duration {
        Duration::ZERO
    }

    /// Judges the request.
    fn read(request: &Self::Request) -> Result<Self::Asked, Failure>;

    /// The answer, if this node can give it whoever leads: what its own state says must stay true
    /// whatever was, or will be, applied elsewhere.
    fn at_hand(_api: &Api, _asked: &Self::Asked) -> Result<Option<Self::Response>, Failure> {
        Ok(None)
    }

    /// Carries it out on the leader.
    fn lead(
        api: &Api,
        asked: &Self::Asked,
        deadline: Instant,
    ) -> impl Future<Output = Result<Self::Response, Halt>> + Send;

    /// Begins to listen for what may come through the log, before the leader is asked.
    fn attend(_api: &Api, _asked: &Self::Asked) -> Result<Option<Waiting>, Failure> {
        Ok(None)
    }

    /// Turns what the leader said into the answer. Where it said that the call waits in line, this node
    /// learns the answer from its own log.
    fn finish(
        _api: &Api,
        response: Self::Response,
        _waiting: Option<Waiting>,
        _deadline: Instant,
    ) -> impl Future<Output = Result<Self::Response, Failure>> + Send {
        std::future::ready(Ok(response))
    }

    /// Where the response keeps its header.
    fn header(response: &mut Self::Response) -> &mut Option<ResponseHeader>;
}

/// How long a call waits for a leader to appear, if its caller has that long: the caller may reach
/// another node that knows one (etcd#8308).
const PATIENCE: Duration = Duration::from_secs(2);

/// Between two looks for the leader, at most.
const LOOK_EVERY: Duration = Duration::from_millis(50);

impl Api {
    /// A call by a client.
    pub(super) async fn call<M: Method>(
        &self,
        request: Request<M::Request>,
    ) -> Result<Response<M::Response>, Status> {
        let began = clock::now();
        let named = deadline::named(request.metadata());
        let _long = self.long_call::<M>(&request)?;
        let mut request = request.into_inner();
        let answer = self.carry_out::<M>(&mut request, began, named).await;
        answer.map(Response::new)
    }

    /// A call that waits in line keeps one of its connection's HTTP/2 streams for long, and leaves enough
    /// of them to others.
    fn long_call<M: Method>(
        &self,
        request: &Request<M::Request>,
    ) -> Result<Option<LongCall>, Status> {
        if M::wait(request.get_ref()).is_zero() {
            return Ok(None);
        }
        // Whoever embeds the services elsewhere has other connections.
        let Some(calls) = request.extensions().get::<LongCalls>() else {
            return Ok(None);
        };
        let one_too_many = || {
            let message = format!(
                "{LONG_CALLS_MAX} calls wait on this connection, as many as may: wait on a Pipeline, or \
                 on another connection"
            );
            self.failed(Failure::new(Reason::Limit, message))
        };
        let call = calls.enter(LONG_CALLS_MAX).ok_or_else(one_too_many)?;
        Ok(Some(call))
    }

    /// The same, however the request came in. `named` is how long its caller gives it.
    pub(super) async fn carry_out<M: Method>(
        &self,
        request: &mut M::Request,
        began: Instant,
        named: Option<Duration>,
    ) -> Result<M::Response, Status> {
        let wait = M::wait(request);
        let deadline = deadline::of(named, wait, began);
        let entered = match wait.is_zero() {
            true => self.calls.enter(M::KIND).map(Some),
            // Calls that wait are counted where they wait.
            false => Ok(None),
        };
        let _entered = entered.map_err(|failure| self.failed(failure))?;
        let result = self.answer::<M>(request, began, deadline).await;
        self.observe(M::NAME, clock::now().saturating_duration_since(began));
        result
    }

    pub(super) async fn answer<M: Method>(
        &self,
        request: &mut M::Request,
        began: Instant,
        deadline: Instant,
    ) -> Result<M::Response, Status> {
        M::complete(self, request);
        let asked = M::read(request).map_err(|failure| self.failed(failure))?;
        let at_hand = M::at_hand(self, &asked).map_err(|failure| self.failed(failure))?;
        if let Some(response) = at_hand {
            return Ok(response);
        }
        let waiting = M::attend(self, &asked).map_err(|failure| self.failed(failure))?;
        let response = self
            .ask_leader::<M>(request, &asked, began, deadline)
            .await?;
        let answer = M::finish(self, response, waiting, deadline).await;
        answer.map_err(|failure| self.failed(failure))
    }

    /// What the leader says, be it this node or another one.
    async fn ask_leader<M: Method>(
        &self,
        request: &M::Request,
        asked: &M::Asked,
        began: Instant,
        deadline: Instant,
    ) -> Result<M::Response, Status> {
        let patience = deadline.min(began + PATIENCE);
        loop {
            let halt = if self.leads() {
                match M::lead(self, asked, deadline).await {
                    Ok(response) => return Ok(response),
                    Err(halt) => halt,
                }
            } else {
                match self.pass_on::<M>(request, deadline).await {
                    Ok(response) => return Ok(response),
                    Err(Passed::Halted(halt)) => halt,
                    Err(Passed::Status(status)) => return Err(status),
                }
            };
            let hint = match halt {
                Halt::Failed(failure) => return Err(self.failed(failure)),
                Halt::NotLeader(hint) => hint,
            };
            let now = clock::now();
            if now >= patience {
                return Err(self.failed(no_leader(hint, self.raft.waits_for())));
            }
            let next = (now + LOOK_EVERY).min(patience);
            let mut leadership = self.raft.leadership();
            leadership.mark_unchanged();
            // Either way it is time to look again.
            let _ = tokio::time::timeout_at(next.into(), leadership.changed()).await;
        }
    }

    /// Passes a call to the leader, which answers it or says that it does not lead.
    async fn pass_on<M: Method>(
        &self,
        request: &M::Request,
        deadline: Instant,
    ) -> Result<M::Response, Passed> {
        let now = clock::now();
        if self.raft.touch(now) != Touch::InTouch {
            // Cut off: whoever leads, the call would be lost on its way, and its outcome with it.
            return Err(Passed::Halted(Halt::NotLeader(None)));
        }
        let deadline = deadline.min(now + M::PASS_ON_MAX);
        let body = Bytes::from(request.encode_to_vec());
        self.metrics.forwarded.inc();
        match self.raft.forward(M::PATH, body, deadline).await {
            Ok(body) => {
                let mut response = M::Response::decode(body).map_err(|error| {
                    let message = format!("the leader's answer cannot be read: {error}");
                    Passed::Halted(Failure::new(Reason::UnknownOutcome, message).into())
                })?;
                if let Some(header) = M::header(&mut response) {
                    header.node_id = self.node_id;
                }
                Ok(response)
            }
            Err(error) => Err(passed(error)),
        }
    }

    /// A call that another node passed on: answered here, or not at all.
    pub(super) async fn passed<M: Method>(&self, body: Bytes, left: Duration) -> Forwarded {
        self.metrics.forwarded_in.inc();
        let deadline = deadline::within(left, clock::now());
        let request = match M::Request::decode(body) {
            Ok(request) => request,
            Err(error) => {
                let status = Status::internal(format!("the request cannot be read: {error}"));
                return Forwarded::Status(forward_status(&status));
            }
        };
        let result = match M::read(&request) {
            Ok(asked) => M::lead(self, &asked, deadline).await,
            Err(failure) => Err(failure.into()),
        };
        match result {
            Ok(response) => Forwarded::Done(response.encode_to_vec().into()),
            Err(Halt::NotLeader(hint)) => Forwarded::NotLeader {
                leader: hint.map(|hint| hint.node_id),
            },
            Err(Halt::Failed(failure)) => Forwarded::Status(forward_status(&failure.into_status())),
        }
    }
}

/// What became of a call that was passed on.
enum Passed {
    Halted(Halt),
    /// The leader's own words, as they are.
    Status(Status),
}

fn passed(error: ForwardError) -> Passed {
    Passed::Halted(match error {
        ForwardError::NotLeader { hint } => Halt::NotLeader(hint),
        // It came to lead while this was on its way: look again.
        ForwardError::IsLeader => Halt::NotLeader(None),
        // Nothing was sent. Perhaps somebody else leads by now.
        ForwardError::Unreachable(_) => Halt::NotLeader(None),
        ForwardError::Unknown(why) => {
            let message = format!(
                "the call was passed to the leader and no answer came ({why}): it may have taken effect"
            );
            Failure::new(Reason::UnknownOutcome, message).into()
        }
        ForwardError::Status(status) => {
            let code = tonic::Code::from_i32(status.code);
            return Passed::Status(Status::with_details(code, status.message, status.details));
        }
    })
}

pub(super) fn forward_status(status: &Status) -> ForwardStatus {
    ForwardStatus {
        code: status.code().into(),
        message: status.message().to_owned(),
        details: Bytes::copy_from_slice(status.details()),
    }
}

fn no_leader(hint: Option<LeaderHint>, waits_for: Option<String>) -> Failure {
    let elected = "no leader could be reached in time: an election is under way, or a majority of the \
                   nodes cannot be reached; try again, or another node";
    let message = match waits_for {
        Some(what) => format!("this node belongs to no cluster yet; it waits for {what}"),
        None => elected.to_owned(),
    };
    let leader = hint
        .map(|hint| hint.client_address)
        .filter(|address| !address.is_empty());
    Failure::new(Reason::NoLeader, message)
        .leader(leader)
        .retry_after(LOOK_EVERY)
}
