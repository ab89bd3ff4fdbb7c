//! Admit: a token passes, or it does not.

use std::time::Instant;

use super::{
    ahead,
    asked::{self, AdmitAsked},
};
use crate::{
    issuer::{self, AdmitOutcome, Command, Outcome, Replica, Weighed},
    server::{
        api::{
            Api,
            method::{Halt, Method},
            propose::mismatched,
        },
        clock,
    },
    wire::{
        failure::{Failure, Reason},
        v1::{self, ResponseHeader, admit_response::Outcome as Wire},
    },
};

/// `Guard.Admit`.
#[derive(Debug)]
pub(in crate::server::api) struct Admit;

impl Method for Admit {
    const PATH: &'static str = "/fencepost.v1.Guard/Admit";
    const NAME: &'static str = "Admit";
    type Request = v1::AdmitRequest;
    type Response = v1::AdmitResponse;
    type Asked = AdmitAsked;

    fn read(request: &Self::Request) -> Result<AdmitAsked, Failure> {
        asked::admit(request)
    }

    /// What stays true whatever the other nodes have applied by now.
    fn at_hand(api: &Api, asked: &AdmitAsked) -> Result<Option<Self::Response>, Failure> {
        if let Some(foreign) = asked::foreign(&asked.sequencer.issuer, &api.issuer) {
            api.counted.admissions.foreign.inc();
            let header = api.header_of_now();
            return Ok(Some(response(header, Wire::Foreign(foreign))));
        }
        let Some((weighed, applied)) = api.weigh(asked) else {
            return Ok(None);
        };
        match settled(weighed) {
            Some(outcome @ (AdmitOutcome::Stale { .. } | AdmitOutcome::TooManyMarks { .. })) => {
                api.admission(asked, outcome, applied).map(Some)
            }
            _ => Ok(None),
        }
    }

    async fn lead(
        api: &Api,
        asked: &AdmitAsked,
        deadline: Instant,
    ) -> Result<Self::Response, Halt> {
        if let Some(known) = Self::at_hand(api, asked)? {
            return Ok(known);
        }
        // Another node may have been made the leader meanwhile, and the mark have risen there; and a
        // token that nobody has issued as far as is known here may be another leader's.
        let (mut weighed, mut applied) = api.weigh(asked).ok_or(Halt::NotLeader(None))?;
        if weighed != Weighed::Raises {
            api.read_barrier(deadline).await?;
            (weighed, applied) = api.weigh(asked).ok_or(Halt::NotLeader(None))?;
        }
        let (outcome, applied) = match settled(weighed) {
            Some(outcome) => (outcome, applied),
            None => api.raise(asked, deadline).await?,
        };
        Ok(api.admission(asked, outcome, applied)?)
    }

    fn header(response: &mut Self::Response) -> &mut Option<ResponseHeader> {
        &mut response.header
    }
}

/// The answer that needs no entry; `None` if the mark would rise.
fn settled(weighed: Weighed) -> Option<AdmitOutcome> {
    match weighed {
        Weighed::Raises => None,
        Weighed::Equal => Some(AdmitOutcome::Admitted),
        Weighed::Stale { required } => Some(AdmitOutcome::Stale { required }),
        Weighed::Ahead { last_token } => Some(AdmitOutcome::Ahead { last_token }),
        Weighed::TooManyMarks { limit } => Some(AdmitOutcome::TooManyMarks { limit }),
    }
}

fn response(header: ResponseHeader, outcome: Wire) -> v1::AdmitResponse {
    v1::AdmitResponse {
        header: Some(header),
        outcome: Some(outcome),
    }
}

impl Api {
    /// How a token stands in the state here, and how far that has come.
    fn weigh(&self, asked: &AdmitAsked) -> Option<(Weighed, u64)> {
        let sequencer = &asked.sequencer;
        self.raft.state().read(|replica: &Replica| {
            let machine = replica.machine();
            let weighed = machine.weigh(&sequencer.resource, sequencer.token, asked.once);
            (weighed, machine.applied().index)
        })
    }

    /// Raises the mark, if it is still lower when the entry is applied.
    async fn raise(
        &self,
        asked: &AdmitAsked,
        deadline: Instant,
    ) -> Result<(AdmitOutcome, u64), Halt> {
        self.check_space()?;
        let command = Command::Admit(issuer::Admit {
            resource: asked.sequencer.resource.clone(),
            token: asked.sequencer.token,
            once: asked.once,
            stamped_at_ms: clock::wall_ms(),
        });
        let committed = self.proposals.propose(&command, deadline).await?;
        match committed.outcome {
            Outcome::Admit(outcome) => Ok((outcome, committed.at.index)),
            other => Err(mismatched(&other)),
        }
    }

    /// Counts an answer, and spells it.
    fn admission(
        &self,
        asked: &AdmitAsked,
        outcome: AdmitOutcome,
        applied: u64,
    ) -> Result<v1::AdmitResponse, Failure> {
        let counted = &self.counted.admissions;
        let presented = asked.sequencer.token;
        let outcome = match outcome {
            AdmitOutcome::Admitted => {
                counted.admitted.inc();
                Wire::Admitted(v1::Admitted {})
            }
            AdmitOutcome::Stale { required } => {
                counted.stale.inc();
                Wire::Stale(v1::StaleToken {
                    presented: presented.get(),
                    required: required.get(),
                })
            }
            AdmitOutcome::Ahead { last_token } => {
                counted.ahead.inc();
                Wire::Ahead(self.never_issued(&asked.sequencer, last_token, ahead::Via::Admit))
            }
            AdmitOutcome::TooManyMarks { limit } => {
                return Err(Failure::new(
                    Reason::Limit,
                    format!(
                        "the guard register has {limit} marks, as many as it may have, and forgets \
                         none: it has no room for another resource"
                    ),
                ));
            }
        };
        Ok(response(self.header(applied), outcome))
    }
}
