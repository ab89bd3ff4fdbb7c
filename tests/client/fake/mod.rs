//! A node that says what the test tells it to, over a real socket.
//!
//! The tests of the command line borrow it, so not every test binary uses all of it.
#![allow(
    dead_code,
    reason = "shared by two test binaries, each of which uses a part"
)]

use self::pipeline::PipelineAnswers;
use fencepost::wire::failure::Failure;
use fencepost::wire::v1::cluster_server::{Cluster, ClusterServer};
use fencepost::wire::v1::guard_server::GuardServer;
use fencepost::wire::v1::issuer_server::{Issuer, IssuerServer};
use fencepost::wire::v1::*;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{Request, Response, Status};

mod guard;
mod pipeline;
pub(crate) mod watch;

/// What the node does with one call.
pub(crate) enum Act {
    /// The usual answer of the call.
    Answer,
    /// The usual answer, marked as given before.
    Replay,
    /// Somebody else holds it.
    Held,
    /// It was granted after waiting in line.
    Granted,
    /// Its place in line ended without a grant.
    Left(LeftHow),
    /// It stands in line until it is withdrawn.
    InLine,
    /// The usual answer, or another, once the test says so.
    Once(Arc<Notify>, Box<Act>),
    /// The grant to be renewed or released has ended.
    Ended(EndedHow),
    /// There is no such grant to be renewed.
    Unknown,
    /// The stream that carried it ends, without a word.
    Break,
    /// A watch tells these steps, and then nothing.
    Watch(Vec<watch::Step>),
    /// A failure that fencepost itself explains.
    Fail(Failure),
    /// A status of something in between.
    Foreign(Status),
    /// Never an answer.
    Silence,
}

