//! Calls on one node, through the code that is generated from the protos and nothing else: the
//! client library, with its own retries, would hide what a node really answers.

use std::{net::SocketAddr, time::Duration};

use fencepost::wire::v1::{
    AcquireRequest, AcquireResponse, AdmitRequest, AdmitResponse, InspectRequest, InspectResponse,
    ReleaseRequest, ReleaseResponse, RenewItem, RenewRequest, RenewResponse, RevokeRequest,
    RevokeResponse, StatusRequest, StatusResponse, TransferLeaderRequest, WatchRequest,
    WatchResponse, WithdrawRequest, WithdrawResponse, cluster_client::ClusterClient,
    guard_client::GuardClient, issuer_client::IssuerClient,
};
use tonic::{
    Request, Status, Streaming,
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

    /// The same calls with another deadline.
    pub(crate) fn within(&self, deadline: Duration) -> Self {
        Self {
            channel: self.channel.clone(),
            deadline,
        }
    }

    pub(crate) async fn withdraw(
        &self,
        message: WithdrawRequest,
    ) -> Result<WithdrawResponse, Status> {
        self.bounded(message, async |request| {
            self.issuer().withdraw(request).await
        })
        .await
    }

    /// Opens a watch. Only its opening is bounded; it has no deadline.
    pub(crate) async fn watch(
        &self,
        message: WatchRequest,
    ) -> Result<Streaming<WatchResponse>, Status> {
        let mut issuer = self.issuer();
        match tokio::time::timeout(self.deadline, issuer.watch(message)).await {
            Ok(answer) => answer.map(tonic::Response::into_inner),
            Err(_) => Err(Status::deadline_exceeded(
                "no stream in the caller's own time",
            )),
        }
    }

    pub(crate) async fn renew(&self, item: RenewItem) -> Result<RenewResponse, Status> {
        let message = RenewRequest { items: vec![item] };
        self.bounded(message, async |request| self.issuer().renew(request).await)
            .await
    }

    /// Many renewals in one message.
    pub(crate) async fn renew_all(&self, items: Vec<RenewItem>) -> Result<RenewResponse, Status> {
        self.bounded(RenewRequest { items }, async |request| {
            self.issuer().renew(request).await
        })
        .await
    }

    pub(crate) async fn release(&self, message: ReleaseRequest) -> Result<ReleaseResponse, Status> {
        self.bounded(message, async |request| {
            self.issuer().release(request).await
        })
        .await
    }

    pub(crate) async fn admit(&self, message: AdmitRequest) -> Result<AdmitResponse, Status> {
        let mut guard = GuardClient::new(self.channel.clone());
        self.bounded(message, async |request| guard.admit(request).await)
            .await
    }

    pub(crate) async fn revoke(&self, message: RevokeRequest) -> Result<RevokeResponse, Status> {
        let mut cluster = ClusterClient::new(self.channel.clone());
        self.bounded(message, async |request| cluster.revoke(request).await)
            .await
    }

    /// Hands the lead over to a node; this one must have it.
    pub(crate) async fn transfer_leader(&self, node_id: u64) -> Result<(), Status> {
        let mut cluster = ClusterClient::new(self.channel.clone());
        let message = TransferLeaderRequest { node_id };
        self.bounded(message, async |request| {
            cluster.transfer_leader(request).await
        })
        .await
        .map(|_| ())
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

    /// Where a holder stands in line, 0 if it does not, and how many do.
    pub(crate) async fn place(&self, resource: &str, holder: &str) -> Result<(u32, u32), Status> {
        let message = InspectRequest {
            resource: resource.into(),
            holder: holder.into(),
        };
        let answer = self
            .bounded(message, async |request| {
                self.issuer().inspect(request).await
            })
            .await?;
        Ok((answer.position, answer.queue))
    }

    pub(crate) async fn status(&self) -> Result<StatusResponse, Status> {
        let mut cluster = ClusterClient::new(self.channel.clone());
        self.bounded(StatusRequest {}, async |request| {
            cluster.status(request).await
        })
        .await
    }
}
