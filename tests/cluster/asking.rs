//! How a caller asks: one logical call, over several nodes and several sends, and what its
//! caller may conclude from the answers.
//!
//! The rule for failed sends: as soon as one send of a request id is open (no answer, or an error that
//! leaves its effect open), only an answer under the same id settles it. No later error makes the
//! operation a definite failure again.

use std::time::{Duration, Instant};

use fencepost::wire::v1::{
    AcquireRequest, AskedAt, ReleaseRequest, RenewItem, ResponseHeader, RevokeRequest,
    WithdrawRequest, acquire_response, release_response, renew_outcome, revoke_response,
    withdraw_response,
};
use tokio::task::JoinHandle;
use tonic::Status;
use tonic_types::StatusExt;

use crate::{
    dice::Dice,
    history::{
        Call, Granted, Moment, Outcome,
        recorder::{Pending, Recorder},
    },
    nodes::calls::Calls,
};

/// One caller: where it sends to, and what it has seen of the cluster.
pub(crate) struct Asker {
    pub(crate) client: u32,
    pub(crate) recorder: Recorder,
    /// By node id, from 1.
    pub(crate) nodes: Vec<Calls>,
    /// Whom it takes for the leader: a position in `nodes`.
    pub(crate) favourite: usize,
    seen: Option<AskedAt>,
    pub(crate) dice: Dice,
    /// How long one send of an acquire may stay open; `None` is the deadline of all calls, which makes a
    /// waiter come back again and again.
    pub(crate) open_for: Option<Duration>,
}

impl Asked {
    /// How often it was sent.
    pub(crate) fn attempts(&self) -> u32 {
        self.message.attempt
    }
}

/// What one send came to.
pub(crate) type Sent = Result<Outcome, Status>;

/// An acquire as it may be sent again.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    message: AcquireRequest,
    ttl: Duration,
    /// When a copy was sent aside, if that was before it was sent for its answer.
    first_sent: Option<Moment>,
}

impl Asker {
    pub(crate) fn new(client: u32, nodes: Vec<Calls>, recorder: Recorder, dice: Dice) -> Self {
        let favourite = client as usize % nodes.len();
        Self {
            client,
            recorder,
            nodes,
            favourite,
            seen: None,
            dice,
            open_for: None,
        }
    }

    /// A new request with an id of its own, which does not wait.
    pub(crate) fn request(&mut self, resource: &str, holder: &str, ttl: Duration) -> Asked {
        self.request_in_line(resource, holder, ttl, Duration::ZERO)
    }

    /// A new request with an id of its own, which stands in line for so long.
    pub(crate) fn request_in_line(
        &mut self,
        resource: &str,
        holder: &str,
        ttl: Duration,
        wait: Duration,
    ) -> Asked {
        let id = [
            self.dice.next().to_be_bytes(),
            self.dice.next().to_be_bytes(),
        ]
        .concat();
        let message = AcquireRequest {
            resource: resource.into(),
            holder: holder.into(),
            ttl_ms: u64::try_from(ttl.as_millis()).unwrap(),
            request_id: id.into(),
            attempt: 0,
            asked_at: self.seen.clone(),
            wait_ms: u64::try_from(wait.as_millis()).unwrap(),
        };
        Asked {
            message,
            ttl,
            first_sent: None,
        }
    }

    /// One send through `other`, whose connection is another one than this asker's, on a task of its
    /// own. It takes the next attempt number; `asked` goes on from there.
    pub(crate) fn send_aside(&mut self, asked: &mut Asked, other: Calls) -> JoinHandle<Sent> {
        let mut aside = Asker {
            nodes: vec![other],
            favourite: 0,
            recorder: self.recorder.clone(),
            seen: None,
            dice: self.dice.clone(),
            client: self.client,
            open_for: None,
        };
        asked.first_sent.get_or_insert(self.recorder.now());
        let mut copy = asked.clone();
        asked.message.attempt += 1;
        tokio::spawn(async move { aside.send(&mut copy).await })
    }

