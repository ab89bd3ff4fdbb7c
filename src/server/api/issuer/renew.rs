//! Renew: each item gets its own outcome, and stale ones do not fail the others.

use std::time::Instant;

use super::{claims::Standing, ended};
use crate::{
    issuer::RenewOutcome,
    server::api::{
        Api,
        asked::{self, RenewAsked},
        calls::Kind,
        method::{Halt, Method},
    },
    token::TokenValue,
    wire::{
        failure::Failure,
        v1::{self, ResponseHeader, renew_outcome::Outcome as Wire},
    },
};

/// `Issuer.Renew`.
#[derive(Debug)]
pub(in crate::server::api) struct Renew;

impl Method for Renew {
    const PATH: &'static str = "/fencepost.v1.Issuer/Renew";
    const NAME: &'static str = "Renew";
    const KIND: Kind = Kind::Keeps;
    type Request = v1::RenewRequest;
    type Response = v1::RenewResponse;
    type Asked = Vec<RenewAsked>;

    fn read(request: &Self::Request) -> Result<Self::Asked, Failure> {
        asked::renew(request)
    }

    async fn lead(
        api: &Api,
        asked: &Self::Asked,
        deadline: Instant,
    ) -> Result<Self::Response, Halt> {
        let claims: Vec<_> = asked.iter().map(|asked| &asked.claim).collect();
        let standings = api.judge(&claims, deadline).await?;
        let live = asked
            .iter()
            .zip(&standings)
            .filter(|(_, standing)| **standing == Standing::Live)
            .map(|(asked, _)| asked.renewal)
            .collect::<Vec<_>>();
        let applied = if live.is_empty() {
            Vec::new()
        } else {
            api.renewals.renew(live, deadline).await?
        };
        let mut applied = applied.into_iter();
        let outcomes = asked.iter().zip(standings).map(|(asked, standing)| {
            let outcome = match standing {
                Standing::Live => applied.next().unwrap_or(RenewOutcome::Unknown),
                Standing::Ended(how) => RenewOutcome::Ended { how },
                Standing::Unknown => RenewOutcome::Unknown,
            };
            api.renewed(asked.claim.token, outcome)
        });
        Ok(v1::RenewResponse {
            outcomes: outcomes.collect(),
            header: Some(api.header_of_now()),
        })
    }

    fn header(response: &mut Self::Response) -> &mut Option<ResponseHeader> {
        &mut response.header
    }
}

impl Api {
    fn renewed(&self, token: TokenValue, outcome: RenewOutcome) -> v1::RenewOutcome {
        let counted = &self.counted.renewals;
        let outcome = match outcome {
            RenewOutcome::Renewed { lease, .. } => {
                counted.done.inc();
                Wire::Renewed(v1::Renewed {
                    lease_ms: lease.as_ms(),
                })
            }
            RenewOutcome::Ended { how } => {
                counted.ended.inc();
                Wire::Ended(ended(token, how))
            }
            RenewOutcome::Unknown => {
                counted.unknown.inc();
                Wire::Unknown(v1::Unknown {})
            }
        };
        v1::RenewOutcome {
            outcome: Some(outcome),
        }
    }
}
