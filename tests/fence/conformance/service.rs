//! A service behind the HTTP layer, over real sockets, held to the whole promise; and one that only
//! guards its door, which is caught.

use std::{collections::BTreeMap, sync::Arc};

use axum::{
    Router,
    extract::{Extension, Path, State},
    http::{Method, Response, StatusCode},
    routing::get,
};
use fencepost::{
    fence::{
        EqualTokens,
        conformance::{
            Answer, Case, Contents, Fault, Handle, Place, Profile, Settings, Steps, Subject, Write,
            check_only,
        },
        fenced::{Applied, FencedResource},
        http::{GuardLayer, StaleAnswer},
        memory::{MemoryGuard, MemoryStore},
    },
    resource::ResourceName,
    sequencer::{MissingIssuer, Sequencer, headers},
    token::TokenValue,
};
use http_body_util::Full;
use tokio::sync::Mutex;

use super::ours::{BOTH, bank, conforms, profile, rules};
use crate::http::scene::{Plain, Served, plain, whole};

/// What stands behind the door.
pub(super) enum Behind {
    /// A store that is fenced itself: the write carries the token.
    Fenced(FencedResource<MemoryStore<u32>>),
    /// Numbers that are written some time after the door let the request in.
    Plain(Mutex<BTreeMap<ResourceName, u32>>),
}

impl Behind {
    pub(super) fn new(fenced: bool, equal: EqualTokens) -> Arc<Self> {
        Arc::new(match fenced {
            true => Self::Fenced(FencedResource::new(MemoryStore::new(), rules(equal))),
            false => Self::Plain(Mutex::default()),
        })
    }

    pub(super) async fn write(
        &self,
        resource: &ResourceName,
        value: u32,
        admitted: &Sequencer,
    ) -> Applied {
        match self {
            Self::Fenced(values) => values.apply(resource, &value, admitted).await.unwrap(),
            Self::Plain(values) => {
                // Every other write is slow on its way from the door to the store.
                for _ in 0..if value.is_multiple_of(2) { 0 } else { 100 } {
                    tokio::task::yield_now().await;
                }
                values.lock().await.insert(resource.clone(), value);
                Applied::Accepted
            }
        }
    }

    pub(super) async fn read(&self, resource: &ResourceName) -> Option<u32> {
        match self {
            Self::Fenced(values) => values.store().read(resource).and_then(|(value, _)| value),
            Self::Plain(values) => values.lock().await.get(resource).copied(),
        }
    }
}

struct Service {
    equal: EqualTokens,
    missing: MissingIssuer,
    fenced: bool,
}

struct ServicePlace {
    served: Served,
}

/// One client with connections of its own.
struct ServiceHandle {
    client: Plain,
    url: String,
}

type Shared = State<Arc<Behind>>;

async fn put(
    State(behind): Shared,
    Extension(admitted): Extension<Sequencer>,
    value: String,
) -> Response<String> {
    let value: u32 = value.parse().unwrap();
    let applied = behind.write(&admitted.resource, value, &admitted).await;
    match applied {
        Applied::Accepted => Response::default(),
        Applied::Stale {
            presented,
            required,
        } => StaleAnswer {
            presented,
            required,
        }
        .to_response(),
        Applied::Foreign(foreign) => panic!("it came through the door: {foreign}"),
    }
}

async fn read(State(behind): Shared, Path(name): Path<String>) -> Response<String> {
    let resource = ResourceName::new(name).unwrap();
    let value = behind.read(&resource).await;
    let mut response = Response::new(value.map_or_else(String::new, |value| value.to_string()));
    if value.is_none() {
        *response.status_mut() = StatusCode::NOT_FOUND;
    }
    response
}

impl Subject for Service {
    type Place = ServicePlace;

    fn profile(&self) -> Profile {
        let name = format!("an HTTP service, {:?}, {:?}", self.equal, self.missing);
        profile(&name, self.equal)
            .missing_issuer(self.missing)
            .names_target_apart()
            .guards_its_door()
            .without_marks()
    }

    async fn place(&self) -> Result<ServicePlace, Fault> {
        // A request names its target in its path, and a token for another one is foreign there.
        let target = |request: &axum::http::request::Parts| {
            let name = request.uri.path().strip_prefix("/values/")?;
            ResourceName::from_percent_encoded(name).ok()
        };
        let layer = GuardLayer::new(MemoryGuard::new(rules(self.equal)), bank())
            .missing_issuer(self.missing)
            .bound_to(target);
        let router = Router::new()
            .route("/values/{name}", get(read).put(put))
            .layer(layer)
            .with_state(Behind::new(self.fenced, self.equal));
        let served = Served::axum(router).await;
        Ok(ServicePlace { served })
    }
}

impl Place for ServicePlace {
    type Handle = ServiceHandle;

    async fn open(&self) -> Result<ServiceHandle, Fault> {
        Ok(ServiceHandle {
            client: plain(),
            url: self.served.url("/values"),
        })
    }
}

impl ServiceHandle {
    fn url(&self, resource: &ResourceName) -> String {
        format!("{}/{}", self.url, resource.percent_encoded())
    }
}

impl Handle for ServiceHandle {
    async fn write(&mut self, write: &Write, _: &mut Steps) -> Result<Answer, Fault> {
        let presented = &write.presented;
        let mut request = axum::http::Request::builder()
            .method(Method::PUT)
            .uri(self.url(&write.resource))
            .header(headers::FENCING_TOKEN, presented.token.get())
            .header(headers::RESOURCE_ID, presented.resource.header_encoded());
        if let Some(issuer) = &presented.issuer {
            request = request.header(headers::FENCING_ISSUER, issuer.header_encoded());
        }
        let request = request.body(Full::from(write.value.to_string()))?;
        let (status, found, said) = whole(self.client.request(request).await?).await;
        Ok(match status {
            200 => Answer::Admitted,
            400 => Answer::Invalid,
            403 => Answer::Foreign,
            409 => {
                let required = found
                    .get(headers::REQUIRED_TOKEN)
                    .ok_or("no required token")?;
                Answer::Stale {
                    required: Some(required.to_str()?.parse::<TokenValue>()?),
                }
            }
            other => return Err(format!("{other}: {said}").into()),
        })
    }

    async fn read(&mut self, resource: &ResourceName) -> Result<Contents, Fault> {
        let request = axum::http::Request::builder().uri(self.url(resource));
        let request = request.body(Full::default())?;
        let (status, _, said) = whole(self.client.request(request).await?).await;
        let value = match status {
            200 => Some(said.parse()?),
            404 => None,
            other => return Err(format!("{other}: {said}").into()),
        };
        Ok(Contents { value, mark: None })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_whose_writes_carry_the_token_conforms() {
    for (equal, missing) in BOTH
        .into_iter()
        .zip([MissingIssuer::Refuse, MissingIssuer::Accept])
    {
        let service = Service {
            equal,
            missing,
            fenced: true,
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

/// Admitted at the door and written later: in between, a newer holder can come and go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_service_that_only_guards_its_door_is_caught() {
    let service = Service {
        equal: EqualTokens::MayWriteAgain,
        missing: MissingIssuer::Refuse,
        fenced: false,
    };
    let settings = Settings::default().rounds(100);
    let report = check_only(&service, &settings, &[Case::ConcurrentWriters]).await;
    assert_eq!(report.broken(), [Case::ConcurrentWriters], "{report}");
}
