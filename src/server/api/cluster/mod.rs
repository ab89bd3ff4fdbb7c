//! What operators ask of a cluster.

mod grants;
mod members;
mod status;

use tonic::{Request, Response, Status, async_trait};

use super::Api;
use crate::wire::v1::{self, cluster_server::Cluster};

pub(super) use grants::{RaiseFloor, Revoke};
pub(super) use members::{AddNode, Promote, RemoveNode, TransferLeader};

#[async_trait]
impl Cluster for Api {
    async fn status(
        &self,
        _request: Request<v1::StatusRequest>,
    ) -> Result<Response<v1::StatusResponse>, Status> {
        Ok(Response::new(self.status()))
    }

    async fn revoke(
        &self,
        request: Request<v1::RevokeRequest>,
    ) -> Result<Response<v1::RevokeResponse>, Status> {
        self.call::<Revoke>(request).await
    }

    async fn raise_floor(
        &self,
        request: Request<v1::RaiseFloorRequest>,
    ) -> Result<Response<v1::RaiseFloorResponse>, Status> {
        self.call::<RaiseFloor>(request).await
    }

    async fn add_node(
        &self,
        request: Request<v1::AddNodeRequest>,
    ) -> Result<Response<v1::AddNodeResponse>, Status> {
        self.call::<AddNode>(request).await
    }

    async fn promote(
        &self,
        request: Request<v1::PromoteRequest>,
    ) -> Result<Response<v1::PromoteResponse>, Status> {
        self.call::<Promote>(request).await
    }

    async fn remove_node(
        &self,
        request: Request<v1::RemoveNodeRequest>,
    ) -> Result<Response<v1::RemoveNodeResponse>, Status> {
        self.call::<RemoveNode>(request).await
    }

    async fn transfer_leader(
        &self,
        request: Request<v1::TransferLeaderRequest>,
    ) -> Result<Response<v1::TransferLeaderResponse>, Status> {
        self.call::<TransferLeader>(request).await
    }
}
