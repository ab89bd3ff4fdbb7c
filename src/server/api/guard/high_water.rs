//! HighWater: a mark, for those who watch over guards.

use std::time::Instant;

use crate::{
    issuer::Replica,
    resource::ResourceName,
    server::api::{
        Api,
        asked::resource,
        method::{Halt, Method},
    },
    wire::{
        failure::Failure,
        v1::{self, ResponseHeader},
    },
};

/// `Guard.HighWater`.
#[derive(Debug)]
pub(in crate::server::api) struct HighWater;

impl Method for HighWater {
    const PATH: &'static str = "/fencepost.v1.Guard/HighWater";
    const NAME: &'static str = "HighWater";
    type Request = v1::HighWaterRequest;
    type Response = v1::HighWaterResponse;
    type Asked = ResourceName;

    fn read(request: &Self::Request) -> Result<ResourceName, Failure> {
        resource("", &request.resource)
    }

    async fn lead(
        api: &Api,
        resource: &ResourceName,
        deadline: Instant,
    ) -> Result<Self::Response, Halt> {
        api.read_barrier(deadline).await?;
        let look = |replica: &Replica| {
            let machine = replica.machine();
            (machine.high_water(resource), machine.applied().index)
        };
        let (mark, applied) = api.raft.state().read(look).unwrap_or_default();
        Ok(v1::HighWaterResponse {
            header: Some(api.header(applied)),
            mark: mark.map(|token| token.get()),
        })
    }

    fn header(response: &mut Self::Response) -> &mut Option<ResponseHeader> {
        &mut response.header
    }
}
