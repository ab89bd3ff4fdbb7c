//! What the leader does for holders.

mod acquire;
mod claims;
mod outcome;
mod read;
mod release;
mod renew;
mod withdraw;

use tonic::{Request, Response, Status, async_trait};

use super::{Api, pipeline::Answers, watch::Watched};
use crate::{
    grant::EndedHow,
    token::TokenValue,
    wire::v1::{self, issuer_server::Issuer},
};

pub(super) use acquire::Acquire;
pub(super) use read::{Inspect, List};
pub(super) use release::Release;
pub(super) use renew::Renew;
pub(super) use withdraw::Withdraw;

#[async_trait]
impl Issuer for Api {
    async fn acquire(
        &self,
        request: Request<v1::AcquireRequest>,
    ) -> Result<Response<v1::AcquireResponse>, Status> {
        self.call::<Acquire>(request).await
    }

    async fn renew(
        &self,
        request: Request<v1::RenewRequest>,
    ) -> Result<Response<v1::RenewResponse>, Status> {
        self.call::<Renew>(request).await
    }

    async fn release(
        &self,
        request: Request<v1::ReleaseRequest>,
    ) -> Result<Response<v1::ReleaseResponse>, Status> {
        self.call::<Release>(request).await
    }

    async fn inspect(
        &self,
        request: Request<v1::InspectRequest>,
    ) -> Result<Response<v1::InspectResponse>, Status> {
        self.call::<Inspect>(request).await
    }

    async fn list(
        &self,
        request: Request<v1::ListRequest>,
    ) -> Result<Response<v1::ListResponse>, Status> {
        self.call::<List>(request).await
    }

    async fn withdraw(
        &self,
        request: Request<v1::WithdrawRequest>,
    ) -> Result<Response<v1::WithdrawResponse>, Status> {
        self.call::<Withdraw>(request).await
    }

    type PipelineStream = Answers;

    async fn pipeline(
        &self,
        request: Request<tonic::Streaming<v1::PipelineRequest>>,
    ) -> Result<Response<Self::PipelineStream>, Status> {
        Ok(Response::new(self.serve_pipeline(request.into_inner())))
    }

    type WatchStream = Watched;

    async fn watch(
        &self,
        request: Request<v1::WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        self.open_watch(request).await
    }
}

/// How a grant ended, for a caller who named it by its value alone: term and index are not told.
pub(super) fn ended(token: TokenValue, how: EndedHow) -> v1::Ended {
    v1::Ended {
        token: Some(v1::Token {
            value: token.get(),
            ..v1::Token::default()
        }),
        how: v1::EndedHow::from(how).into(),
    }
}
