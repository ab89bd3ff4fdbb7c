//! The calls of the wire contract, each with the one thing that retrying must know about it.

use crate::wire::v1::{self, cluster_client::ClusterClient, issuer_client::IssuerClient};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};

/// What may be done when nobody knows whether a send took effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// It changes nothing: send again, and a failure never had an effect.
    Read,
    /// Sends of it have one effect together (by request id, by token, or because it is absolute): send
    /// again.
    Once,
    /// A second send may be answered by the effect of the first: leave it to the person who asked.
    Never,
}

/// One call of the contract.
pub(crate) trait Method {
    type Request: Send + 'static;
    type Response: Send + 'static;
    const NAME: &'static str;
    const REPEAT: Repeat;

    fn send(
        channel: Channel,
        request: Request<Self::Request>,
    ) -> impl Future<Output = Result<Response<Self::Response>, Status>> + Send;

    fn header(response: &Self::Response) -> Option<&v1::ResponseHeader>;
}

macro_rules! methods {
    ($($name:ident = $client:ident.$call:ident($request:ident) -> $response:ident, $repeat:ident;)*) => {$(
        pub(crate) struct $name;

        impl Method for $name {
            type Request = v1::$request;
            type Response = v1::$response;
            const NAME: &'static str = stringify!($call);
            const REPEAT: Repeat = Repeat::$repeat;

            async fn send(
                channel: Channel,
                request: Request<Self::Request>,
            ) -> Result<Response<Self::Response>, Status> {
                $client::new(channel).$call(request).await
            }

            fn header(response: &Self::Response) -> Option<&v1::ResponseHeader> {
                response.header.as_ref()
            }
        }
    )*};
}

methods! {
    Acquire = IssuerClient.acquire(AcquireRequest) -> AcquireResponse, Once;
    Renew = IssuerClient.renew(RenewRequest) -> RenewResponse, Once;
    Release = IssuerClient.release(ReleaseRequest) -> ReleaseResponse, Once;
    Inspect = IssuerClient.inspect(InspectRequest) -> InspectResponse, Read;
    List = IssuerClient.list(ListRequest) -> ListResponse, Read;
    ShowStatus = ClusterClient.status(StatusRequest) -> StatusResponse, Read;
    Revoke = ClusterClient.revoke(RevokeRequest) -> RevokeResponse, Once;
    RaiseFloor = ClusterClient.raise_floor(RaiseFloorRequest) -> RaiseFloorResponse, Once;
    AddNode = ClusterClient.add_node(AddNodeRequest) -> AddNodeResponse, Never;
    Promote = ClusterClient.promote(PromoteRequest) -> PromoteResponse, Never;
    RemoveNode = ClusterClient.remove_node(RemoveNodeRequest) -> RemoveNodeResponse, Never;
    TransferLeader = ClusterClient.transfer_leader(TransferLeaderRequest) -> TransferLeaderResponse, Never;
}
