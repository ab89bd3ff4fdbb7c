//! Report: a guard tells the issuer how high it has come.

use std::time::Instant;

use super::{ahead::Via, asked};
use crate::{
    issuer::Replica,
    sequencer::Sequencer,
    server::api::{
        Api,
        method::{Halt, Method},
    },
    wire::{
        failure::Failure,
        v1::{self, ResponseHeader, report_response::Outcome as Wire},
    },
};

/// `Guard.Report`.
#[derive(Debug)]
pub(in crate::server::api) struct Report;

impl Method for Report {
    const PATH: &'static str = "/fencepost.v1.Guard/Report";
    const NAME: &'static str = "Report";
    type Request = v1::ReportRequest;
    type Response = v1::ReportResponse;
    type Asked = Sequencer;

    fn read(request: &Self::Request) -> Result<Sequencer, Failure> {
        asked::report(request)
    }

    /// Tokens only rise, so one that is accounted for here is so everywhere, now and later.
    fn at_hand(api: &Api, sequencer: &Sequencer) -> Result<Option<Self::Response>, Failure> {
        if let Some(foreign) = asked::foreign(&sequencer.issuer, &api.issuer) {
            let header = api.header_of_now();
            return Ok(Some(response(header, Wire::Foreign(foreign))));
        }
        Ok(match api.accounts(sequencer) {
            Some(Accounts {
                covered: true,
                last_token,
                applied,
            }) => {
                let fine = Wire::Fine(v1::FineToken { last_token });
                Some(response(api.header(applied), fine))
            }
            _ => None,
        })
    }

    async fn lead(
        api: &Api,
        sequencer: &Sequencer,
        deadline: Instant,
    ) -> Result<Self::Response, Halt> {
        if let Some(known) = Self::at_hand(api, sequencer)? {
            return Ok(known);
        }
        // A node that lags, or a leader that was deposed and does not know it yet, must raise no alarm.
        api.read_barrier(deadline).await?;
        let accounts = api.accounts(sequencer).ok_or(Halt::NotLeader(None))?;
        let last_token = accounts.last_token;
        let outcome = if accounts.covered {
            Wire::Fine(v1::FineToken { last_token })
        } else {
            Wire::Ahead(api.never_issued(sequencer, last_token, Via::Report))
        };
        Ok(response(api.header(accounts.applied), outcome))
    }

    fn header(response: &mut Self::Response) -> &mut Option<ResponseHeader> {
        &mut response.header
    }
}

fn response(header: ResponseHeader, outcome: Wire) -> v1::ReportResponse {
    v1::ReportResponse {
        header: Some(header),
        outcome: Some(outcome),
    }
}

/// What the state here knows of a token.
struct Accounts {
    covered: bool,
    last_token: u64,
    applied: u64,
}

impl Api {
    fn accounts(&self, sequencer: &Sequencer) -> Option<Accounts> {
        self.raft.state().read(|replica: &Replica| {
            let machine = replica.machine();
            Accounts {
                covered: machine.accounts_for(sequencer.token),
                last_token: machine.last_token().map_or(0, |token| token.get()),
                applied: machine.applied().index,
            }
        })
    }
}