    /// Sends an acquire until it is settled or `patience` is over, and records it as one operation.
    pub(crate) async fn acquire(&mut self, asked: &mut Asked, patience: Duration) -> Outcome {
        let call = Call::Acquire {
            holder: asked.message.holder.clone(),
            request_id: request_key(&asked.message),
            ttl: asked.ttl,
            wait: Duration::from_millis(asked.message.wait_ms),
        };
        let pending = self
            .recorder
            .begin(self.client, &asked.message.resource, call);
        if let Some(first) = asked.first_sent {
            pending.was_sent_at(first);
        }
        let mut unsettled = Unsettled::within(patience);
        let outcome = loop {
            match self.send(asked).await {
                Ok(settled) => break settled,
                Err(status) if unsettled.is_over(&status) => break unsettled.outcome(&status),
                Err(_) => self.elsewhere().await,
            }
        };
        self.end(pending, &outcome);
        outcome
    }

    /// One send, with the next attempt number.
    pub(crate) async fn send(&mut self, asked: &mut Asked) -> Sent {
        asked.message.attempt += 1;
        let mut node = self.nodes[self.favourite].clone();
        if let Some(open_for) = self.open_for {
            node = node.within(open_for);
        }
        let answer = node.acquire(asked.message.clone()).await?;
        self.learn(answer.header);
        use acquire_response::Outcome as Said;
        let granted = |token: Option<fencepost::wire::v1::Token>, start_unknown, after_wait| {
            let token = token.expect("a grant carries its token");
            Outcome::Granted(Granted {
                token: token.value,
                index: token.index,
                start_unknown,
                after_wait,
            })
        };
        Ok(
            match answer.outcome.expect("an answer says how it came out") {
                Said::Granted(said) => {
                    let start_unknown = said.after_wait || said.replayed;
                    granted(said.token, start_unknown, said.after_wait)
                }
                // A refusal that is told again says who has it now, not who had it then.
                Said::Held(said) if said.replayed => Outcome::Refused("held, as before".into()),
                Said::Held(said) => Outcome::Held(said.token.map_or(0, |token| token.value)),
                // It was granted, to an earlier send whose answer was lost, and has ended since: a grant
                // that was acknowledged late, and that gives its caller no time at all.
                Said::Ended(said) => granted(said.token, true, false),
                Said::Left(said) => Outcome::Left(said.how().as_str_name().to_owned()),
            },
        )
    }

    /// One renewal that keeps the TTL, sent once.
    pub(crate) async fn renew(&mut self, asked: &Asked, token: u64) -> Outcome {
        self.renew_for(asked, token, asked.ttl).await
    }

    /// One renewal that names its TTL, sent once.
    pub(crate) async fn renew_for(&mut self, asked: &Asked, token: u64, ttl: Duration) -> Outcome {
        let (resource, holder) = (asked.message.resource.clone(), asked.message.holder.clone());
        let pending = self
            .recorder
            .begin(self.client, &resource, Call::Renew { token, ttl });
        // The TTL that it has anyway is left out, so that both forms are used.
        let ttl_ms = if ttl == asked.ttl {
            0
        } else {
            u64::try_from(ttl.as_millis()).unwrap()
        };
        let item = RenewItem {
            resource,
            holder,
            token,
            ttl_ms,
        };
        let answer = self.nodes[self.favourite].renew(item).await;
        let outcome = match answer {
            Ok(answer) => {
                self.learn(answer.header);
                let said = answer
                    .outcomes
                    .into_iter()
                    .next()
                    .and_then(|one| one.outcome);
                match said.expect("one outcome for one renewal") {
                    renew_outcome::Outcome::Renewed(_) => Outcome::Renewed,
                    renew_outcome::Outcome::Ended(_) => Outcome::Refused("ended".into()),
                    renew_outcome::Outcome::Unknown(_) => Outcome::Refused("unknown".into()),
                }
            }
            Err(status) => {
                self.elsewhere().await;
                failed(&status)
            }
        };
        self.end(pending, &outcome);
        outcome
    }

