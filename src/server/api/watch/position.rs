//! Where the cluster is now: what a watch "from now on" begins behind.

use std::time::Instant;

use crate::{
    server::api::{
        Api,
        method::{Halt, Method},
    },
    wire::{
        failure::Failure,
        v1::{self, ResponseHeader},
    },
};

/// A watch that another node passes on to the leader. It is answered with one mark of progress behind a
/// read barrier, so everything that was acknowledged before lies before it; the events themselves the
/// other node has, or will have, by itself.
#[derive(Debug)]
pub(in crate::server::api) struct Position;

impl Method for Position {
    const PATH: &'static str = "/fencepost.v1.Issuer/Watch";
    const NAME: &'static str = "Watch";
    type Request = v1::WatchRequest;
    type Response = v1::WatchResponse;
    type Asked = ();

    fn read(_: &Self::Request) -> Result<(), Failure> {
        Ok(())
    }

    async fn lead(api: &Api, (): &(), deadline: Instant) -> Result<Self::Response, Halt> {
        api.read_barrier(deadline).await?;
        let header = api.header_of_now();
        Ok(v1::WatchResponse {
            cursor: Some(v1::Cursor {
                cluster_id: header.cluster_id.clone(),
                index: header.applied_index,
            }),
            header: Some(header),
            events: Vec::new(),
        })
    }

    fn header(response: &mut Self::Response) -> &mut Option<ResponseHeader> {
        &mut response.header
    }
}
