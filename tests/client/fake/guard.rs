//! The guard register of the node: it admits everything, unless the script says otherwise.

use fencepost::wire::v1::guard_server::Guard;
use fencepost::wire::v1::*;
use tonic::{Request, Response, Status};

use super::{Act, Node};

fn ahead(presented: u64) -> AheadToken {
    AheadToken {
        presented,
        last_token: 7,
        advice: "do something about it".to_owned(),
    }
}

#[tonic::async_trait]
impl Guard for Node {
    /// `Held` is stale, and `Unknown` was never issued.
    async fn admit(
        &self,
        request: Request<AdmitRequest>,
    ) -> Result<Response<AdmitResponse>, Status> {
        use admit_response::Outcome;
        let presented = request.get_ref().token;
        let (header, act) = self.enter("admit", &request).await?;
        let outcome = match act {
            _ if request.get_ref().issuer != "test" => Outcome::Foreign(ForeignToken {
                expected_issuer: "test".to_owned(),
            }),
            Act::Held => Outcome::Stale(StaleToken {
                presented,
                required: presented + 5,
            }),
            Act::Unknown => Outcome::Ahead(ahead(presented)),
            _ => Outcome::Admitted(Admitted {}),
        };
        Ok(Response::new(AdmitResponse {
            header: Some(header),
            outcome: Some(outcome),
        }))
    }

    async fn high_water(
        &self,
        request: Request<HighWaterRequest>,
    ) -> Result<Response<HighWaterResponse>, Status> {
        let (header, act) = self.enter("high_water", &request).await?;
        Ok(Response::new(HighWaterResponse {
            header: Some(header),
            mark: (!matches!(act, Act::Unknown)).then_some(12),
        }))
    }

    async fn report(
        &self,
        request: Request<ReportRequest>,
    ) -> Result<Response<ReportResponse>, Status> {
        use report_response::Outcome;
        let presented = request.get_ref().token;
        let (header, act) = self.enter("report", &request).await?;
        let outcome = match act {
            Act::Unknown => Outcome::Ahead(ahead(presented)),
            _ => Outcome::Fine(FineToken { last_token: 12 }),
        };
        Ok(Response::new(ReportResponse {
            header: Some(header),
            outcome: Some(outcome),
        }))
    }
}