    /// A release, sent until it is settled or `patience` is over.
    pub(crate) async fn release(
        &mut self,
        asked: &Asked,
        token: u64,
        patience: Duration,
    ) -> Outcome {
        let (resource, holder) = (asked.message.resource.clone(), asked.message.holder.clone());
        let pending = self
            .recorder
            .begin(self.client, &resource, Call::Release { token });
        let message = ReleaseRequest {
            resource,
            holder,
            token,
        };
        let mut unsettled = Unsettled::within(patience);
        let outcome = loop {
            match self.nodes[self.favourite].release(message.clone()).await {
                Ok(answer) => {
                    self.learn(answer.header);
                    break match answer.outcome.expect("an answer says how it came out") {
                        release_response::Outcome::Released(_) => Outcome::Released,
                        release_response::Outcome::Ended(_) => Outcome::Refused("ended".into()),
                        release_response::Outcome::Unknown(_) => Outcome::Refused("unknown".into()),
                    };
                }
                Err(status) if unsettled.is_over(&status) => break unsettled.outcome(&status),
                Err(_) => self.elsewhere().await,
            }
        };
        self.end(pending, &outcome);
        outcome
    }

    /// Leaves the queue that an acquire joined, as one that was sent for the last time.
    pub(crate) async fn withdraw(&mut self, asked: &Asked, patience: Duration) -> Outcome {
        let call = Call::Withdraw {
            request_id: request_key(&asked.message),
        };
        let AcquireRequest {
            resource,
            holder,
            request_id,
            attempt,
            asked_at,
            ..
        } = asked.message.clone();
        let pending = self.recorder.begin(self.client, &resource, call);
        let message = WithdrawRequest {
            resource,
            holder,
            request_id,
            attempt,
            asked_at,
        };
        let mut unsettled = Unsettled::within(patience);
        let outcome = loop {
            match self.nodes[self.favourite].withdraw(message.clone()).await {
                Ok(answer) => {
                    self.learn(answer.header);
                    break left_or_granted(answer.outcome.expect("an answer says how it came out"));
                }
                Err(status) if unsettled.is_over(&status) => break unsettled.outcome(&status),
                Err(_) => self.elsewhere().await,
            }
        };
        self.end(pending, &outcome);
        outcome
    }

    /// Who has a resource now, by the token of the grant.
    pub(crate) async fn inspect(&mut self, resource: &str) -> Outcome {
        let pending = self.recorder.begin(self.client, resource, Call::Inspect);
        let outcome = match self.nodes[self.favourite].inspect(resource).await {
            Ok(answer) => {
                self.learn(answer.header);
                let token = answer.grant.and_then(|grant| grant.token);
                Outcome::Inspected(token.map(|token| token.value))
            }
            Err(status) => {
                self.elsewhere().await;
                failed(&status)
            }
        };
        self.end(pending, &outcome);
        outcome
    }

    /// A revocation, as an operator sends it, until it is settled or `patience` is over.
    pub(crate) async fn revoke(
        &mut self,
        resource: &str,
        token: u64,
        patience: Duration,
    ) -> Outcome {
        let pending = self
            .recorder
            .begin(self.client, resource, Call::Revoke { token });
        let message = RevokeRequest {
            resource: resource.into(),
            token,
            reason: "to see".into(),
        };
        let mut unsettled = Unsettled::within(patience);
        let outcome = loop {
            match self.nodes[self.favourite].revoke(message.clone()).await {
                Ok(answer) => {
                    self.learn(answer.header);
                    break match answer.outcome.expect("an answer says how it came out") {
                        revoke_response::Outcome::Revoked(_) => Outcome::Revoked,
                        revoke_response::Outcome::Ended(_) => Outcome::Refused("ended".into()),
                        revoke_response::Outcome::Unknown(_) => Outcome::Refused("unknown".into()),
                    };
                }
                Err(status) if unsettled.is_over(&status) => break unsettled.outcome(&status),
                Err(_) => self.elsewhere().await,
            }
        };
        self.end(pending, &outcome);
        outcome
    }

