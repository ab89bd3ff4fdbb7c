//! The cluster's own guard register, and what its issuer is told of tokens.
//!
//! Most presented tokens are at the mark of their resource or below it, and neither costs a log entry. A
//! lower one is answered from this node's own state, whoever leads: marks only rise, so what was stale
//! once is stale for ever. One at the mark is answered by the leader behind a read barrier. Only a token
//! that would raise the mark is proposed, and may be told to come back later.

mod admit;
mod ahead;
mod asked;
mod high_water;
mod report;

use tonic::{Request, Response, Status, async_trait};

use super::Api;
use crate::wire::v1::{self, guard_server::Guard};

pub(super) use admit::Admit;
pub(super) use ahead::Alarm;
pub(super) use high_water::HighWater;
pub(super) use report::Report;

#[async_trait]
impl Guard for Api {
    async fn admit(
        &self,
        request: Request<v1::AdmitRequest>,
    ) -> Result<Response<v1::AdmitResponse>, Status> {
        self.call::<Admit>(request).await
    }

    async fn high_water(
        &self,
        request: Request<v1::HighWaterRequest>,
    ) -> Result<Response<v1::HighWaterResponse>, Status> {
        self.call::<HighWater>(request).await
    }

    async fn report(
        &self,
        request: Request<v1::ReportRequest>,
    ) -> Result<Response<v1::ReportResponse>, Status> {
        self.call::<Report>(request).await
    }
}
