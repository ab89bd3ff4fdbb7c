//! Calls on one node, through the code that is generated from the protos and nothing else: the
//! client library, with its own retries, would hide what a node really answers.

use std::{net::SocketAddr, time::Duration};

use fencepost::wire::v1::{
    AcquireRequest, AcquireResponse, InspectRequest, InspectResponse, ReleaseRequest,
    ReleaseResponse, RenewItem, RenewRequest, RenewResponse, RevokeRequest, RevokeResponse,
    StatusRequest, StatusResponse, cluster_client::ClusterClient, issuer_client::IssuerClient,
};
use tonic::{
    Request, Status,
    transport::{Channel, Endpoint},
};

/// A lazy connection to one node; cheap to clone.
#[derive(Clone)]
pub(crate) struct Calls {
    channel: Channel,
    /// The deadline of each call.
    deadline: Duration,
}

impl Calls {
    pub(crate) fn to(address: SocketAddr, deadline: Duration) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{address}")).unwrap();
        let channel = endpoint.connect_timeout(deadline).connect_lazy();
        Self { channel, deadline }
    }

    /// Bounds a call on both sides: the node by the header, the caller by its own timer, since a
    /// stopped node answers nothing at all.
    async fn bounded<A, R>(
        &self,
        message: A,
        call: impl AsyncFnOnce(Request<A>) -> Result<tonic::Response<R>, Status>,
    ) -> Result<R, Status> {
        let mut request = Request::new(message);
        request.set_timeout(self.deadline);
        match tokio::time::timeout(self.deadline, call(request)).await {
            Ok(answer) => answer.map(tonic::Response::into_inner),
            Err(_) => Err(Status::deadline_exceeded(
                "no answer in the caller's own time",
            )),
        }
    }

    fn issuer(&self) -> IssuerClient<Channel> {
        IssuerClient::new(self.channel.clone())
    }

    pub(crate) async fn acquire(&self, message: AcquireRequest) -> Result<AcquireResponse, Status> {
        self.bounded(message, async |request| {
            self.issuer().acquire(request).await
        })
        .await
    }

    pub(crate) async fn renew(&self, item: RenewItem) -> Result<RenewResponse, Status> {
        let message = RenewRequest { items: vec![item] };
        self.bounded(message, async |request| self.issuer().renew(request).await)
            .await
    }

    pub(crate) async fn release(&self, message: ReleaseRequest) -> Result<ReleaseResponse, Status> {
        self.bounded(message, async |request| {
            self.issuer().release(request).await
        })
        .await
    }

    pub(crate) async fn revoke(&self, message: RevokeRequest) -> Result<RevokeResponse, Status> {
        let mut cluster = ClusterClient::new(self.channel.clone());
        self.bounded(message, async |request| cluster.revoke(request).await)
            .await
    }

    pub(crate) async fn inspect(&self, resource: &str) -> Result<InspectResponse, Status> {
        let message = InspectRequest {
            resource: resource.into(),
            ..InspectRequest::default()
        };
        self.bounded(message, async |request| {
            self.issuer().inspect(request).await
        })
        .await
    }

    pub(crate) async fn status(&self) -> Result<StatusResponse, Status> {
        let mut cluster = ClusterClient::new(self.channel.clone());
        self.bounded(StatusRequest {}, async |request| {
            cluster.status(request).await
        })
        .await
    }
}
