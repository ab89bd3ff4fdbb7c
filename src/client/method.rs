//! The calls of the wire contract, each with the one thing that retrying must know about it.

use super::address::Address;
use super::nodes::Nodes;
use super::pipeline::{Class, Missed};
use crate::wire::v1::pipeline_request::Operation;
use crate::wire::v1::pipeline_response::Answer;
use crate::wire::v1::{self, cluster_client::ClusterClient, guard_client::GuardClient};
use std::time::Duration;

use tokio::time::timeout;
use tonic::{Request, Status};

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

    /// Sends `request` to `address` once, and gives its answer, which takes at most `limit`.
    fn send(
        nodes: &Nodes,
        address: &Address,
        request: Self::Request,
        limit: Duration,
    ) -> impl Future<Output = Result<Self::Response, Missed>> + Send;

    fn header(response: &Self::Response) -> Option<&v1::ResponseHeader>;
}

/// Operations on a [`Lane`](super::pipeline::Lane)'s stream.
macro_rules! operations {
    ($($name:ident = $variant:ident($request:ident) -> $response:ident, $repeat:ident, $call:ident, $class:expr;)*) => {$(
        pub(crate) struct $name;

        impl Method for $name {
            type Request = v1::$request;
            type Response = v1::$response;
            const NAME: &'static str = stringify!($call);
            const REPEAT: Repeat = Repeat::$repeat;

            async fn send(
                nodes: &Nodes,
                address: &Address,
                request: Self::Request,
                limit: Duration,
            ) -> Result<Self::Response, Missed> {
                let class: fn(&Self::Request) -> Class = $class;
                let (class, operation) = (class(&request), Operation::$variant(request));
                match nodes.lane(address).call(class, operation, limit).await? {
                    Answer::$variant(response) => Ok(response),
                    _ => Err(Missed::failed(Status::internal("the answer is that of another operation"))),
                }
            }

            fn header(response: &Self::Response) -> Option<&v1::ResponseHeader> {
                response.header.as_ref()
            }
        }
    )*};
}

operations! {
    Acquire = Acquire(AcquireRequest) -> AcquireResponse, Once, acquire,
        |request| if request.wait_ms == 0 { Class::Ask } else { Class::Wait };
    Renew = Renew(RenewRequest) -> RenewResponse, Once, renew, |_| Class::Keep;
    Release = Release(ReleaseRequest) -> ReleaseResponse, Once, release, |_| Class::Keep;
    Withdraw = Withdraw(WithdrawRequest) -> WithdrawResponse, Once, withdraw, |_| Class::Keep;
    Inspect = Inspect(InspectRequest) -> InspectResponse, Read, inspect, |_| Class::Ask;
    List = List(ListRequest) -> ListResponse, Read, list, |_| Class::Ask;
}

/// Calls of their own: those of operators, and those of guards, which keep no lease.
macro_rules! calls {
    ($client:ident: $($name:ident = $call:ident($request:ident) -> $response:ident, $repeat:ident;)*) => {$(
        pub(crate) struct $name;

        impl Method for $name {
            type Request = v1::$request;
            type Response = v1::$response;
            const NAME: &'static str = stringify!($call);
            const REPEAT: Repeat = Repeat::$repeat;

            async fn send(
                nodes: &Nodes,
                address: &Address,
                request: Self::Request,
                limit: Duration,
            ) -> Result<Self::Response, Missed> {
                let mut request = Request::new(request);
                request.set_timeout(limit);
                let mut client = $client::new(nodes.channel(address));
                match timeout(limit, client.$call(request)).await {
                    Ok(Ok(response)) => Ok(response.into_inner()),
                    Ok(Err(status)) => Err(Missed::failed(status)),
                    Err(_) => Err(Missed::Silent { sent: true }),
                }
            }

            fn header(response: &Self::Response) -> Option<&v1::ResponseHeader> {
                response.header.as_ref()
            }
        }
    )*};
}

calls! {
    ClusterClient:
    ShowStatus = status(StatusRequest) -> StatusResponse, Read;
    Revoke = revoke(RevokeRequest) -> RevokeResponse, Once;
    RaiseFloor = raise_floor(RaiseFloorRequest) -> RaiseFloorResponse, Once;
    AddNode = add_node(AddNodeRequest) -> AddNodeResponse, Never;
    Promote = promote(PromoteRequest) -> PromoteResponse, Never;
    RemoveNode = remove_node(RemoveNodeRequest) -> RemoveNodeResponse, Never;
    TransferLeader = transfer_leader(TransferLeaderRequest) -> TransferLeaderResponse, Never;
}

calls! {
    GuardClient:
    Admit = admit(AdmitRequest) -> AdmitResponse, Once;
    // Where each token passes once, a second send is told that the first one has used it up.
    AdmitOnce = admit(AdmitRequest) -> AdmitResponse, Never;
    HighWater = high_water(HighWaterRequest) -> HighWaterResponse, Read;
    Report = report(ReportRequest) -> ReportResponse, Read;
}