    /// Writes an operation's outcome down, with what the cluster had applied by then.
    fn end(&self, pending: Pending, outcome: &Outcome) {
        if let Some(seen) = &self.seen {
            pending.saw(seen.applied_index);
        }
        pending.end(outcome.clone());
    }

    /// Follows the leader that an answer names, and remembers what was seen for `asked_at`.
    fn learn(&mut self, header: Option<ResponseHeader>) {
        let header = header.expect("every answer has a header");
        if let Some(leader) = header.leader {
            self.favourite = usize::try_from(leader.node_id - 1).unwrap() % self.nodes.len();
        }
        self.seen = Some(AskedAt {
            cluster_id: header.cluster_id,
            applied_index: header.applied_index,
        });
    }

    /// After a failure: a short pause, then the next node.
    async fn elsewhere(&mut self) {
        self.favourite = (self.favourite + 1) % self.nodes.len();
        tokio::time::sleep(self.dice.millis(20, 60)).await;
    }
}

/// What a withdrawal is told: its place ended, or there is a grant, which is to be released.
fn left_or_granted(said: withdraw_response::Outcome) -> Outcome {
    use withdraw_response::Outcome as Said;
    match said {
        Said::Left(said) => Outcome::Left(said.how().as_str_name().to_owned()),
        Said::Granted(said) => {
            let token = said.token.expect("a grant carries its token");
            Outcome::Granted(Granted {
                token: token.value,
                index: token.index,
                start_unknown: true,
                after_wait: said.after_wait,
            })
        }
        Said::Ended(_) => Outcome::Refused("ended".into()),
        Said::Stale(_) => Outcome::Refused("a later attempt is there".into()),
        Said::Refused(_) => Outcome::Refused("the acquire was refused".into()),
    }
}

/// An operation whose sends have failed so far.
struct Unsettled {
    deadline: Instant,
    /// Why the effect of some send is open, if it is.
    open: Option<String>,
}

impl Unsettled {
    fn within(patience: Duration) -> Self {
        Self {
            deadline: Instant::now() + patience,
            open: None,
        }
    }

    /// Takes in that one more send has failed; says whether it was the last.
    fn is_over(&mut self, status: &Status) -> bool {
        if let (true, why) = judge(status) {
            self.open = Some(why);
        }
        Instant::now() >= self.deadline
    }

    /// How the operation ended, its last send having failed.
    fn outcome(self, last: &Status) -> Outcome {
        self.open.map_or_else(|| failed(last), Outcome::Unknown)
    }
}

pub(crate) fn failed(status: &Status) -> Outcome {
    match judge(status) {
        (true, why) => Outcome::Unknown(why),
        (false, why) => Outcome::Failed(why),
    }
}

/// Whether the effect of a failed call is open, and what was said. Open unless the contract's own
/// error details say that there was none.
fn judge(status: &Status) -> (bool, String) {
    let info = status.get_details_error_info();
    let none = info.as_ref().is_some_and(|info| {
        info.domain == "fencepost"
            && info
                .metadata
                .get("effect")
                .is_some_and(|effect| effect == "none")
    });
    let reason = info.map_or_else(String::new, |info| info.reason);
    (
        !none,
        format!("{:?} {reason}: {}", status.code(), status.message()),
    )
}

/// The request id as the applied log has it: 128 bits of a hash over resource, holder and id.
fn request_key(message: &AcquireRequest) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(message.resource.as_bytes()).update(&[0]);
    hasher.update(message.holder.as_bytes()).update(&[0]);
    hasher.update(&message.request_id);
    hasher.finalize().as_bytes()[..16]
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