/// Decides by the name of the call and by how often it came before.
type Script = Box<dyn Fn(&'static str, usize) -> Act + Send + Sync>;

/// What a node is when it is asked.
pub(crate) struct Character {
    /// 0: part of no cluster yet.
    pub(crate) cluster: u128,
    pub(crate) applied: u64,
    pub(crate) leader: String,
    pub(crate) grants: Vec<Grant>,
    pub(crate) members: Vec<Member>,
    pub(crate) last_log_index: u64,
    pub(crate) in_touch: bool,
    /// How long a lease is after a renewal.
    pub(crate) lease_ms: u64,
    /// Its version is older than `Pipeline`.
    pub(crate) old: bool,
    pub(crate) script: Script,
}

/// A running node, stopped when it is dropped.
pub(crate) struct Fake {
    pub(crate) address: String,
    node: Node,
    task: JoinHandle<()>,
}

#[derive(Clone)]
struct Node(Arc<Mutex<Inner>>);

struct Inner {
    character: Character,
    calls: BTreeMap<&'static str, usize>,
    acquires: Vec<AcquireRequest>,
    withdraws: Vec<WithdrawRequest>,
    renews: Vec<RenewRequest>,
    releases: Vec<ReleaseRequest>,
    left: BTreeMap<Vec<u8>, Arc<Notify>>,
    watches: Vec<WatchRequest>,
    timeouts: Vec<Option<String>>,
    streams: usize,
    open_streams: usize,
}

impl Fake {
    /// A node of cluster 1 that names itself as the leader and follows `script`.
    pub(crate) async fn start(
        script: impl Fn(&'static str, usize) -> Act + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::start_on(listener, script)
    }

    /// A node that does one thing to each `call` of a name, and answers all others.
    pub(crate) async fn acting(
        call: &'static str,
        act: impl Fn() -> Act + Send + Sync + 'static,
    ) -> Self {
        Self::start(move |called, _| if called == call { act() } else { Act::Answer }).await
    }

    pub(crate) fn start_on(
        listener: TcpListener,
        script: impl Fn(&'static str, usize) -> Act + Send + Sync + 'static,
    ) -> Self {
        let address = listener.local_addr().unwrap().to_string();
        let character = Character {
            cluster: 1,
            applied: 10,
            leader: address.clone(),
            grants: Vec::new(),
            members: Vec::new(),
            last_log_index: 0,
            in_touch: true,
            lease_ms: 30_000,
            old: false,
            script: Box::new(script),
        };
        let node = Node(Arc::new(Mutex::new(Inner {
            character,
            calls: BTreeMap::new(),
            acquires: Vec::new(),
            withdraws: Vec::new(),
            renews: Vec::new(),
            releases: Vec::new(),
            left: BTreeMap::new(),
            watches: Vec::new(),
            timeouts: Vec::new(),
            streams: 0,
            open_streams: 0,
        })));
        let server = tonic::transport::Server::builder()
            .add_service(IssuerServer::new(node.clone()))
            .add_service(ClusterServer::new(node.clone()))
            .add_service(GuardServer::new(node.clone()))
            .serve_with_incoming(TcpListenerStream::new(listener));
        let task = tokio::spawn(async move { server.await.unwrap() });
        Self {
            address,
            node,
            task,
        }
    }

    /// Changes what the node is from now on.
    pub(crate) fn become_(&self, change: impl FnOnce(&mut Character)) {
        change(&mut self.node.0.lock().unwrap().character);
    }

    /// How often `call` arrived.
    pub(crate) fn count(&self, call: &str) -> usize {
        let inner = self.node.0.lock().unwrap();
        inner.calls.get(call).copied().unwrap_or(0)
    }

    pub(crate) fn acquires(&self) -> Vec<AcquireRequest> {
        self.node.0.lock().unwrap().acquires.clone()
    }

    pub(crate) fn withdraws(&self) -> Vec<WithdrawRequest> {
        self.node.0.lock().unwrap().withdraws.clone()
    }

    pub(crate) fn renews(&self) -> Vec<RenewRequest> {
        self.node.0.lock().unwrap().renews.clone()
    }

    pub(crate) fn releases(&self) -> Vec<ReleaseRequest> {
        self.node.0.lock().unwrap().releases.clone()
    }

    pub(crate) fn watches(&self) -> Vec<WatchRequest> {
        self.node.0.lock().unwrap().watches.clone()
    }

    /// How many streams of operations were opened, and how many are open now.
    pub(crate) fn streams(&self) -> (usize, usize) {
        let inner = self.node.0.lock().unwrap();
        (inner.streams, inner.open_streams)
    }

    /// The `grpc-timeout` of each call so far, or what stands for it in an operation.
    pub(crate) fn timeouts(&self) -> Vec<Option<String>> {
        self.node.0.lock().unwrap().timeouts.clone()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Node {
    fn grants(&self, wanted: impl Fn(&Grant) -> bool) -> Vec<Grant> {
        let inner = self.0.lock().unwrap();
        let found = inner.character.grants.iter().filter(|grant| wanted(grant));
        found.cloned().collect()
    }
}

/// A live grant of `holder`.
pub(crate) fn grant(resource: &str, holder: &str, value: u64) -> Grant {
    Grant {
        resource: resource.to_owned(),
        holder: holder.to_owned(),
        token: token(value),
        ttl_ms: 30_000,
        remaining_ms: 12_000,
        renewals: 2,
        granted_at_unix_ms: 1_700_000_000_000,
        expires_at_unix_ms: 1_700_000_030_000,
    }
}

/// An address where nobody listens: the port was free a moment ago.
pub(crate) async fn nowhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    listener.local_addr().unwrap().to_string()
}

impl Node {
    /// Notes the call, and does what the script says; returns the header and the act of an answer.
    async fn enter<T>(
        &self,
        call: &'static str,
        request: &Request<T>,
    ) -> Result<(ResponseHeader, Act), Status> {
        let (header, act) = {
            let mut inner = self.0.lock().unwrap();
            let timeout = request.metadata().get("grpc-timeout");
            let timeout = timeout.map(|value| value.to_str().unwrap().to_owned());
            inner.timeouts.push(timeout);
            let count = inner.calls.entry(call).or_default();
            let before = *count;
            *count += 1;
            let character = &mut inner.character;
            character.applied += 1;
            let header = ResponseHeader {
                cluster_id: match character.cluster {
                    0 => String::new(),
                    cluster => format!("{cluster:032x}"),
                },
                issuer: "test".to_owned(),
                applied_index: character.applied,
                leader: Some(Leader {
                    node_id: 1,
                    address: character.leader.clone(),
                    term: 1,
                }),
                node_id: 1,
            };
            (header, (character.script)(call, before))
        };
        let act = match act {
            Act::Once(said, act) => {
                said.notified().await;
                *act
            }
            act => act,
        };
        match act {
            Act::Fail(failure) => Err(failure.into_status()),
            Act::Foreign(status) => Err(status),
            Act::Break => Err(pipeline::broken()),
            Act::Silence => {
                std::future::pending::<()>().await;
                unreachable!("a pending future never ends")
            }
            act => Ok((header, act)),
        }
    }

    /// What ends the wait of the request `id`.
    fn left(&self, id: &[u8]) -> Arc<Notify> {
        let mut inner = self.0.lock().unwrap();
        Arc::clone(inner.left.entry(id.to_vec()).or_default())
    }
}

pub(crate) fn token(value: u64) -> Option<Token> {
    Some(Token {
        value,
        term: 1,
        index: value,
    })
}

fn ended(value: u64, how: EndedHow) -> Ended {
    Ended {
        token: token(value),
        how: how.into(),
    }
}

#[tonic::async_trait]
impl Issuer for Node {
    async fn acquire(
        &self,
        request: Request<AcquireRequest>,
    ) -> Result<Response<AcquireResponse>, Status> {
        use acquire_response::Outcome;
        self.0
            .lock()
            .unwrap()
            .acquires
            .push(request.get_ref().clone());
        let (header, act) = self.enter("acquire", &request).await?;
        let outcome = match act {
            Act::InLine => {
                self.left(&request.get_ref().request_id).notified().await;
                Outcome::Left(Left {
                    how: LeftHow::Withdrawn.into(),
                })
            }
            Act::Held => Outcome::Held(Held {
                holder: "other".to_owned(),
                token: token(7),
                remaining_ms: 5_000,
                queue: 0,
                replayed: false,
            }),
            Act::Left(how) => Outcome::Left(Left { how: how.into() }),
            act => Outcome::Granted(Granted {
                token: token(header.applied_index),
                lease_ms: request.get_ref().ttl_ms,
                after_wait: matches!(act, Act::Granted),
                replayed: matches!(act, Act::Replay),
                granted_at_unix_ms: 0,
            }),
        };
        Ok(Response::new(AcquireResponse {
            header: Some(header),
            outcome: Some(outcome),
        }))
    }

    async fn renew(
        &self,
        request: Request<RenewRequest>,
    ) -> Result<Response<RenewResponse>, Status> {
        use renew_outcome::Outcome;
        let lease_ms = {
            let mut inner = self.0.lock().unwrap();
            inner.renews.push(request.get_ref().clone());
            inner.character.lease_ms
        };
        let (header, act) = self.enter("renew", &request).await?;
        let renewed = |item: &RenewItem| RenewOutcome {
            outcome: Some(match act {
                Act::Ended(how) => Outcome::Ended(ended(item.token, how)),
                Act::Unknown => Outcome::Unknown(Unknown {}),
                _ => Outcome::Renewed(Renewed { lease_ms }),
            }),
        };
        Ok(Response::new(RenewResponse {
            header: Some(header),
            outcomes: request.get_ref().items.iter().map(renewed).collect(),
        }))
    }

    async fn release(
        &self,
        request: Request<ReleaseRequest>,
    ) -> Result<Response<ReleaseResponse>, Status> {
        use release_response::Outcome;
        let token = request.get_ref().token;
        self.0
            .lock()
            .unwrap()
            .releases
            .push(request.get_ref().clone());
        let (header, act) = self.enter("release", &request).await?;
        Ok(Response::new(ReleaseResponse {
            header: Some(header),
            outcome: Some(match act {
                Act::Ended(how) => Outcome::Ended(ended(token, how)),
                _ => Outcome::Released(Released {}),
            }),
        }))
    }

    async fn inspect(
        &self,
        request: Request<InspectRequest>,
    ) -> Result<Response<InspectResponse>, Status> {
        let (header, _) = self.enter("inspect", &request).await?;
        Ok(Response::new(InspectResponse {
            header: Some(header),
            grant: self
                .grants(|grant| grant.resource == request.get_ref().resource)
                .pop(),
            ..InspectResponse::default()
        }))
    }

    async fn list(&self, request: Request<ListRequest>) -> Result<Response<ListResponse>, Status> {
        let (header, _) = self.enter("list", &request).await?;
        Ok(Response::new(ListResponse {
            header: Some(header),
            grants: self.grants(|grant| grant.resource.starts_with(&request.get_ref().prefix)),
            next_page_token: String::new(),
        }))
    }

    async fn withdraw(
        &self,
        request: Request<WithdrawRequest>,
    ) -> Result<Response<WithdrawResponse>, Status> {
        use withdraw_response::Outcome;
        self.0
            .lock()
            .unwrap()
            .withdraws
            .push(request.get_ref().clone());
        let (header, act) = self.enter("withdraw", &request).await?;
        self.left(&request.get_ref().request_id).notify_one();
        let left = |how: LeftHow| Outcome::Left(Left { how: how.into() });
        let outcome = match act {
            Act::Granted => Outcome::Granted(Granted {
                token: token(header.applied_index),
                lease_ms: 2_000,
                after_wait: true,
                replayed: true,
                granted_at_unix_ms: 0,
            }),
            Act::Left(how) => left(how),
            _ => left(LeftHow::Withdrawn),
        };
        Ok(Response::new(WithdrawResponse {
            header: Some(header),
            outcome: Some(outcome),
        }))
    }

    type PipelineStream = PipelineAnswers;

    async fn pipeline(
        &self,
        request: Request<tonic::Streaming<PipelineRequest>>,
    ) -> Result<Response<Self::PipelineStream>, Status> {
        pipeline::serve(self.clone(), request.into_inner()).map(Response::new)
    }

    type WatchStream = watch::Told;

    async fn watch(
        &self,
        request: Request<WatchRequest>,
    ) -> Result<Response<Self::WatchStream>, Status> {
        watch::serve(self, request).await
    }
}

#[tonic::async_trait]
impl Cluster for Node {
    async fn status(
        &self,
        request: Request<StatusRequest>,
    ) -> Result<Response<StatusResponse>, Status> {
        let (header, _) = self.enter("status", &request).await?;
        let inner = self.0.lock().unwrap();
        Ok(Response::new(StatusResponse {
            header: Some(header),
            role: Role::Leader.into(),
            members: inner.character.members.clone(),
            last_log_index: inner.character.last_log_index,
            in_touch: inner.character.in_touch,
            ..StatusResponse::default()
        }))
    }

    async fn revoke(
        &self,
        request: Request<RevokeRequest>,
    ) -> Result<Response<RevokeResponse>, Status> {
        let (header, _) = self.enter("revoke", &request).await?;
        Ok(Response::new(RevokeResponse {
            header: Some(header),
            outcome: Some(revoke_response::Outcome::Revoked(Revoked {})),
        }))
    }

    async fn raise_floor(
        &self,
        request: Request<RaiseFloorRequest>,
    ) -> Result<Response<RaiseFloorResponse>, Status> {
        let (header, _) = self.enter("raise_floor", &request).await?;
        Ok(Response::new(RaiseFloorResponse {
            header: Some(header),
            floor: 1,
        }))
    }

    async fn add_node(
        &self,
        request: Request<AddNodeRequest>,
    ) -> Result<Response<AddNodeResponse>, Status> {
        let (header, _) = self.enter("add_node", &request).await?;
        Ok(Response::new(AddNodeResponse {
            header: Some(header),
            member: None,
        }))
    }

    async fn promote(
        &self,
        request: Request<PromoteRequest>,
    ) -> Result<Response<PromoteResponse>, Status> {
        let (header, _) = self.enter("promote", &request).await?;
        Ok(Response::new(PromoteResponse {
            header: Some(header),
        }))
    }

    async fn remove_node(
        &self,
        request: Request<RemoveNodeRequest>,
    ) -> Result<Response<RemoveNodeResponse>, Status> {
        let (header, _) = self.enter("remove_node", &request).await?;
        Ok(Response::new(RemoveNodeResponse {
            header: Some(header),
        }))
    }

    async fn transfer_leader(
        &self,
        request: Request<TransferLeaderRequest>,
    ) -> Result<Response<TransferLeaderResponse>, Status> {
        let (header, _) = self.enter("transfer_leader", &request).await?;
        let leader = header.leader.clone();
        Ok(Response::new(TransferLeaderResponse {
            header: Some(header),
            leader,
        }))
    }
}

/// A client whose whole calls take at most `timeout`. It gives a silent node a second, as by default: less
/// would mistake a busy machine for one.
pub(crate) fn client(endpoints: &[&str], timeout: Duration) -> fencepost::client::Client {
    let options = fencepost::client::Options::default().timeout(timeout);
    fencepost::client::Client::connect(endpoints, options).unwrap()
}
