//! Inspect and List: the state as it is behind a read barrier.

use std::time::Instant;

use crate::{
    issuer::{Holding, Replica},
    resource::ResourceName,
    server::{
        api::{
            Api,
            asked::{self, InspectAsked, ListAsked},
            method::{Halt, Method},
        },
        clock,
    },
    wire::{
        failure::Failure,
        v1::{self, ResponseHeader},
    },
};

/// `Issuer.Inspect`.
#[derive(Debug)]
pub(in crate::server::api) struct Inspect;

impl Method for Inspect {
    const PATH: &'static str = "/fencepost.v1.Issuer/Inspect";
    const NAME: &'static str = "Inspect";
    type Request = v1::InspectRequest;
    type Response = v1::InspectResponse;
    type Asked = InspectAsked;

    fn read(request: &Self::Request) -> Result<InspectAsked, Failure> {
        asked::inspect(request)
    }

    async fn lead(
        api: &Api,
        asked: &InspectAsked,
        deadline: Instant,
    ) -> Result<Self::Response, Halt> {
        api.read_barrier(deadline).await?;
        let now = clock::now();
        let InspectAsked { resource, holder } = asked;
        let look = |replica: &Replica| {
            let machine = replica.machine();
            let place = |holder| machine.position(resource, holder);
            let seen = v1::InspectResponse {
                header: None,
                grant: replica.holding(resource, now).map(grant),
                queue: machine.queue_len(resource),
                position: holder.as_ref().and_then(place).unwrap_or_default(),
            };
            // From the same look: a watch that goes on from it must miss nothing.
            (seen, machine.applied().index)
        };
        let (seen, applied) = api.raft.state().read(look).unwrap_or_default();
        Ok(v1::InspectResponse {
            header: Some(api.header(applied)),
            ..seen
        })
    }

    fn header(response: &mut Self::Response) -> &mut Option<ResponseHeader> {
        &mut response.header
    }
}

/// `Issuer.List`.
#[derive(Debug)]
pub(in crate::server::api) struct List;

impl Method for List {
    const PATH: &'static str = "/fencepost.v1.Issuer/List";
    const NAME: &'static str = "List";
    type Request = v1::ListRequest;
    type Response = v1::ListResponse;
    type Asked = ListAsked;

    fn read(request: &Self::Request) -> Result<ListAsked, Failure> {
        asked::list(request)
    }

    async fn lead(api: &Api, asked: &ListAsked, deadline: Instant) -> Result<Self::Response, Halt> {
        api.read_barrier(deadline).await?;
        let now = clock::now();
        // Index and grants belong together: whoever watches from this index on must miss nothing.
        let look = |replica: &Replica| {
            let applied = replica.machine().applied().index;
            (applied, page(replica, asked, now))
        };
        let (applied, page) = api.raft.state().read(look).unwrap_or_default();
        let (grants, next_page_token) = page;
        Ok(v1::ListResponse {
            header: Some(api.header(applied)),
            grants,
            next_page_token,
        })
    }

    fn header(response: &mut Self::Response) -> &mut Option<ResponseHeader> {
        &mut response.header
    }
}

fn page(replica: &Replica, asked: &ListAsked, now: Instant) -> (Vec<v1::Grant>, String) {
    let after = asked.after.as_ref().map(ResourceName::as_str);
    let page = replica
        .machine()
        .list(&asked.prefix, after, asked.page_size);
    let next = match page.grants.last() {
        Some(last) if page.more => last.resource.percent_encoded(),
        _ => String::new(),
    };
    let grants = page.grants.into_iter();
    let grants = grants.map(|held| grant(replica.with_remaining(held, now)));
    (grants.collect(), next)
}

fn grant(holding: Holding<'_>) -> v1::Grant {
    let Holding { grant, remaining } = holding;
    v1::Grant {
        resource: grant.resource.to_string(),
        holder: grant.holder.to_string(),
        token: Some(grant.token.into()),
        ttl_ms: grant.ttl.as_ms(),
        remaining_ms: clock::whole_ms(remaining),
        renewals: grant.renewals,
        granted_at_unix_ms: grant.granted_at_ms,
        expires_at_unix_ms: grant.expires_at_ms,
    }
}
