//! A gRPC service behind the layer, over real sockets, held to the whole promise; and two that are
//! wrong, which are caught.
//!
//! Its one method takes the resource and the value in its message. The layer reads no messages, so
//! the client names the resource in its metadata, too, as for a router, and that binds the door.

use std::sync::Arc;

use axum::http::{HeaderMap, request::Parts};
use fencepost::{
    fence::{
        EqualTokens,
        conformance::{
            Answer, Case, Contents, Fault, Handle, Place, Profile, Settings, Steps, Subject, Write,
            check_only,
        },
        fenced::Applied,
        http::{GuardLayer, StaleAnswer},
        memory::MemoryGuard,
    },
    resource::ResourceName,
    sequencer::{MissingIssuer, Sequencer, headers},
};
use tonic::{
    Code, Extensions, Request, Response, Status, client::Grpc, metadata::MetadataMap,
    transport::Channel,
};

use super::{
    ours::{BOTH, bank, conforms, profile, rules},
    service::Behind,
};
use crate::http::scene::{Served, call_by_grpc};

/// Names the resource of the message, percent-encoded.
const TARGET: &str = "target-resource";

struct Service {
    equal: EqualTokens,
    missing: MissingIssuer,
    /// Whether the write behind the door carries the token.
    fenced: bool,
    /// Whether the door asks what the call is about.
    bound: bool,
}

struct ServicePlace {
    served: Served,
    behind: Arc<Behind>,
}

/// One client with a connection of its own; it reads from the store, as the service has no method for
/// that.
struct ServiceHandle {
    client: Grpc<Channel>,
    behind: Arc<Behind>,
}

/// The value, a blank, and the resource, which may have blanks itself.
fn parsed(message: &str) -> Option<(u32, ResourceName)> {
    let (value, resource) = message.split_once(' ')?;
    Some((value.parse().ok()?, ResourceName::new(resource).ok()?))
}

async fn write(behind: Arc<Behind>, request: Request<String>) -> Result<Response<String>, Status> {
    let admitted = request.extensions().get::<Sequencer>();
    let admitted = admitted.ok_or_else(|| Status::internal("the layer is missing"))?;
    let malformed = || Status::invalid_argument("the message is a value, a blank and a resource");
    let (value, resource) = parsed(request.get_ref()).ok_or_else(malformed)?;
    match behind.write(&resource, value, admitted).await {
        Applied::Accepted => Ok(Response::new(String::new())),
        Applied::Stale {
            presented,
            required,
        } => {
            let stale = StaleAnswer {
                presented,
                required,
            };
            let metadata = MetadataMap::from_headers(stale.to_metadata());
            let code = Code::FailedPrecondition;
            Err(Status::with_metadata(code, stale.to_string(), metadata))
        }
        Applied::Foreign(foreign) => Err(Status::permission_denied(foreign.to_string())),
    }
}

impl Subject for Service {
    type Place = ServicePlace;

    fn profile(&self) -> Profile {
        let name = format!("a gRPC service, {:?}, {:?}", self.equal, self.missing);
        profile(&name, self.equal)
            .missing_issuer(self.missing)
            .names_target_apart()
            .guards_its_door()
            .without_marks()
    }

    async fn place(&self) -> Result<ServicePlace, Fault> {
        let behind = Behind::new(self.fenced, self.equal);
        let layer = GuardLayer::new(MemoryGuard::new(rules(self.equal)), bank())
            .missing_issuer(self.missing);
        let target = |request: &Parts| {
            let target = request.headers.get(TARGET)?.to_str().ok()?;
            ResourceName::from_percent_encoded(target).ok()
        };
        let layer = match self.bound {
            true => layer.bound_to(target),
            false => layer,
        };
        let stored = Arc::clone(&behind);
        let handler = move |request| write(Arc::clone(&stored), request);
        let served = Served::grpc(layer, handler).await;
        Ok(ServicePlace { served, behind })
    }
}

impl Place for ServicePlace {
    type Handle = ServiceHandle;

    async fn open(&self) -> Result<ServiceHandle, Fault> {
        let channel = Channel::from_shared(self.served.url(""))?.connect().await?;
        Ok(ServiceHandle {
            client: Grpc::new(channel),
            behind: Arc::clone(&self.behind),
        })
    }
}

impl Handle for ServiceHandle {
    async fn write(&mut self, write: &Write, _: &mut Steps) -> Result<Answer, Fault> {
        let presented = &write.presented;
        let mut sent = HeaderMap::new();
        sent.insert(headers::FENCING_TOKEN, presented.token.get().into());
        let resource = presented.resource.header_encoded().to_string();
        sent.insert(headers::RESOURCE_ID, resource.parse()?);
        if let Some(issuer) = &presented.issuer {
            let issuer = issuer.header_encoded().to_string();
            sent.insert(headers::FENCING_ISSUER, issuer.parse()?);
        }
        sent.insert(
            TARGET,
            write.resource.percent_encoded().to_string().parse()?,
        );
        let message = format!("{} {}", write.value, write.resource);
        let metadata = MetadataMap::from_headers(sent);
        let request = Request::from_parts(metadata, Extensions::default(), message);
        let Err(status) = call_by_grpc(&mut self.client, request).await else {
            return Ok(Answer::Admitted);
        };
        match status.code() {
            Code::InvalidArgument => Ok(Answer::Invalid),
            Code::PermissionDenied => Ok(Answer::Foreign),
            Code::FailedPrecondition => {
                let stale = StaleAnswer::in_metadata(status.metadata().as_ref());
                let required = Some(stale.ok_or("no required token")?.required);
                Ok(Answer::Stale { required })
            }
            _ => Err(status.into()),
        }
    }

    async fn read(&mut self, resource: &ResourceName) -> Result<Contents, Fault> {
        let value = self.behind.read(resource).await;
        Ok(Contents { value, mark: None })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grpc_service_whose_writes_carry_the_token_conforms() {
    for (equal, missing) in BOTH
        .into_iter()
        .zip([MissingIssuer::Refuse, MissingIssuer::Accept])
    {
        let service = Service {
            equal,
            missing,
            fenced: true,
            bound: true,
        };
        let untried = [
            Case::Restart,
            Case::InterleavedWrites,
            Case::CrashBetweenCheckAndWrite,
            Case::RestoredBackup,
        ];
        conforms(&service, &untried).await;
    }
}

/// Admitted at the door and written later; or admitted for one resource, and compared with its mark
/// alone, while the message is about another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_grpc_service_with_half_a_guard_is_caught() {
    for (fenced, bound, case) in [
        (false, true, Case::ConcurrentWriters),
        (false, false, Case::ForeignResource),
    ] {
        let service = Service {
            equal: EqualTokens::MayWriteAgain,
            missing: MissingIssuer::Refuse,
            fenced,
            bound,
        };
        let report = check_only(&service, &Settings::default().rounds(100), &[case]).await;
        assert_eq!(report.broken(), [case], "{report}");
    }
}
